package delivery

import (
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// skip moves the job's cursor over what it will not get, up to an anchor, and records
// it as a gap. False: the cursor does not stand any more.
func (d *Dispatcher) skip(j *job, to journal.Anchor, reason string) bool {
	from := j.cursor.unpack()
	c := j.cursor.moveTo(packAnchor(to))
	if !d.move(j, c) {
		return false
	}
	gap := journal.Gap{From: from.Until, Until: to.Until, Reason: reason, At: d.o.Clock.Now()}
	if to.Seq > from.Seq {
		gap.Count = to.Seq - from.Seq
	}
	d.tellGap(*j, gap)
	d.commits.add(subscriptions.Commit{ID: j.lane.id, Cursor: c.unpack(), Gaps: []journal.Gap{gap}})
	return true
}

// move gives the job and its lane another cursor. False: the lane has another
// one already.
func (d *Dispatcher) move(j *job, c cursor) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.holds(*j) {
		return false
	}
	j.lane.cursor, j.cursor = c, c
	return true
}
