package delivery

import (
	"errors"

	"github.com/rshub/rshub/subscriptions"
)

// leaves removes a lane that goes with its shard. It reports whether it is gone.
func (s *scheduler) leaves(l *lane) bool {
	if set := s.setOf(l.id); set == nil || set.closing {
		s.remove(l)
	}
	return l.state == gone
}

// putBack puts a lane where its cursor says, when its sender is done with it.
func (s *scheduler) putBack(j job) {
	s.place(j.lane, s.read())
	s.release(j)
}

// giveBack puts a lane back as if it had not been picked.
func (s *scheduler) giveBack(j job) {
	if !j.set.delivers() {
		s.remove(j.lane) // as its shard goes
	}
	s.putBack(j)
}

// atHead puts a lane back that is at the head of its topic, if that did not move
// since the lane was picked.
func (s *scheduler) atHead(j job) {
	if t := j.lane.topic; t.headSets == j.headSets && j.stands() && t.behind(j.lane) {
		// What was known is older than this lane's cursor.
		s.setHead(t, j.cursor.anchor())
	}
	s.putBack(j)
}

// finish puts the lane back after an attempt.
func (s *scheduler) finish(j job, out outcome) {
	s.observe(j, out)
	s.putBack(j)
}

// park puts a lane back that waits for a body or for a sender, and releases its sender.
func (s *scheduler) park(j job) {
	if !s.leaves(j.lane) {
		j.lane.state = parked
	}
	s.release(j)
}

// unpark makes parked lanes ready. With reserved, the first of them goes before the turns of
// all others, because it had its own. If turns last longer than a body is kept, no lane would
// find the body otherwise. Unused: none of them could.
func (s *scheduler) unpark(lanes []*lane, reserved bool) (unused bool) {
	now := s.read()
	for _, l := range lanes {
		if l.state == parked {
			l.state = idle
			s.proceed(l, now, reserved)
			reserved = reserved && l.state != ready
		}
	}
	return reserved
}

// delay makes lanes wait a moment, each for a random time of its own. A sender has them, or
// they are parked. Their cursors stay. With unread, their entry could not be read: then they
// wait for the troubles of their topic. If the entry is damaged, they store since when that is
// known.
func (s *scheduler) delay(lanes []*lane, unread bool) (seen []subscriptions.Commit) {
	now := s.read()
	for _, l := range lanes {
		if s.leaves(l) || l.state != inFlight && l.state != parked {
			continue
		}
		at := now.mono + int64(float64(storeBackoff)*(1+s.rnd()))
		if unread {
			until, since := s.troubles.waitFor(l, now)
			if until > 0 {
				at = until
			}
			if since > 0 {
				l.cursor.first = since
				seen = append(seen, subscriptions.Commit{ID: l.id, Cursor: l.cursor.unpack()})
			}
		}
		s.waitUntil(l, at)
	}
	return seen
}

// giveBack puts a lane back as if it had not been picked.
func (s *sender) giveBack(j *job) {
	s.sched.of(j.lane).do(func(sc *scheduler) { sc.giveBack(*j) })
}

// delay makes a lane wait a moment. With unread, its entry could not be read.
func (s *sender) delay(j *job, unread bool) {
	var seen []subscriptions.Commit
	s.sched.of(j.lane).do(func(sc *scheduler) {
		seen = sc.delay([]*lane{j.lane}, unread)
		sc.release(*j)
	})
	s.commits.add(seen...)
}

// notNow puts a lane back for which next found nothing.
func (s *sender) notNow(j *job, b *body, err error) {
	switch {
	case errors.Is(err, errSuperseded):
		s.giveBack(j)
	case errors.Is(err, errHead):
		s.sched.of(j.lane).do(func(sc *scheduler) { sc.atHead(*j) })
	case errors.Is(err, errNoRoom):
		s.sched.of(j.lane).do(func(sc *scheduler) { sc.park(*j) })
		if !s.bodies.wait(b, j.lane, j.health()) {
			s.bodies.unpark([]*lane{j.lane}, true)
		}
	default:
		s.delay(j, true)
	}
}
