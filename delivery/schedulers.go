package delivery

import (
	"context"
	"hash/maphash"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rshub/rshub/subscriptions"
)

// coresOfScheduler is for how many processors a hub has a scheduler. A delivery has the lock of its scheduler for 1 to
// 1.6 us (docs/scale.md), so that two of them keep it locked for less than a twentieth of the time.
const coresOfScheduler = 2

// schedulers are those of a hub: one for every few processors, so that senders seldom wait for a lock. Each has the
// lanes of its own callback hosts, and with them their limits and turns. They share the senders and the limits of the
// hub: a sender asks one after the other for something to start, beginning with the one whose turn it is, and sleeps only
// if none has anything.
type schedulers struct {
	all    []*sharedScheduler
	topics *topics
	limits *limits
	seed   maphash.Seed
	turns  atomic.Uint64 // how many there were
	bell   bell
}

func newSchedulers(o *Options, c clocks, n *limits, tr *troubles) *schedulers {
	ss := &schedulers{topics: newTopics(), limits: n, seed: maphash.MakeSeed()}
	for i := range o.Schedulers {
		q := newSharedScheduler(newScheduler(o, c, n, tr, ss.topics, i))
		q.s.signal = ss.bell.ring
		ss.all = append(ss.all, q)
	}
	return ss
}

// at is the scheduler of a host.
func (ss *schedulers) at(hostPort string) *sharedScheduler {
	return ss.all[maphash.String(ss.seed, hostPort)%uint64(len(ss.all))]
}

// of is the scheduler of a lane.
func (ss *schedulers) of(l *lane) *sharedScheduler { return ss.all[l.host.scheduler] }

// do calls f with each scheduler, one after the other.
func (ss *schedulers) do(f func(*scheduler)) {
	for _, q := range ss.all {
		q.do(f)
	}
}

// next waits for the delivery whose turn it is. False: there will be none.
func (ss *schedulers) next() (job, bool) {
	for !ss.bell.over.Load() {
		if j, ok := ss.pick(); ok {
			return j, true
		}
		heard := ss.bell.listen()
		// Look once more: what became ready before that did not ring for this sender.
		if j, ok := ss.pick(); ok {
			ss.bell.leave()
			return j, true
		}
		ss.bell.wait(heard)
	}
	return job{}, false
}

// pick starts the delivery whose turn it is, at the first scheduler that has one. A scheduler with a lane that
// goes before all turns comes first.
func (ss *schedulers) pick() (j job, ok bool) {
	for _, q := range ss.all {
		if q.reserved.Load() {
			if j, ok = ss.pickAt(q); ok {
				return j, true
			}
		}
	}
	first := ss.first()
	for i := range ss.all {
		if j, ok = ss.pickAt(ss.all[(first+i)%len(ss.all)]); ok {
			return j, true
		}
	}
	ss.turns.Add(^uint64(0)) // nobody had the turn
	return job{}, false
}

// first returns the number of the scheduler whose turn it is. Those that have nothing to start have no turns, so that
// all others have as many.
func (ss *schedulers) first() int {
	listed := uint64(0)
	for _, q := range ss.all {
		if q.listed.Load() {
			listed++
		}
	}
	turn := ss.turns.Add(1) % max(listed, 1)
	for i, q := range ss.all {
		if !q.listed.Load() {
			continue
		}
		if turn == 0 {
			return i
		}
		turn--
	}
	return 0
}

// pickAt starts the delivery whose turn it is at a scheduler, and wakes another sender if it has more.
func (ss *schedulers) pickAt(q *sharedScheduler) (job, bool) {
	j, more, ok := q.pick()
	if ok && more {
		ss.bell.ring()
	}
	return j, ok
}

// giveWay has the sender that the caller has woken go first, if all others sleep. Otherwise the caller goes on, for instance to
// answer the publisher, and the sender waits until another processor wakes up, which takes longer than to send.
func (ss *schedulers) giveWay() {
	if ss.bell.listening.Load() == ss.limits.senders {
		runtime.Gosched()
	}
}

// loop runs the loop of each scheduler until ctx ends.
func (ss *schedulers) loop(ctx context.Context) {
	var all sync.WaitGroup
	for _, q := range ss.all {
		all.Go(func() { q.loop(ctx) })
	}
	all.Wait()
}

// ofTopic calls f with the lanes of a topic in each scheduler that has some.
func (ss *schedulers) ofTopic(t *topic, f func(*scheduler, *topicLanes)) {
	ss.do(func(s *scheduler) {
		if lanes := s.lanesOf(t); lanes != nil {
			f(s, lanes)
		}
	})
}

