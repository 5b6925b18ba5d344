package delivery

import (
	"context"
	"iter"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/rshub/rshub/subscriptions"
)

// sharedScheduler lets goroutines share the scheduler, with a lock under which nothing slow
// happens. It adds what a simulation does not need: senders that wait for a turn, and the
// loop that calls step.
//
// Lock in this order: the lock of a shard, this one, and then those of heads, troubles,
// the tail of a topic or the group commit.
type sharedScheduler struct {
	mu       sync.Mutex
	work     sync.Cond // on mu: a sender may find something to start, or stopping
	stopping bool
	wake     chan struct{} // something for loop to do at once
	s        scheduler

	// clocks are read before the lock is acquired, because all senders wait for who has it. While
	// it is locked, the scheduler's time stands still at now.
	clocks clocks
	locked bool
	now    reading
}

func newSharedScheduler(s scheduler) *sharedScheduler {
	q := &sharedScheduler{s: s, wake: make(chan struct{}, 1), clocks: s.clocks}
	q.work.L = &q.mu
	q.s.clocks = clocks{
		mono: func() int64 {
			if q.locked {
				return q.now.mono
			}
			return q.clocks.mono()
		},
		wall: func() (now, earliest int64) {
			if q.locked {
				return q.now.wall, q.now.earliest
			}
			return q.clocks.wall()
		},
	}
	q.s.turns.now, q.s.hosts.clocks = q.s.mono, q.s.clocks
	wake := func() { poke(q.wake) }
	q.s.signal, q.s.wake, q.s.hosts.wake = q.work.Signal, wake, wake
	return q
}

// poke wakes the goroutine that waits for wake, now or when it waits next.
func poke(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// do calls f with the scheduler.
func (q *sharedScheduler) do(f func(*scheduler)) {
	q.lock()
	defer q.unlock()
	f(&q.s)
}

func (q *sharedScheduler) lock() {
	now := q.clocks.read()
	q.mu.Lock()
	q.begin(now)
}

// begin stops the scheduler's time, which never goes back: another may have read the clocks later,
// and got the lock earlier.
func (q *sharedScheduler) begin(now reading) {
	if q.locked = true; now.mono >= q.now.mono {
		q.now = now
	}
}

func (q *sharedScheduler) unlock() {
	q.locked = false
	q.mu.Unlock()
}

// next waits for the delivery whose turn it is. False: there will be none.
func (q *sharedScheduler) next() (job, bool) {
	q.lock()
	defer q.unlock()
	for !q.stopping {
		if j, ok := q.s.pick(); ok {
			if q.s.turns.more() {
				q.work.Signal()
			}
			return j, true
		}
		q.locked = false
		q.work.Wait()
		q.begin(q.clocks.read())
	}
	return job{}, false
}

// stop makes every sender end after what it has in flight.
func (q *sharedScheduler) stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stopping = true
	q.work.Broadcast()
}

// loop calls step whenever something is due, until ctx ends.
func (q *sharedScheduler) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		var wait time.Duration
		if q.do(func(s *scheduler) { wait = s.step() }); wait == 0 {
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-q.wake:
		case <-timer.C:
		}
	}
}

// walk looks at the lanes of a topic.
func (q *sharedScheduler) walk(t *topic) {
	q.do(func(s *scheduler) { s.walk(t, false) })
}

// walkAll looks at every lane. A clock that jumped ahead and came back left
// some idle that have their lease after all.
func (q *sharedScheduler) walkAll() {
	q.do(func(s *scheduler) {
		for _, t := range s.topics {
			s.walk(t, false)
		}
	})
}

// topic returns one that has lanes; nil: it has none.
func (q *sharedScheduler) topic(url string) (t *topic) {
	q.do(func(s *scheduler) { t = s.topics[url] })
	return t
}

// allTopics returns the topics that have lanes.
func (q *sharedScheduler) allTopics() (all []*topic) {
	q.do(func(s *scheduler) { all = slices.Collect(maps.Values(s.topics)) })
	return all
}

// each calls f for lanes, in chunks. Between two chunks it releases the lock: a lane that comes
// or goes meanwhile may be left out.
func (q *sharedScheduler) each(lanes iter.Seq[*lane], f func(*scheduler, *lane)) {
	q.lock()
	defer q.unlock()
	for i, l := range slices.Collect(lanes) {
		if i%chunk == chunk-1 {
			q.unlock()
			runtime.Gosched() // deliveries go on
			q.lock()
		}
		if l.state != gone {
			f(&q.s, l)
		}
	}
}

// unpark makes parked lanes ready, in chunks; those whose body could not be read
// when their topic can be read again. Without lanes, it looks for others that a sender
// came free for. It returns what the lanes have to store.
func (q *sharedScheduler) unpark(lanes []*lane, read bool) (seen []subscriptions.Commit) {
	if len(lanes) == 0 {
		q.do(func(s *scheduler) {
			s.signal()
			s.resumeLarge()
		})
	}
	reserved := read
	for some := range slices.Chunk(lanes, chunk) {
		q.do(func(s *scheduler) {
			if read {
				s.unpark(some, reserved)
			} else {
				seen = append(seen, s.delay(some, true)...)
			}
		})
		reserved = false
	}
	return seen
}
