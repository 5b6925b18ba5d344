package delivery

import (
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// apply accepts the present state of a subscription with a callback at a host. It returns
// the topic if its first lane here is new. False: a 410 of the subscription waits to be stored, and may end it.
// Read the subscription again after that.
func (s *scheduler) apply(sub *subscriptions.Subscription, hostPort string) (fresh *topic, ok bool) {
	l, now := s.lane(sub.ID), s.read()
	// Expiry is computed when it matters and ends no lane: the lease may be
	// renewed in time, or the clock come back.
	switch ended := !sub.EndedAt.IsZero(); {
	case ended && l == nil:
	case ended:
		s.remove(l)
	case l == nil:
		// A 410 may have removed the lane a moment ago, with results that are not
		// stored yet. These count, unless the subscription was renewed since.
		next := s.ahead(*sub)
		if !next.EndedAt.IsZero() {
			return nil, false
		}
		fresh = s.add(&next, hostPort, now)
	default:
		c := journal.Merge(l.cursor.unpack(), sub.Cursor)
		if renewed := nanos(sub.VerifiedAt) > l.lease; renewed && c.Generation == sub.Cursor.Generation && c.Position > sub.Cursor.Position {
			// The store nudged a cursor that delivery has left behind.
			c = subscriptions.Nudge(c, instant(now.wall))
		}
		l.set(sub)
		s.advance(l, packCursor(c), now)
	}
	return fresh, true
}

// add creates the lane of a subscription that has not ended. It returns its topic if that is the first lane of it.
func (s *scheduler) add(sub *subscriptions.Subscription, hostPort string, now reading) (fresh *topic) {
	t := s.topics[sub.Topic]
	if t == nil {
		fresh = s.registry.join(sub.Topic)
		t = &topicLanes{topic: fresh}
		s.topics[sub.Topic] = t
	}
	h := s.hosts.host(hostPort, sub.Callback)
	l := &lane{id: sub.ID, topic: t, host: h, cursor: packCursor(sub.Cursor), timer: -1}
	l.set(sub)
	if l.cursor.status > 0 && h.health != quick {
		h.health = quick
		s.relist(h)
	}
	l.retryAfter = overloaded(int(l.cursor.status)) // it may have come with a Retry-After
	s.setOf(l.id).lanes.add(l)
	t.members.add(l, &l.inTopic)
	h.members.add(l, &l.inHost)
	s.place(l, now)
	return fresh
}

// remove drops a lane. It stores nothing.
func (s *scheduler) remove(l *lane) {
	switch l.state {
	case gone:
		return
	case ready:
		s.turns.ready--
	}
	l.state = gone
	s.timers.drop(l)
	if set := s.setOf(l.id); set != nil {
		set.lanes.remove(l)
	}
	t, h := l.topic, l.host
	t.members.remove(l.inTopic, inTopic)
	h.members.remove(l.inHost, inHost)
	if len(t.lanes) == 0 && s.topics[t.url] == t {
		delete(s.topics, t.url)
		if s.registry.leave(t.topic) {
			s.troubles.forget(t.topic)
		}
	}
	s.hosts.forget(h)
	s.resumeLarge()
}

// advance gives a lane a cursor that is as great as the one it has or greater.
func (s *scheduler) advance(l *lane, c cursor, now reading) {
	if c == l.cursor {
		if l.state == idle {
			s.proceed(l, now, false) // the lease may be longer now
		}
		return
	}
	l.cursor, l.retryAfter = c, overloaded(int(c.status))
	s.troubles.lookAgain(l, now) // a "retry now" is worth a look
	if c.next <= now.wall {
		s.hosts.probeBy(l.host, now.mono) // a replay, a renewal or a "retry now" is worth a probe
	}
	if l.state == waiting || l.state == idle {
		s.timers.drop(l)
		s.place(l, now)
	}
}

// goBack gives a lane the position of an anchor in a new generation (invariant 4).
func (s *scheduler) goBack(l *lane, to anchor) subscriptions.Commit {
	now := s.read()
	c := l.cursor.moveTo(to)
	c.generation = journal.MintGeneration(l.cursor.generation, instant(now.wall))
	s.advance(l, c, now)
	return subscriptions.Commit{ID: l.id, Cursor: c.unpack()}
}
