package delivery

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// scheduler knows what each lane waits for, and says which one is next. It does no I/O and
// starts no goroutine: time comes from its clocks and chance from rnd, so that it runs in a
// simulation as it does in a hub. It may be used by one goroutine at a time: in a hub,
// sharedScheduler sees to that.
//
// It owns the lanes (lane.go), their topics, and their hosts. The fair order is that of
// turns (turns.go), and the health of hosts that of hosts (health.go).
type scheduler struct {
	clocks
	policy Policy
	rnd    func() float64
	// signal says that a sender may find something to start, and wake that step may have
	// something to do earlier than it said.
	signal, wake func()
	// ahead returns a stored subscription with the results that wait to be stored.
	ahead    func(subscriptions.Subscription) subscriptions.Subscription
	troubles *troubles
	limits   *limits
	bulk     func(size int64) int // room.bulk

	turns  turns
	hosts  hosts
	topics map[string]*topic
	sets   [journal.Partitions]*laneSet // of shards that are this hub's

	timers     timers[*lane]           // waiting lanes
	walks      ring[*topic]            // topics whose lanes are being walked over
	revivals   ring[*host]             // the same of hosts
	heavyLanes [2]ring[*lane]          // parked ones, which found no sender to spare, by how heavy
	partitions [journal.Partitions]int // topics with lanes
}

// laneSet is the lanes of a shard, from when it is taken until it is yielded or cut.
type laneSet struct {
	ctx     context.Context // of its exchanges
	lanes   map[uuid.UUID]*lane
	closing bool          // no delivery starts any more
	active  int           // lanes that senders have
	drained chan struct{} // closed when active is 0; nil: nobody waits for that
}

// delivers reports whether attempts may be begun for the set, which may be nil.
func (s *laneSet) delivers() bool { return s != nil && !s.closing && s.ctx.Err() == nil }

// job is a lane that a sender has, and what was true when it was picked.
type job struct {
	lane     *lane
	set      *laneSet // of its shard; nil: there was none
	kind     kind
	probe    bool // of a suspect host
	unproven bool // counted in limits.unproven
	heavy    bool // counted in limits.heavy
	cursor   cursor
	epoch    uint64 // of the lane's topic
	lease    int64  // the lane's when the exchange began
}

// health is that of the job's host when it was picked.
func (j *job) health() health {
	if j.unproven {
		return unproven
	}
	return quick
}

// stands reports whether the lane still has the cursor that the job was picked with. It
// does not when the subscription ended, was renewed with another secret or was
// replayed: what was delivered from the old one does not move the new one.
func (j *job) stands() bool {
	l := j.lane
	return l.state != gone && l.cursor.generation == j.cursor.generation && l.cursor.same(j.cursor.anchor)
}

func newScheduler(o *Options, c clocks, n *limits, tr *troubles) scheduler {
	return scheduler{
		clocks: c, policy: o.Policy, rnd: o.Rand, signal: func() {}, wake: func() {},
		ahead:    func(s subscriptions.Subscription) subscriptions.Subscription { return s },
		troubles: tr, limits: n, topics: make(map[string]*topic),
		turns: turns{now: c.mono, perHost: o.PerHost, limits: n, backlogs: make(map[backlogKey]*backlog)},
		hosts: hosts{clocks: c, policy: o.Policy, rnd: o.Rand, wake: func() {}, limits: n, byName: make(map[string]*host)},
	}
}

// pick starts the delivery whose turn it is. False: none may start.
func (s *scheduler) pick() (job, bool) {
	for g := s.turns.lead(); g != nil; g = s.turns.lead() {
		h := g.host
		l, k := s.turns.start(g)
		if l == nil {
			s.hosts.forget(h)
			continue
		}
		l.state = inFlight
		set := s.setOf(l.id)
		if set != nil {
			set.active++
		}
		return job{
			lane: l, set: set, kind: k, probe: h.suspect, unproven: h.health == unproven,
			cursor: l.cursor, epoch: l.topic.epoch,
		}, true
	}
	return job{}, false
}

// release ends what pick began. The lane is the caller's matter; a caller that is no sender
// has to signal.
func (s *scheduler) release(j job) {
	s.turns.end(j)
	if set := j.set; set != nil {
		if set.active--; set.active == 0 && set.drained != nil {
			close(set.drained)
			set.drained = nil
		}
	}
	s.hosts.forget(j.lane.host)
	s.resumeHeavy()
}

