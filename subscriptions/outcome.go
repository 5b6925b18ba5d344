package subscriptions

import (
	"slices"
	"time"

	"github.com/rshub/rshub/journal"
)

// Outcome is the result of one notification for one subscription.
type Outcome int

// The outcomes.
const (
	NotMeant  Outcome = iota // the subscription began after it, or ended before it
	Pending                  // not delivered yet
	Delivered                // the callback answered 2xx
	Skipped                  // within a gap, or the subscription ended first
)

// Outcome returns the result of e, an entry of the subscription's topic, as far as delivery
// was committed. An expired subscription that has not ended may be renewed and go on where
// it stopped, so its missing entries are pending.
//
// An entry before the cursor and in a gap counts as skipped, although a replay may have
// delivered it since. Gaps are intervals of time: if there were more than MaxGaps and some
// were joined, entries that were delivered between them count as skipped too.
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

// covers reports whether e is one of the notifications that g left out: it was received
// before g was recorded, and ends within it. One that begins and ends where g does is
// covered too, because g may have no length.
func covers(g journal.Gap, e *journal.Entry) bool {
	end := e.End()
	if e.ReceivedAt.After(g.At) || end.After(g.Until) {
		return false
	}
	return end.After(g.From) || e.Timed() && !e.From.Before(g.From)
}

// clockSlack is by how much the clocks of two hubs may differ.
const clockSlack = 5 * time.Second

// AllGaps returns the subscription's own gaps and those of its topic since it began, in the
// order in which they were recorded (invariant 10). Head is that of the topic. If retention
// deleted notifications that a paused or failing subscription has not got, it has no gap for
// them yet, and the last of the result is that gap, recorded now.
//
// If clocks differ, AllGaps returns a gap too many rather than one too few. It compares the
// beginning by positions, which come from the store. Two hubs may have written the times of
// the end and of the gap, so it compares these with clockSlack to spare.
func (s *Subscription) AllGaps(head journal.Head, now time.Time) []journal.Gap {
	all := slices.Clone(s.Gaps)
	for _, g := range head.Gaps {
		since := g.Position >= s.Start.Position || g.Position == 0
		if since && (s.EndedAt.IsZero() || !g.At.After(s.EndedAt.Add(clockSlack))) {
			all = append(all, g)
		}
	}
	slices.SortStableFunc(all, func(a, b journal.Gap) int { return a.At.Compare(b.At) })
	return s.addTrimmed(all, head, now)
}

// OwnGaps is AllGaps without those of the topic.
func (s *Subscription) OwnGaps(head journal.Head, now time.Time) []journal.Gap {
	return s.addTrimmed(slices.Clone(s.Gaps), head, now)
}

// addTrimmed adds the gap that delivery has yet to record.
func (s *Subscription) addTrimmed(all []journal.Gap, head journal.Head, now time.Time) []journal.Gap {
	if c := s.Cursor.Anchor; s.EndedAt.IsZero() && c.Position < head.Trimmed.Position {
		if lost := head.TrimmedAfter(c); !lost.Again {
			all = addLag(all, c, lost.To, lost.Reason, now)
		}
	}
	return all
}
