package subscriptions

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/rshub/rshub/journal"
)

// What a commit does, in each case of Apply (invariants 3, 8 and 10).
func TestApply(t *testing.T) {
	lease := t0.Add(-time.Hour)
	gap := func(n uint64) journal.Gap {
		return journal.Gap{From: entry(n).Until, Until: entry(n + 1).Until, Count: 1, Reason: journal.GapGaveUp, At: t0}
	}
	type commit = func(*Commit)
	at := func(c journal.Cursor) commit { return func(m *Commit) { m.Cursor = c } }
	gaps := func(g ...journal.Gap) commit { return func(m *Commit) { m.Gaps = g } }
	gone := func(lease time.Time) commit {
		return func(m *Commit) { m.End, m.EndedAt, m.Lease = EndGone, t0, lease }
	}
	next := journal.Cursor{Generation: 7, Anchor: entry(13)}
	for name, tc := range map[string]struct {
		ended     bool // before the commit
		commit    []commit
		won, ends bool
		gaps      []journal.Gap // in the end
	}{
		"a greater cursor":                         {commit: []commit{at(next)}, won: true},
		"the same cursor":                          {commit: []commit{at(journal.Cursor{Generation: 7, Anchor: entry(12)}), gaps(gap(20)), gone(lease)}},
		"a smaller cursor":                         {commit: []commit{at(journal.Cursor{Generation: 6, Anchor: entry(90)}), gaps(gap(20)), gone(lease)}},
		"gaps":                                     {commit: []commit{at(next), gaps(gap(12), gap(20))}, won: true, gaps: []journal.Gap{gap(12), gap(20)}},
		"the end of the lease":                     {commit: []commit{at(next), gone(lease)}, won: true, ends: true},
		"the end of the lease, with gaps":          {commit: []commit{at(next), gaps(gap(12)), gone(lease)}, won: true, ends: true, gaps: []journal.Gap{gap(12)}},
		"the end of an earlier lease":              {commit: []commit{at(next), gaps(gap(12)), gone(lease.Add(-1))}},
		"of what ended: a greater cursor":          {ended: true, commit: []commit{at(next)}, won: true},
		"of what ended: gaps":                      {ended: true, commit: []commit{at(next), gaps(gap(12))}, won: true},
		"of what ended: another end":               {ended: true, commit: []commit{at(next), gone(lease)}, won: true},
		"of what ended: a smaller cursor and gaps": {ended: true, commit: []commit{at(journal.Cursor{Generation: 7}), gaps(gap(12))}},
	} {
		s := aSubscription()
		s.Cursor, s.VerifiedAt = journal.Cursor{Generation: 7, Anchor: entry(12)}, lease
		if tc.ended {
			s.EndedAt, s.EndReason = t0.Add(-time.Minute), EndRemoved
		}
		want := *s
		c := Commit{ID: s.ID}
		for _, set := range tc.commit {
			set(&c)
		}
		if tc.won {
			want.Cursor, want.Gaps = c.Cursor, tc.gaps
		}
		if tc.ends {
			want.EndedAt, want.EndReason = t0, EndGone
		}
		won, ends := s.Apply(&c)
		if d := cmp.Diff(&want, s); won != tc.won || ends != tc.ends || d != "" {
			t.Errorf("%s: took effect: %v, ended it: %v, (-want +got)\n%s", name, won, ends, d)
		}
	}
}

// Of a commit that is CursorOnly the greater cursor stays and nothing else changes,
// whatever the subscription is like. Stores rely on that, and do not read it.
func TestCursorOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cursor := func(what string) journal.Cursor {
			n := rapid.Uint64Range(0, 3).Draw(t, what)
			return journal.Cursor{Generation: n % 2, Anchor: entry(n / 2), Attempt: uint32(rapid.IntRange(0, 2).Draw(t, what+", attempt"))}
		}
		s := aSubscription()
		s.Cursor = cursor("stored")
		if rapid.Bool().Draw(t, "ended") {
			s.EndedAt, s.EndReason = t0, EndRemoved
		}
		c := Commit{ID: s.ID, Cursor: cursor("committed"), Lease: rapid.SampledFrom([]time.Time{{}, s.VerifiedAt}).Draw(t, "lease")}
		c.Attempts = make([]Attempt, rapid.IntRange(0, 1).Draw(t, "attempts"))
		for i := range c.Attempts {
			c.Attempts[i].NotificationID = uuid.New()
		}
		want := *s
		want.Cursor = journal.Merge(s.Cursor, c.Cursor)
		greater := want.Cursor != s.Cursor
		won, ended := s.Apply(&c)
		if d := cmp.Diff(&want, s); !c.CursorOnly() || won != greater || ended || d != "" {
			t.Errorf("CursorOnly: %v, took effect: %v, ended it: %v, (-want +got)\n%s", c.CursorOnly(), won, ended, d)
		}
	})
	if (&Commit{Gaps: make([]journal.Gap, 1)}).CursorOnly() || (&Commit{End: EndGone}).CursorOnly() {
		t.Error("a gap or an end is more than a cursor")
	}
}
