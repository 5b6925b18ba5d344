package journal

import (
	"testing"
	"time"
)

// Reading from there finds what ends after an instant, however far away that is, and does not
// begin with what is much older.
func TestBefore(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC) }
	h := Head{Trimmed: Anchor{Position: PositionAt(at(0)), Seq: 3}, Last: Anchor{Position: PositionAt(at(100)), Seq: 9}}
	for since, want := range map[time.Time]Anchor{
		{}: h.Trimmed,
		time.Date(1600, 1, 1, 0, 0, 0, 0, time.UTC): h.Trimmed, // beyond what nanoseconds count
		at(15):  h.Trimmed,
		at(16):  {Position: PositionAt(at(1))},
		at(115): {Position: PositionAt(at(100))},
		at(116): h.Last,
		time.Date(2600, 1, 1, 0, 0, 0, 0, time.UTC): h.Last,
	} {
		if got := h.Before(since); got != want {
			t.Errorf("since %v: %+v, want %+v", since, got, want)
		}
	}
	if got := (Head{}).Before(at(0)); got != (Anchor{}) {
		t.Errorf("of a topic without entries: %+v", got)
	}
}
