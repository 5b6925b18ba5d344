package delivery

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// skip moves the job's cursor over what was trimmed before it was delivered, and
// records it as a gap. False: the cursor does not stand any more.
func (d *Dispatcher) skip(j *job, to journal.Anchor) bool {
	from := j.cursor.unpack()
	c := j.cursor.moveTo(packAnchor(to))
	if !d.move(j, c) {
		return false
	}
	gap := journal.Gap{From: from.Until, Until: to.Until, Reason: journal.GapRetention, At: time.Now()}
	if to.Seq > from.Seq {
		gap.Count = to.Seq - from.Seq
	}
	d.tellGap(*j, gap)
	d.settler.add(subscriptions.Commit{ID: j.lane.id, Cursor: c.unpack(), Gaps: []journal.Gap{gap}})
	return true
}

// reanchor takes the job's cursor back to the newest entry that was read before
// it and that the journal still has, after the store lost its tail: what follows
// may come twice, nothing is skipped (invariant 5).
func (d *Dispatcher) reanchor(ctx context.Context, j *job) (bool, error) {
	url := j.lane.topic.url
	d.mu.Lock()
	candidates := j.lane.topic.before(j.cursor.anchor)
	d.mu.Unlock()
	to, found := journal.Anchor{}, false
	for _, a := range candidates {
		_, err := d.o.Journal.Read(ctx, url, a.unpack(), 1, 0)
		var trimmed *journal.TrimmedError
		if errors.Is(err, journal.ErrRolledBack) {
			continue
		}
		if err != nil && !errors.As(err, &trimmed) {
			return false, err
		}
		to, found = a.unpack(), true
		break
	}
	if !found {
		head, err := d.o.Journal.Head(ctx, url)
		if err != nil {
			return false, err
		}
		to = head.Trimmed
	}
	d.bodies.forget(j.lane.topic)
	c := j.cursor.moveTo(packAnchor(to))
	c.generation = journal.MintGeneration(j.cursor.generation, time.Now())
	lost := j.cursor.seq
	if !d.move(j, c) {
		return false, nil
	}
	d.log.Warn("the store lost its tail: delivery goes back to what it still has, and what follows may come twice",
		zap.String("event", "rolled_back"), zap.String("topic", url), zap.Stringer("subscription_id", j.lane.id),
		zap.Uint64("from_seq", lost), zap.Uint64("to_seq", to.Seq))
	d.settler.add(subscriptions.Commit{ID: j.lane.id, Cursor: c.unpack()})
	return true, nil
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
