package validate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/rshub/rshub/journal"
)

func at(n int) time.Time { return time.Date(2026, 1, 1, 0, n, 0, 0, time.UTC) }

func timed(from, until int, sum byte) journal.Entry {
	return journal.Entry{Kind: journal.KindChange, From: at(from), Until: at(until), SHA256: [32]byte{sum}}
}

// HUB-55, HUB-57: where an entry stands after what came before, and that a topic
// keeps to the kind of its first notification.
func TestContinuity(t *testing.T) {
	first := uuid.MustParse("01890000-0000-7000-8000-000000000001")
	head := journal.Head{
		Version: "1", Kind: journal.KindChange, From: at(0), Until: at(10),
		ID: first, SHA256: [32]byte{1}, Last: journal.Anchor{Position: 7},
	}
	reset := head
	reset.Reset, reset.Kind = true, ""
	framework := journal.Head{Version: "1", Kind: journal.KindFramework, ID: first, SHA256: [32]byte{1}, Last: journal.Anchor{Position: 7}}
	content := framework
	content.Kind = journal.KindContent
	resetContent := reset
	resetContent.Kind = journal.KindContent
	known := &journal.Interval{From: at(0), Until: at(10), SHA256: [32]byte{1}, ID: first, Position: 7}
	missing := func(until int, reason string) *journal.Gap {
		return &journal.Gap{From: at(10), Until: at(until), Reason: reason}
	}
	elsewhere := time.FixedZone("", 2*60*60)
	untimed := func(kind journal.Kind, sum byte) journal.Entry {
		return journal.Entry{Kind: kind, SHA256: [32]byte{sum}}
	}

	for _, tc := range []struct {
		name  string
		head  journal.Head
		known *journal.Interval
		entry journal.Entry
		flag  bool
		want  Decision
	}{
		{"a topic's first may start anywhere", journal.Head{}, nil, timed(500, 510, 1), false, Decision{}},
		{"a topic that was removed may start anywhere", journal.Head{Version: "2", Last: head.Last, Removed: head.Last}, nil, timed(3, 4, 1), false, Decision{}},
		{"a topic that was removed takes any kind", journal.Head{Version: "2", Last: head.Last, Removed: head.Last}, nil, untimed(journal.KindFramework, 0), false, Decision{}},
		{"the next interval", head, nil, timed(10, 20, 2), false, Decision{ExpectedFrom: at(10)}},
		{"an interval of length zero", head, nil, timed(10, 10, 2), false, Decision{ExpectedFrom: at(10)}},
		{
			"instants are compared, not their spelling", head, nil,
			journal.Entry{Kind: journal.KindChange, From: at(10).In(elsewhere), Until: at(20)},
			false,
			Decision{ExpectedFrom: at(10)},
		},
		{
			"the same again", head, known, timed(0, 10, 1), false,
			Decision{Result: Duplicate, ID: first, Position: 7, ExpectedFrom: at(10)},
		},
		{
			"the same again after a reset", reset, known, timed(0, 10, 1), false,
			Decision{Result: Duplicate, ID: first, Position: 7},
		},
		{
			"the same again where a topic ends that went back after a reset", func() journal.Head {
				h := head
				h.From, h.Until = at(-5), at(0)
				return h
			}(), known, timed(0, 10, 1), false, Decision{ExpectedFrom: at(0)},
		},
		{
			"the same interval of length zero", func() journal.Head {
				h := head
				h.From = at(10)
				return h
			}(), &journal.Interval{From: at(10), Until: at(10), SHA256: [32]byte{1}, ID: first, Position: 7}, timed(10, 10, 1), false,
			Decision{Result: Duplicate, ID: first, Position: 7, ExpectedFrom: at(10)},
		},
		{
			"the same interval with other bytes", head, known, timed(0, 10, 2), true,
			Decision{Result: Conflict, ID: first, Position: 7, ExpectedFrom: at(10)},
		},
		{
			"a gap is refused", head, nil, timed(11, 20, 2), false,
			Decision{Result: Gap, ExpectedFrom: at(10), Gap: missing(11, journal.GapSource)},
		},
		{
			"a gap is accepted and recorded under flag", head, nil, timed(11, 20, 2), true,
			Decision{ExpectedFrom: at(10), Gap: missing(11, journal.GapSource)},
		},
		{"an overlap", head, nil, timed(9, 20, 2), false, Decision{Result: Overlap, ExpectedFrom: at(10)}},
		{"an overlap under flag", head, nil, timed(9, 20, 2), true, Decision{Result: Overlap, ExpectedFrom: at(10)}},
		{"later after a reset", reset, nil, timed(50, 60, 2), false, Decision{Gap: missing(50, journal.GapReset)}},
		{"earlier after a reset", reset, nil, timed(5, 60, 2), false, Decision{}},
		{"going on after a reset", reset, nil, timed(10, 60, 2), false, Decision{}},
		{
			"another kind", head, nil, untimed(journal.KindFramework, 2), false,
			Decision{Result: OtherKind, ExpectedFrom: at(10)},
		},
		{
			"another kind with an interval that would fit", framework, nil, timed(10, 20, 2), true,
			Decision{Result: OtherKind},
		},
		{"content after a reset", reset, nil, untimed(journal.KindContent, 2), false, Decision{}},
		{"another kind after a reset", reset, nil, untimed(journal.KindFramework, 2), false, Decision{}},
		{"content, and nothing else yet, after a reset", resetContent, nil, untimed(journal.KindFramework, 2), false, Decision{}},
		{"a first notification after content", content, nil, timed(500, 510, 2), false, Decision{}},
		{"a first one without an interval after content", content, nil, untimed(journal.KindFramework, 2), false, Decision{}},
		{"a first one that has the bytes of the content before it", content, nil, untimed(journal.KindFramework, 1), false, Decision{}},
		{"without an interval", framework, nil, untimed(journal.KindFramework, 2), false, Decision{}},
		{
			"without an interval, the head's bytes", framework, nil, untimed(journal.KindFramework, 1), false,
			Decision{Result: Duplicate, ID: first, Position: 7},
		},
		{"the first with an interval, after some without", framework, nil, func() journal.Entry {
			e := timed(3, 4, 2)
			e.Kind = journal.KindFramework
			return e
		}(), false, Decision{}},
		{"plain content is never a duplicate (HUB-60)", content, nil, untimed(journal.KindContent, 1), false, Decision{}},
		{"plain content after notifications", head, nil, untimed(journal.KindContent, 1), false, Decision{Result: OtherKind, ExpectedFrom: at(10)}},
		{"a first one of no bytes is no duplicate of nothing", journal.Head{}, nil, untimed(journal.KindContent, 0), false, Decision{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.want.Kind = tc.head.Kind
			if d := cmp.Diff(tc.want, Continuity(tc.head, tc.known, tc.entry, tc.flag)); d != "" {
				t.Error(d)
			}
		})
	}
}

