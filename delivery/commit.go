package delivery

import (
	"context"

	"github.com/rshub/rshub/journal"
)

// commit has what was decided stored (group_commit.go), reports it, and puts the lane back.
func (s *sender) commit(_ context.Context, d *delivery) bool {
	if gap := s.gapOf(d); gap.Count > 0 {
		d.done.Gaps = []journal.Gap{gap}
		s.report.skipped(d.job, gap)
	}
	s.report.decided[d.dec.Action].Add(1)
	s.report.attempt(d, d.dec.Action.String(), d.dec.At)
	s.commits.add(d.done)
	s.sched.of(d.lane).do(func(sc *scheduler) { sc.finish(d.job, d.out) })
	return true
}

// gapOf is what the subscription will not get by the decision; a Count of 0: nothing.
func (s *sender) gapOf(d *delivery) (gap journal.Gap) {
	switch e := &d.body.entry; d.dec.Action {
	case PassOver:
		gap = journal.Gap{From: e.From, Until: e.End(), Count: 1, Reason: journal.GapGaveUp, At: s.report.clock.Now()}
		if !e.Timed() {
			gap.From = d.cursor.unpack().Until
		}
	case End:
		// Nobody may have noticed yet that the journal lost the cursor's entry.
		from := d.head.ReadFrom(d.cursor.unpack().Anchor)
		gap = gapBetween(from, d.head.Last, journal.GapGone, s.report.clock.Now())
	}
	return gap
}
