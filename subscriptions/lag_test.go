package subscriptions

import (
	"testing"
	"time"

	"github.com/rshub/rshub/journal"
)

// How far a cursor is behind is counted without what retention took, which is lost.
func TestLagOf(t *testing.T) {
	at := func(seq uint64, until time.Duration) journal.Anchor {
		return journal.Anchor{Position: journal.Position(10 * seq), Seq: seq, Until: t0.Add(until)}
	}
	got := func(a journal.Anchor) journal.Cursor { return journal.Cursor{Anchor: a} }
	failing := journal.Cursor{Attempt: 2, FirstAttemptAt: t0.Add(-time.Minute)}
	later := journal.Cursor{Attempt: 2, FirstAttemptAt: t0.Add(time.Hour)}
	for name, tc := range map[string]struct {
		last, trimmed journal.Anchor
		c             journal.Cursor
		want          Lag
	}{
		"an empty topic":                        {journal.Anchor{}, journal.Anchor{}, got(journal.Anchor{}), Lag{}},
		"at the head":                           {at(9, 0), at(7, -time.Hour), got(at(9, 0)), Lag{}},
		"past a lost tail":                      {at(3, 0), journal.Anchor{}, got(at(9, 0)), Lag{}},
		"behind":                                {at(9, 0), at(2, -9*time.Hour), got(at(7, -time.Hour)), Lag{Notifications: 2, Span: time.Hour}},
		"time went back":                        {at(9, 0), journal.Anchor{}, got(at(7, time.Hour)), Lag{Notifications: 2}},
		"at what retention took last":           {at(9, 0), at(7, -time.Hour), got(at(7, -time.Hour)), Lag{Notifications: 2, Span: time.Hour}},
		"behind what retention took":            {at(9, 0), at(7, -time.Hour), got(at(4, -5*time.Hour)), Lag{Notifications: 2, Lost: 3, Span: time.Hour}},
		"retention took all":                    {at(9, 0), at(9, 0), got(at(4, -5*time.Hour)), Lag{Lost: 5}},
		"nothing was got":                       {at(9, 0), journal.Anchor{}, got(journal.Anchor{}), Lag{Notifications: 9}},
		"nothing was got, and one failed":       {at(9, 0), journal.Anchor{}, failing, Lag{Notifications: 9, Span: time.Minute}},
		"nothing was got, and the clock jumped": {at(9, 0), journal.Anchor{}, later, Lag{Notifications: 9}},
		"nothing was got, and some are lost":    {at(9, 0), at(7, -time.Hour), failing, Lag{Notifications: 2, Lost: 7, Span: time.Hour}},
	} {
		if got := LagOf(tc.last, tc.trimmed, tc.c, t0); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}
