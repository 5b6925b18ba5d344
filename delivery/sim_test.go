package delivery

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rshub/rshub/subscriptions"
)

// sim plays senders and callbacks to the scheduler of a Dispatcher, one event after the
// other, in the virtual time of a synctest bubble. It knows all that is ready and in flight by
// itself, and complains where the scheduler differs.
type sim struct {
	t      *testing.T
	d      *Dispatcher
	rnd    *rand.Rand
	events timers[*simEvent]
	after  func(*simRun) // what follows when an exchange is over; it may be nil

	hosts    map[*host]*simHost
	ready    map[*lane]*simWait
	inFlight int
	starts   int  // of all hosts
	large    bool // not everything is checked after each event
}

type simHost struct {
	longest time.Duration // exchange so far
	busy    int
	at      [kinds]simQueue
}

// simQueue is what waits at a host, of one kind.
type simQueue struct {
	busy   int
	lanes  map[*topicLanes]int // that are ready
	starts int
	waits  map[*simWait]struct{}
}

// simWait is a lane that is ready, and what it has seen since.
type simWait struct {
	lane     *lane
	kind     kind
	since    time.Time
	k        int // its place among the ready lanes of its topic there
	topics   int // with ready lanes of its kind there, at most
	kinds    [kinds]bool
	starts   int // of its kind there, before it was ready
	all      int // of the hub, the same
	reserved bool
	disturb  bool // its bound does not apply: the host was suspect, or another delivery went before the turns
}

// simRun is an exchange.
type simRun struct {
	job
	wait *simWait
	took time.Duration
}

