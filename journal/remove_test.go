package journal

import (
	"testing"
	"time"
)

// A reader who has the changes up to an instant misses none that the Source sent again up to it, whatever their numbers are.
// Entries without intervals say nothing of the kind, nor do instants of before a reset.
func TestTrimmedAfter(t *testing.T) {
	at := func(position Position, seq uint64, minute int) Anchor {
		return Anchor{Position: position, Seq: seq, Until: time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC)}
	}
	h := Head{Kind: KindChange, Trimmed: at(90, 9, 10), Last: at(99, 10, 11)}
	for _, c := range []struct {
		name string
		head Head
		has  Anchor
		want TrimmedError
	}{
		{"less", h, at(50, 5, 9), TrimmedError{To: h.Trimmed, Reason: GapRetention}},
		{"as much", h, at(50, 5, 10), TrimmedError{To: h.Trimmed, Reason: GapRetention, Again: true}},
		{"more", h, at(50, 5, 12), TrimmedError{To: h.Trimmed, Reason: GapRetention, Again: true}},
		{"more, before the topic was reset", Head{Kind: KindChange, Epoch: 1, Trimmed: h.Trimmed}, at(50, 5, 12), TrimmedError{To: h.Trimmed, Reason: GapRetention}},
		{"nothing", h, Anchor{}, TrimmedError{To: h.Trimmed, Reason: GapRetention}},
		{"content of the same instant", Head{Kind: KindContent, Trimmed: h.Trimmed}, at(50, 5, 10), TrimmedError{To: h.Trimmed, Reason: GapRetention}},
		{"what was removed", Head{Kind: KindChange, Trimmed: h.Trimmed, Removed: h.Trimmed}, at(50, 5, 10), TrimmedError{To: h.Trimmed, Reason: GapRemoved}},
	} {
		if got := c.head.TrimmedAfter(c.has); *got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, *got, c.want)
		}
	}
}