// step does one chunk of each thing that is due, and returns the time until there is more to
// do; zero: now.
func (s *scheduler) step() time.Duration {
	now := s.read()
	for range chunk {
		l, ok := s.timers.pop(now.mono)
		if !ok {
			break
		}
		l.state = idle
		s.proceed(l, now, false)
	}
	for range chunk {
		h, ok := s.hosts.probes.pop(now.mono)
		if !ok {
			break
		}
		if s.turns.promote(h) {
			s.signal()
		}
	}
	if t, ok := s.walks.pop(); ok {
		s.walkOn(t, now)
	}
	if h, ok := s.revivals.pop(); ok {
		s.reviveOn(h, now)
	}
	if s.walks.len()+s.revivals.len() > 0 {
		return 0
	}
	wait := int64(time.Hour)
	if len(s.timers.items) > 0 {
		wait = min(wait, s.timers.items[0].due-now.mono)
	}
	if len(s.hosts.probes.items) > 0 {
		wait = min(wait, s.hosts.probes.items[0].probe-now.mono)
	}
	return time.Duration(max(wait, 0))
}

// setOf is the lanes of a subscription's shard; nil: it is not this hub's.
func (s *scheduler) setOf(id uuid.UUID) *laneSet { return s.sets[subscriptions.Shard(id)] }

// lane returns that of a subscription; nil: there is none.
func (s *scheduler) lane(id uuid.UUID) *lane {
	if set := s.setOf(id); set != nil {
		return set.lanes[id]
	}
	return nil
}

// place puts a lane that no sender has where its cursor says.
func (s *scheduler) place(l *lane, now reading) {
	if s.leaves(l) {
		return
	}
	l.state = idle
	if wait := l.wait(s.policy, now); wait > 0 {
		s.waitUntil(l, now.mono+wait)
		return
	}
	s.proceed(l, now, false)
}

// proceed makes an idle lane ready if it has something to deliver and a lease,
// whatever time its cursor names. With reserved, it waited for a body.
func (s *scheduler) proceed(l *lane, now reading, reserved bool) {
	if l.expires <= now.earliest || !l.topic.behind(l) {
		return
	}
	if until := s.troubles.until(l, now.mono); until > 0 {
		s.waitUntil(l, until)
		return
	}
	l.retryAfter = false
	s.enqueue(l, reserved)
}

// enqueue makes a lane ready.
func (s *scheduler) enqueue(l *lane, reserved bool) {
	l.state = ready
	if l.host.suspect && l.kind() == trusted {
		s.hosts.probeSoon(l.host)
	}
	if s.turns.push(l, reserved) {
		s.signal()
	}
}

// waitUntil makes a lane wait, or wait until another time.
func (s *scheduler) waitUntil(l *lane, at int64) {
	l.state, l.due = waiting, at
	s.timers.set(l)
	if l.timer == 0 {
		s.wake()
	}
}

// apply accepts what is known of a subscription, whose callback is at a host. It returns
// the topic if that is new. False: the subscription is to be read again once a 410 is stored
// that waits for it, which may end it or not.
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
		// stored yet. What they say counts, as far as it was not renewed since.
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

// add makes a lane of a subscription that has not ended. It returns its topic if that is new.
func (s *scheduler) add(sub *subscriptions.Subscription, hostPort string, now reading) (fresh *topic) {
	t := s.topics[sub.Topic]
	if t == nil {
		t = &topic{url: sub.Topic}
		s.topics[sub.Topic] = t
		s.partitions[partitionOf(t.url)]++
		fresh = t
	}
	h := s.hosts.host(hostPort)
	l := &lane{id: sub.ID, topic: t, host: h, callback: sub.Callback, cursor: packCursor(sub.Cursor), timer: -1}
	l.set(sub)
	if l.cursor.status > 0 && h.health != quick {
		h.health = quick
		s.relist(h)
	}
	l.retryAfter = overloaded(int(l.cursor.status)) // for all we know it came with a Retry-After
	s.setOf(l.id).lanes[l.id] = l
	t.members.add(l, &l.inTopic)
	h.members.add(l, &l.inHost)
	s.place(l, now)
	return fresh
}

func partitionOf(topic string) int { return journal.Partition(journal.TopicID(topic)) }

func (s *scheduler) relist(h *host) {
	if s.turns.relist(h) {
		s.signal()
	}
}