// model is a topic as a store keeps it, with nothing forgotten.
type model struct {
	head    journal.Head
	entries []journal.Entry
}

func (m *model) publish(e journal.Entry, flag bool) Decision {
	var known *journal.Interval
	for i, old := range m.entries {
		if old.From.Equal(e.From) && old.Until.Equal(e.Until) {
			known = &journal.Interval{From: old.From, Until: old.Until, SHA256: old.SHA256, Position: journal.Position(i + 1)}
		}
	}
	d := Continuity(m.head, known, e, flag)
	if d.Result == Append {
		e.Gap = d.Gap
		m.entries = append(m.entries, e)
		m.head = journal.Head{Version: "x", Kind: e.Kind, From: e.From, Until: e.Until, SHA256: e.SHA256}
	}
	return d
}

// Invariant 2: whatever Sources send, what is accepted under strict is without
// gap and overlap, and no interval is in it twice.
func TestWhatIsAcceptedUnderStrictIsContinuous(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m model
		for range rapid.IntRange(1, 40).Draw(t, "publishes") {
			from := rapid.IntRange(0, 6).Draw(t, "from")
			length := rapid.IntRange(0, 3).Draw(t, "length")
			m.publish(timed(from, from+length, rapid.Byte().Draw(t, "bytes")%3), false)
		}
		seen := make(map[[2]time.Time]bool)
		for i, e := range m.entries {
			if i > 0 && !e.From.Equal(m.entries[i-1].Until) {
				t.Fatalf("entry %d starts at %v, and the one before it ends at %v", i, e.From, m.entries[i-1].Until)
			}
			if e.Gap != nil {
				t.Fatalf("entry %d was accepted with a gap", i)
			}
			interval := [2]time.Time{e.From, e.Until}
			if seen[interval] {
				t.Fatalf("the interval of entry %d was accepted twice", i)
			}
			seen[interval] = true
		}
	})
}

// Invariant 10: under flag every gap between two entries is recorded, exactly as
// wide as it is, and there are still no overlaps.
func TestEveryGapUnderFlagIsRecorded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m model
		for range rapid.IntRange(1, 40).Draw(t, "publishes") {
			from := rapid.IntRange(0, 30).Draw(t, "from")
			m.publish(timed(from, from+rapid.IntRange(0, 3).Draw(t, "length"), rapid.Byte().Draw(t, "bytes")%3), true)
		}
		for i, e := range m.entries {
			if i == 0 {
				continue
			}
			before := m.entries[i-1].Until
			switch {
			case e.From.Before(before):
				t.Fatalf("entry %d overlaps", i)
			case e.From.Equal(before) != (e.Gap == nil):
				t.Fatalf("entry %d from %v after %v has the gap %+v", i, e.From, before, e.Gap)
			case e.Gap != nil && (!e.Gap.From.Equal(before) || !e.Gap.Until.Equal(e.From)):
				t.Fatalf("entry %d after %v records %+v", i, before, e.Gap)
			}
		}
	})
}

// A publish that is sent again, at any time after, is a duplicate or what it was
// before, and never stored a second time.
func TestPublishingAgainChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m model
		var sent []journal.Entry
		for range rapid.IntRange(1, 20).Draw(t, "publishes") {
			from := rapid.IntRange(0, 6).Draw(t, "from")
			e := timed(from, from+rapid.IntRange(1, 3).Draw(t, "length"), rapid.Byte().Draw(t, "bytes")%3)
			if m.publish(e, false).Result == Append {
				sent = append(sent, e)
			}
		}
		for _, e := range sent {
			if d := m.publish(e, false); d.Result != Duplicate {
				t.Fatalf("sent again: %v", d.Result)
			}
		}
		if len(m.entries) != len(sent) {
			t.Fatalf("%d entries of %d", len(m.entries), len(sent))
		}
	})
}
