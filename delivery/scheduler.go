package delivery

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// scheduler knows what each lane waits for, and decides which one is next. It does no I/O and
// starts no goroutine: time comes from its clocks and chance from rnd, so that it runs in a
// simulation as it does in a hub. One goroutine at a time may use it; in a hub, sharedScheduler
// ensures that. A hub has several of them (schedulers.go), which share the hosts.
//
// It owns the lanes (lane.go) of its hosts, by topic and by host. The fair order is that of
// turns (turns.go), and the health of hosts that of hosts (health.go).
type scheduler struct {
	clocks
	policy Policy
	rnd    func() float64
	// signal wakes a sender, because there may be something to start. wake wakes the loop
	// around step, because there may be something to do earlier than step returned.
	signal, wake func()
	// ahead returns a stored subscription with the results that wait to be stored.
	ahead    func(subscriptions.Subscription) subscriptions.Subscription
	troubles *troubles
	limits   *limits
	several  bool                 // there are other schedulers
	bulk     func(size int64) int // room.bulk

	turns    turns
	hosts    hosts
	topics   map[string]*topicLanes
	registry *topics                      // of all schedulers
	sets     [journal.Partitions]*laneSet // of shards that are this hub's

	timers     timers[*lane]     // waiting lanes
	walks      ring[*topicLanes] // topics whose lanes are being walked over
	revivals   ring[*host]       // the same of hosts
	largeLanes [2]ring[*lane]    // parked ones, which found no sender to spare, by the bulk of the body
}

// laneSet is the lanes of a shard, from its Start until it is finished or aborted.
type laneSet struct {
	ctx     context.Context // of its exchanges
	lanes   byID
	closing bool          // no delivery starts any more
	active  int           // lanes that senders have
	drained chan struct{} // closed when active is 0; nil: nothing waits for that
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
	large    bool // counted in limits.large
	cursor   cursor
	headSets uint64 // of the lane's topic
	// From confirm on: the lane's when the exchange began.
	lease int64
	texts texts
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
	return l.state != gone && l.cursor.generation == j.cursor.generation && l.cursor.anchor().same(j.cursor.anchor())
}

// newScheduler returns the scheduler with a number, counted from 0, of those that share limits, troubles and topics.
func newScheduler(o *Options, c clocks, n *limits, tr *troubles, ts *topics, number int) scheduler {
	return scheduler{
		clocks: c, policy: o.Policy, rnd: o.Rand, signal: func() {}, wake: func() {},
		ahead:    func(s subscriptions.Subscription) subscriptions.Subscription { return s },
		troubles: tr, limits: n, several: o.Schedulers > 1, topics: make(map[string]*topicLanes), registry: ts,
		turns: turns{now: c.mono, perHost: o.PerHost, limits: n, backlogs: make(map[backlogKey]*backlog)},
		hosts: hosts{clocks: c, policy: o.Policy, rnd: o.Rand, wake: func() {}, limits: n, byName: make(map[string]*host), scheduler: number},
	}
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
		s.walkOn(t, now, chunk)
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
		wait = min(wait, s.hosts.probes.items[0].due-now.mono)
	}
	return time.Duration(max(wait, 0))
}

// setOf is the lanes of a subscription's shard; nil: it is not this hub's.
func (s *scheduler) setOf(id uuid.UUID) *laneSet { return s.sets[subscriptions.Shard(id)] }

// lanesOf returns the lanes of a topic; nil: it has none here.
func (s *scheduler) lanesOf(t *topic) *topicLanes {
	if lanes := s.topics[t.url]; lanes != nil && lanes.topic == t {
		return lanes
	}
	return nil
}

// lane returns that of a subscription; nil: there is none.
func (s *scheduler) lane(id uuid.UUID) *lane {
	if set := s.setOf(id); set != nil {
		return set.lanes.get(id)
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

// proceed makes an idle lane ready if it is in force and has something to deliver,
// whatever time its cursor names. With reserved, it waited for a body.
func (s *scheduler) proceed(l *lane, now reading, reserved bool) {
	if !l.inForce(now.earliest) || !l.topic.behind(l) {
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
	l.state = waiting
	s.timers.set(l, at)
	if l.timer == 0 {
		s.wake()
	}
}

// pick starts the delivery whose turn it is. False: none may start.
func (s *scheduler) pick() (job, bool) {
	for g := s.turns.lead(); g != nil; g = s.turns.lead() {
		h := g.host
		if !s.turns.live(g) { // and so it takes no slot that another scheduler may miss meanwhile
			s.turns.start(g)
			s.hosts.forget(h)
			continue
		}
		if !s.limits.take(h.pool(), g.reserved) {
			continue // another scheduler took the last slot just now
		}
		l, k := s.turns.start(g)
		l.state = inFlight
		set := s.setOf(l.id)
		if set != nil {
			set.active++
		}
		return job{
			lane: l, set: set, kind: k, probe: h.suspect, unproven: h.health == unproven,
			cursor: l.cursor, headSets: l.topic.headSets,
		}, true
	}
	return job{}, false
}

// release ends what pick began, except that the caller puts the lane back. A caller that is not a
// sender has to signal.
func (s *scheduler) release(j job) {
	if ofHub, ofHost := s.turns.end(j); ofHub || ofHost && s.several {
		s.signal() // the caller may find something else first, at another scheduler
	}
	if set := j.set; set != nil {
		if set.active--; set.active == 0 && set.drained != nil {
			close(set.drained)
			set.drained = nil
		}
	}
	s.hosts.forget(j.lane.host)
	s.resumeLarge()
}

func (s *scheduler) relist(h *host) {
	if s.turns.relist(h) {
		s.signal()
	}
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