func newSim(t *testing.T, seed uint64, more ...func(*Options)) *sim {
	t.Helper()
	b := newBed(t, append(more, single)...)
	s := &sim{
		t: t, d: b.d, rnd: rand.New(rand.NewPCG(seed, 15)),
		hosts: make(map[*host]*simHost), ready: make(map[*lane]*simWait),
	}
	for i := range s.d.only().s.sets {
		s.d.only().s.sets[i] = &laneSet{ctx: t.Context()}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return s
}

// lane makes one that is idle.
func (s *sim) lane(on, hostPort string, of kind) *lane {
	id := subscriptions.ID(on, fmt.Sprint("http://", hostPort, "/", len(s.d.only().s.sets), s.rnd.Uint64()))
	sub := &subscriptions.Subscription{ID: id, Topic: on, ExpiresAt: time.Now().Add(1000 * time.Hour)}
	if of == trusted {
		sub.Cursor.LastStatus = 200
	}
	s.d.only().s.add(sub, hostPort, s.d.only().s.read())
	l := s.d.only().s.lane(id)
	if of == retry {
		l.cursor.attempt = 1
	}
	if s.hosts[l.host] == nil {
		h := &simHost{}
		for c := range h.at {
			h.at[c] = simQueue{lanes: make(map[*topicLanes]int), waits: make(map[*simWait]struct{})}
		}
		s.hosts[l.host] = h
	}
	return l
}

// quick makes all hosts quick.
func (s *sim) quick() {
	for h := range s.hosts {
		h.health = quick
		s.d.only().s.relist(h)
	}
}

// makeReady has a lane wait for its turn.
func (s *sim) makeReady(l *lane, reserved bool) {
	h, c := s.hosts[l.host], l.kind()
	q := &h.at[c]
	q.lanes[l.topic]++
	w := &simWait{
		lane: l, kind: c, since: time.Now(), k: q.lanes[l.topic], starts: q.starts, all: s.starts,
		reserved: reserved, disturb: l.host.suspect || reserved,
	}
	s.ready[l] = w
	q.waits[w] = struct{}{}
	for of := range h.at {
		for other := range h.at[of].waits {
			other.kinds[c] = true
			w.kinds[of] = true
			if other.kind == c {
				other.disturb = other.disturb || reserved
				w.disturb = w.disturb || other.reserved // it may have several lanes, which all go first
			}
		}
	}
	s.d.only().s.enqueue(l, reserved)
	for other := range q.waits {
		// Lanes that are gone have their turn too.
		other.topics = max(other.topics, len(q.lanes), l.host.queued[c].len())
	}
}

// take removes a lane from those that wait.
func (s *sim) take(l *lane) *simWait {
	w := s.ready[l]
	delete(s.ready, l)
	q := &s.hosts[l.host].at[w.kind]
	delete(q.waits, w)
	if q.lanes[l.topic]--; q.lanes[l.topic] == 0 {
		delete(q.lanes, l.topic)
	}
	return w
}

// remove has a lane go, as its shard or its subscription does.
func (s *sim) remove(l *lane) {
	if s.ready[l] != nil {
		s.take(l)
	}
	s.d.only().s.remove(l)
}

// at has something done later.
func (s *sim) at(after time.Duration, do func()) {
	s.events.set(&simEvent{timer: -1, do: do}, s.d.only().s.mono()+int64(after))
}

// run continues until nothing is left to do, or the time is over. Took returns how long an exchange
// lasts.
func (s *sim) run(limit time.Duration, took func(*lane) time.Duration, judge func(*simWait)) {
	s.t.Helper()
	end := s.d.only().s.mono() + int64(limit)
	for !s.t.Failed() {
		s.d.only().s.step()
		s.pump(took, judge)
		if !s.large {
			s.check()
		}
		next := end
		if len(s.events.items) > 0 {
			next = min(next, s.events.items[0].due)
		}
		if len(s.d.only().s.hosts.probes.items) > 0 {
			next = min(next, s.d.only().s.hosts.probes.items[0].due)
		}
		if next == end {
			return
		}
		time.Sleep(time.Duration(next - s.d.only().s.mono()))
		for e, ok := s.events.pop(next); ok; e, ok = s.events.pop(next) {
			e.do()
		}
	}
}

// pump has the senders start what they can.
func (s *sim) pump(took func(*lane) time.Duration, judge func(*simWait)) {
	s.t.Helper()
	for s.inFlight < s.d.o.MaxInflight {
		if !s.d.only().s.turns.more() {
			break
		}
		j, ok := s.d.only().s.pick()
		if !ok {
			break
		}
		w := s.take(j.lane)
		judge(w)
		s.inFlight++
		s.starts++
		h := s.hosts[j.lane.host]
		h.busy++
		h.at[w.kind].busy++
		h.at[w.kind].starts++
		r := &simRun{job: j, wait: w, took: took(j.lane)}
		h.longest = max(h.longest, r.took)
		s.at(r.took, func() { s.over(r) })
	}
	if s.large || s.inFlight == s.d.o.MaxInflight {
		return
	}
	for l := range s.ready {
		if s.startable(l) {
			s.t.Fatalf("%d of %d senders are idle, and a lane of %s (%d in flight) could start", s.d.o.MaxInflight-s.inFlight, s.d.o.MaxInflight, l.host.name, s.hosts[l.host].busy)
		}
	}
}

// over ends an exchange.
func (s *sim) over(r *simRun) {
	s.inFlight--
	h := s.hosts[r.lane.host]
	h.busy--
	h.at[r.wait.kind].busy--
	if s.after != nil {
		s.after(r)
	}
	s.d.only().s.release(r.job)
	if r.lane.host.suspect {
		for c := range h.at {
			for w := range h.at[c].waits {
				w.disturb = true
			}
		}
	}
}

// startable reports whether a lane that is ready could start now.
func (s *sim) startable(l *lane) bool {
	h, sh, d := l.host, s.hosts[l.host], s.d
	c := s.ready[l].kind
	switch {
	case sh.busy >= d.o.PerHost, c == retry && sh.at[retry].busy >= (d.o.PerHost+1)/2,
		h.health == unproven && d.only().s.limits.unproven.Load() >= d.only().s.limits.unprovenMax:
		return false
	case h.suspect:
		return sh.busy == 0 && h.probe <= d.only().s.mono() && d.only().s.limits.suspect.Load() < d.only().s.limits.suspectMax
	}
	return true
}

// check compares what the Dispatcher counts with what is.
func (s *sim) check() {
	s.t.Helper()
	suspects, leads := int64(0), make(map[*host]int32)
	for h, sh := range s.hosts {
		if h.busy() != sh.busy {
			s.t.Fatalf("%s is busy with %d, counted %d", h.name, sh.busy, h.busy())
		}
		if sh.busy > s.d.o.PerHost || sh.at[retry].busy > (s.d.o.PerHost+1)/2 {
			s.t.Fatalf("%s has %d in flight, %d of them retries", h.name, sh.busy, sh.at[retry].busy)
		}
		if h.suspect {
			suspects += int64(sh.busy)
		}
	}
	if suspects != s.d.only().s.limits.suspect.Load() {
		s.t.Fatalf("%d exchanges with suspects, counted %d", suspects, s.d.only().s.limits.suspect.Load())
	}
	if len(s.ready) != s.d.only().s.turns.ready {
		s.t.Fatalf("%d lanes are ready, counted %d", len(s.ready), s.d.only().s.turns.ready)
	}
	for _, g := range s.d.only().s.turns.backlogs {
		if g.in == nil {
			s.t.Fatalf("a backlog at %s neither waits nor is listed", g.host.name)
		}
		if g.leads {
			leads[g.host]++
		}
	}
	for h := range s.hosts {
		if h.leads != leads[h] {
			s.t.Fatalf("%d backlogs lead to %s, counted %d", leads[h], h.name, h.leads)
		}
	}
}

// simEvent is something that is done at a time.
type simEvent struct {
	timer int32
	do    func()
}

func (e *simEvent) slot() *int32 { return &e.timer }