// remove drops a lane. Nothing is written of it.
func (s *scheduler) remove(l *lane) {
	switch l.state {
	case gone:
		return
	case ready:
		s.turns.ready--
	}
	l.state = gone
	s.timers.drop(l)
	if set := s.setOf(l.id); set != nil && set.lanes[l.id] == l {
		delete(set.lanes, l.id)
	}
	t, h := l.topic, l.host
	t.members.remove(l.inTopic, inTopic)
	h.members.remove(l.inHost, inHost)
	if len(t.lanes) == 0 && s.topics[t.url] == t {
		delete(s.topics, t.url)
		s.partitions[partitionOf(t.url)]--
		s.troubles.forget(t)
	}
	s.hosts.forget(h)
	s.resumeHeavy()
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

// setHead accepts what the store said is the newest entry of t. At first that
// is nothing new.
func (s *scheduler) setHead(t *topic, head anchor) {
	published := t.known
	t.head, t.known = head, true
	t.epoch++
	s.walk(t, published)
}

// walk starts a walk over the lanes of t, or another after the one under way.
func (s *scheduler) walk(t *topic, published bool) {
	t.published = t.published || published
	if t.walking {
		t.again = true
		return
	}
	t.walking = true
	t.members.walk = len(t.lanes)
	s.walks.push(t)
	s.wake()
}

// walkOn does a chunk of the walk over the lanes of t: those that are idle and
// behind become ready, and something new shortens waits (HUB-48).
func (s *scheduler) walkOn(t *topic, now reading) {
	soonest := now.mono + int64(s.policy.step(publishStep))
	for range chunk {
		l := t.members.next()
		if l == nil {
			if t.walking = t.again; t.again {
				t.again = false
				t.members.walk = len(t.lanes)
				break
			}
			t.published = false
			return
		}
		switch {
		case l.state == idle:
			s.proceed(l, now, false)
		case l.state == waiting && l.wait(s.policy, now) == 0 && s.troubles.until(l, now.mono) == 0:
			s.timers.drop(l)
			s.place(l, now) // it waited for troubles that are over
		case l.state == waiting && t.published && !l.retryAfter && l.due > soonest:
			s.waitUntil(l, soonest)
		}
		if t.published {
			s.hosts.probeBy(l.host, soonest)
		}
	}
	s.walks.push(t)
}

// observe draws the conclusions for a host from a delivery. If the host answers 2xx after it was
// suspect, a walk over its lanes starts.
func (s *scheduler) observe(j job, out outcome) {
	h := j.lane.host
	was := h.pool()
	if s.hosts.observe(j, out) {
		h.members.walk = len(h.lanes)
		if !h.walking {
			h.walking = true
			s.revivals.push(h)
		}
		s.wake()
	}
	if h.pool() != was {
		s.relist(h)
	}
}

// reviveOn does a chunk of that walk: lanes that wait because the host could not
// be reached get their turn soon, spread out.
func (s *scheduler) reviveOn(h *host, now reading) {
	spread := min(int64(len(h.lanes))*int64(reviveEvery), int64(s.policy.step(1)))
	for range chunk {
		l := h.members.next()
		if l == nil {
			h.walking = false
			return
		}
		if l.state != waiting || !unreachable(int(l.cursor.status)) {
			continue
		}
		if at := now.mono + int64(float64(spread)*s.rnd()); at < l.due {
			s.waitUntil(l, at)
		}
	}
	s.revivals.push(h)
}

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
	if t := j.lane.topic; t.epoch == j.epoch && j.stands() && t.behind(j.lane) {
		// What was known is older than this lane's cursor.
		s.setHead(t, j.cursor.anchor)
	}
	s.putBack(j)
}

// park puts a lane back that waits for a body or for a sender, and keeps none meanwhile.
func (s *scheduler) park(j job) {
	if !s.leaves(j.lane) {
		j.lane.state = parked
	}
	s.release(j)
}

// unpark makes parked lanes ready. With reserved, the first of them goes before the turns of
// all others, as it had its own: where turns take longer than a body is kept, none
// would find it.
func (s *scheduler) unpark(lanes []*lane, reserved bool) {
	now := s.read()
	for _, l := range lanes {
		if l.state == parked {
			l.state = idle
			s.proceed(l, now, reserved)
			reserved = reserved && l.state != ready
		}
	}
}

