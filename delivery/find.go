package delivery

import (
	"context"
	"errors"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// errSuperseded is the error if the lane got another cursor, or is gone.
var errSuperseded = errors.New("the subscription changed meanwhile")

// find finds the entry after the lane's cursor, with its body. A subscription whose results the
// store refuses waits: it gets nothing more until they are stored.
func (s *sender) find(ctx context.Context, d *delivery) bool {
	if s.commits.of(d.lane.id).blocks(d.lane.id) {
		s.delay(&d.job, false)
		return false
	}
	b, err := s.next(ctx, &d.job)
	if err != nil {
		s.notNow(&d.job, b, err)
		return false
	}
	d.body = b
	return true
}

// next returns the entry after the job's cursor. Where entries were trimmed, lost or
// damaged before they were delivered, it moves the cursor and goes on.
func (s *sender) next(ctx context.Context, j *job) (*body, error) {
	for {
		if !s.rewinder.awaitFork(j) {
			return nil, errSuperseded
		}
		wait, ask, over := s.troubles.obstacle(j)
		if wait {
			return nil, errWait
		}
		if ask {
			s.ask(ctx, j)
			continue
		}
		if over != nil {
			if !s.skip(j, *over, journal.GapDamaged, false) {
				return nil, errSuperseded
			}
			continue
		}
		b, err := s.bodies.get(ctx, j.lane.topic.topic, j.cursor.anchor(), j.lane.host, j.health())
		var trimmed *journal.TrimmedError
		var moved bool
		switch {
		case errors.Is(err, errAgain):
			continue
		case errors.As(err, &trimmed) && trimmed.To.Position > j.cursor.position:
			to, reason, again := trimmed.To, trimmed.Reason, trimmed.Again
			if at := s.troubles.damageBefore(j, to); at != nil {
				to, reason, again = *at, journal.GapDamaged, false
			}
			if reason == journal.GapRemoved && s.shards.endedElsewhere(ctx, j) {
				return nil, errSuperseded
			}
			moved = s.skip(j, to, reason, again)
		case errors.Is(err, journal.ErrRolledBack):
			if err := s.rewinder.reanchor(ctx, j); err != nil {
				s.troubles.wasRead(keyOf(j.lane.topic.topic, j.cursor.anchor()), err)
				return nil, err
			}
			moved = s.rewinder.stands(j)
		case errors.Is(err, journal.ErrDamaged):
			if _, _, over := s.troubles.obstacle(j); over == nil {
				return nil, errWait
			}
			continue
		default:
			return b, err
		}
		if !moved {
			return nil, errSuperseded
		}
	}
}

// ask asks the store for the entry after the job's cursor, to see whether it answers. It reads no body.
func (s *sender) ask(ctx context.Context, j *job) {
	t, a := j.lane.topic.topic, j.cursor.anchor()
	_, err := s.journal.Read(ctx, t.url, a.unpack(), 1, 0)
	if err == nil {
		err = errHead // so nothing is known of the entry
	}
	s.troubles.wasRead(keyOf(t, a), err)
}

// skip moves the job's cursor over what it will not get, up to an anchor, and records
// it as a gap. False: the cursor does not stand any more. If no entry is missing before the anchor, as
// where a journal that was lost goes on (journal.Head.Regain), or what is skipped was received before (again), there is no gap.
func (s *sender) skip(j *job, to journal.Anchor, reason string, again bool) (ok bool) {
	from, c := j.cursor.unpack(), j.cursor.moveTo(packAnchor(to))
	if s.sched.of(j.lane).do(func(sc *scheduler) { ok = sc.move(j, c) }); !ok {
		return false
	}
	commit := subscriptions.Commit{ID: j.lane.id, Cursor: c.unpack()}
	if gap := gapBetween(from.Anchor, to, reason, s.report.clock.Now()); !again && (gap.Count > 0 || !gap.From.Equal(gap.Until)) {
		s.report.skipped(*j, gap)
		commit.Gaps = []journal.Gap{gap}
	}
	s.commits.add(commit)
	return true
}

// gapBetween is the gap between two anchors of a topic.
func gapBetween(from, to journal.Anchor, reason string, at time.Time) journal.Gap {
	return journal.Gap{
		From: from.Until, Until: to.Until, Count: to.Seq - min(from.Seq, to.Seq), Reason: reason, At: at,
	}
}
