package subscriptions

import (
	"slices"
	"time"

	"github.com/rshub/rshub/journal"
)

// Outcome is what became of one notification at one subscription.
type Outcome int

// The outcomes.
const (
	NotMeant  Outcome = iota // the subscription began after it, or ended before it
	Pending                  // not delivered yet
	Delivered                // taken with a 2xx
	Skipped                  // within a gap, or the subscription ended before it came to it
)

// Outcome tells what became of e, an entry of the subscription's topic, as far
// as delivery was committed. An expired subscription that has not ended may be
// taken up again where it stopped, so that what it lacks is pending.
//
// What lies behind the cursor and in a gap counts as skipped, although a replay
// may have delivered it since. Gaps are intervals of time: where MaxGaps of them
// were joined, what was delivered between two counts as skipped as well.
func (s *Subscription) Outcome(e *journal.Entry) Outcome {
	ended := !s.EndedAt.IsZero()
	switch {
	case e.Position <= s.Start.Position:
		return NotMeant
	case e.Position > s.Cursor.Position && !ended:
		return Pending
	case e.Position > s.Cursor.Position && e.ReceivedAt.After(s.EndedAt):
		return NotMeant
	case e.Position > s.Cursor.Position:
		return Skipped
	case slices.ContainsFunc(s.Gaps, func(g journal.Gap) bool { return covers(g, e) }):
		return Skipped
	default:
		return Delivered
	}
}

// covers tells whether e is one of the notifications that g left out: it was
// received before g was recorded, and ends within it. One that begins and ends
// with it is in it although it may have no length.
func covers(g journal.Gap, e *journal.Entry) bool {
	end := e.End()
	if e.ReceivedAt.After(g.At) || end.After(g.Until) {
		return false
	}
	return end.After(g.From) || e.Timed() && !e.From.Before(g.From)
}

// clockSlack is by how much the clocks of two hubs may differ.
const clockSlack = 5 * time.Second

// AllGaps returns what a subscriber lacks: the subscription's own gaps, and
// those of its topic, whose head is given, since it began; in the order in which
// they were recorded (invariant 10).
//
// Where clocks differ, one too many is named rather than one too few: the
// beginning is compared by positions, which are the store's, and the end, which
// another hub may have written than that of the gap, with clockSlack to spare.
func (s *Subscription) AllGaps(head journal.Head) []journal.Gap {
	all := slices.Clone(s.Gaps)
	for _, g := range head.Gaps {
		since := g.Position >= s.Start.Position || g.Position == 0
		if since && (s.EndedAt.IsZero() || !g.At.After(s.EndedAt.Add(clockSlack))) {
			all = append(all, g)
		}
	}
	slices.SortStableFunc(all, func(a, b journal.Gap) int { return a.At.Compare(b.At) })
	return all
}