// pause lets lanes wait a moment that a sender has or that are parked, each by itself. Their
// cursors stay. With unread, their entry could not be read: then they wait for the troubles
// of their topic, and those that wait for a damaged entry store since when it is known.
func (s *scheduler) pause(lanes []*lane, unread bool) (seen []subscriptions.Commit) {
	now := s.read()
	for _, l := range lanes {
		if s.leaves(l) || l.state != inFlight && l.state != parked {
			continue
		}
		at := now.mono + int64(float64(storePause)*(1+s.rnd()))
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

// spare counts the exchange that j is about to begin, if its body, of so many bytes, is
// heavy. False: no sender can be spared for it, and j is parked.
func (s *scheduler) spare(j *job, size int64) bool {
	bulk := s.bulk(size)
	switch {
	case j.unproven || bulk == 0:
		s.signal() // the slot that was reserved for it is free
		return true
	case s.limits.free(quick, bulk) > 0:
		j.heavy = true
		s.limits.heavy.Add(1)
		return true
	}
	s.heavyLanes[bulk-1].push(j.lane)
	s.park(*j)
	return false
}

// resumeHeavy makes as many parked lanes ready as senders can be spared for. A lane
// that it made ready ends with release or remove. Both call it again, so no lane stays
// parked while senders are free.
func (s *scheduler) resumeHeavy() {
	for i := range s.heavyLanes {
		lanes := &s.heavyLanes[i]
		if lanes.len() == 0 {
			continue
		}
		for free := s.limits.free(quick, i+1); free > 0 && lanes.len() > 0; {
			l, _ := lanes.pop()
			if l.state != parked {
				continue
			}
			l.state = idle
			if s.proceed(l, s.read(), false); l.state == ready && !l.host.suspect {
				free--
			}
		}
	}
}

// admit reports, right before an attempt, whether the subscription is still to
// get it (HUB-49), and from this hub, and with which secret. It notes the lease
// that is in force.
func (s *scheduler) admit(j *job) (secret string, ok bool) {
	j.lease = j.lane.lease
	return j.lane.secret, j.set.delivers() && j.stands() && j.lane.expires > s.read().earliest
}

// move gives the job and its lane another cursor. False: the lane has another
// one already.
func (s *scheduler) move(j *job, c cursor) bool {
	if !j.stands() {
		return false
	}
	j.lane.cursor, j.cursor = c, c
	return true
}

// decide moves the lane's cursor as Decide says, and returns what is to be
// stored. False: the lane has another cursor, or the answer would end a lease
// that is over; the attempt does not count.
func (s *scheduler) decide(j job, b *body, out outcome, now time.Time) (subscriptions.Commit, Decision, bool) {
	if !j.stands() {
		return subscriptions.Commit{}, Decision{}, false
	}
	l := j.lane
	was, c := l.cursor, l.cursor
	begun := instant(was.first)
	if begun.IsZero() || was.attempt == 0 { // else it is since when the entry was known to be damaged
		begun = now.Add(-out.duration)
	}
	dec := Decide(out.Result, State{Attempt: was.attempt, Step: uint32(was.step), FirstAttemptAt: begun}, s.policy, now, s.rnd())
	if dec.Action == End && l.lease != j.lease {
		return subscriptions.Commit{}, Decision{}, false // renewed since the exchange began
	}
	switch dec.Action {
	case Deliver, PassOver:
		c = was.moveTo(b.anchor)
	default:
		c.attempt++
		c.first = nanos(begun)
	}
	c.next, c.step, c.status = nanos(dec.At), uint16(dec.Step), int16(out.Status) //nolint:gosec // at most 8, and of three digits
	l.cursor, l.retryAfter = c, dec.RetryAfter
	if dec.Action == End {
		s.remove(l) // finish gives back its slot and its sender
	}
	commit := subscriptions.Commit{ID: l.id, Cursor: c.unpack()}
	failedBefore := was.status != 0 && !(Result{Status: int(was.status)}).delivered()
	if dec.Action != Deliver || failedBefore {
		commit.Attempts = []subscriptions.Attempt{{
			At: out.started, NotificationID: b.entry.ID, Number: was.attempt + 1,
			Status: out.Status, Error: message(out.err), Duration: out.duration,
		}}
	}
	return commit, dec, true
}

// finish puts the lane back after an attempt.
func (s *scheduler) finish(j job, out outcome) {
	s.observe(j, out)
	s.putBack(j)
}