// walk looks at the lanes of a topic.
func (ss *schedulers) walk(t *topic) {
	ss.ofTopic(t, func(s *scheduler, lanes *topicLanes) { s.walk(lanes, false) })
}

// walkAll looks at every lane. A clock that jumped ahead and came back left
// some idle that have their lease after all.
func (ss *schedulers) walkAll() {
	ss.do(func(s *scheduler) {
		for _, t := range s.topics {
			s.walk(t, false)
		}
	})
}

// each calls f for the lanes of a topic, in chunks.
func (ss *schedulers) each(t *topic, f func(*scheduler, *lane)) {
	for _, q := range ss.all {
		q.each(func(s *scheduler) []*lane {
			if lanes := s.lanesOf(t); lanes != nil {
				return lanes.lanes
			}
			return nil
		}, f)
	}
}

// find returns the scheduler that has the lane of a subscription; nil: there is none.
func (ss *schedulers) find(s *subscriptions.Subscription) (of *sharedScheduler) {
	for _, q := range ss.all {
		q.do(func(sc *scheduler) {
			if sc.lane(s.ID) != nil {
				of = q
			}
		})
	}
	return of
}

// unpark makes parked lanes ready, in chunks; those whose body could not be read
// when their topic can be read again. Without lanes, it looks for others that a sender
// came free for. It returns what the lanes have to store.
func (ss *schedulers) unpark(lanes []*lane, read bool) (seen []subscriptions.Commit) {
	if len(lanes) == 0 {
		ss.do(func(s *scheduler) {
			s.signal()
			s.resumeLarge()
		})
	}
	reserved := read
	for some := range slices.Chunk(lanes, chunk) {
		for _, q := range ss.all {
			here := some
			if len(ss.all) > 1 {
				here = slices.DeleteFunc(slices.Clone(some), func(l *lane) bool { return ss.of(l) != q })
			}
			if len(here) == 0 {
				continue
			}
			q.do(func(s *scheduler) {
				if read {
					reserved = s.unpark(here, reserved)
				} else {
					seen = append(seen, s.delay(here, true)...)
				}
			})
		}
	}
	return seen
}

// resume has all schedulers look for lanes with large bodies that a sender came free for, if some wait for one. It is
// called after each job: the scheduler of the job has looked, and the others share the limit.
func (ss *schedulers) resume() {
	if len(ss.all) > 1 && ss.limits.starved.CompareAndSwap(true, false) {
		ss.do((*scheduler).resumeLarge)
	}
}

// bell wakes senders that sleep because they found nothing to start.
//
// It wakes the one that fell asleep last. So a hub with little to do makes its deliveries with the same few senders,
// whose stacks have grown already. The collector shrinks the stacks of the others.
type bell struct {
	listening atomic.Int64 // senders that sleep, or are about to

	mu       sync.Mutex
	sleepers []sleeper // the one that has slept longest is first
	free     []sleeper // nobody sleeps there
	times    uint64    // that it rang

	over atomic.Bool // it rings no more
}

// sleeper is where a sender sleeps: a channel of one slot, which is filled to wake it.
type sleeper chan struct{}

// ring wakes a sender, because there may be something to start.
func (b *bell) ring() {
	if b.listening.Load() == 0 {
		return // the others look before they sleep
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.times++
	if last := len(b.sleepers) - 1; last >= 0 {
		b.sleepers[last] <- struct{}{}
		b.sleepers = b.sleepers[:last]
	}
}

// stop wakes every sender for good.
func (b *bell) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over.Store(true)
	for _, s := range b.sleepers {
		s <- struct{}{}
	}
	b.sleepers = nil
}

// listen has the bell ring for the caller from now on, until leave or the end of wait.
func (b *bell) listen() (heard uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listening.Add(1)
	return b.times
}

func (b *bell) leave() { b.listening.Add(-1) }

// wait waits until the bell rings again after listen.
func (b *bell) wait(heard uint64) {
	defer b.leave()
	s := b.lie(heard)
	if s == nil {
		return
	}
	<-s
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free = append(b.free, s)
}

// lie returns where the caller is to sleep; nil: the bell rang since it listened, or rings no more.
func (b *bell) lie(heard uint64) (s sleeper) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.times != heard || b.over.Load() {
		return nil
	}
	if last := len(b.free) - 1; last >= 0 {
		s, b.free = b.free[last], b.free[:last]
	} else {
		s = make(sleeper, 1)
	}
	b.sleepers = append(b.sleepers, s)
	return s
}
