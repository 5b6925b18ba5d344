package delivery

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/rshub/rshub/subscriptions"
)

// sharedScheduler is the scheduler as goroutines share it: behind a lock under which nothing
// slow is done. It adds what a simulation does not need: senders that wait for a turn, and the
// loop that has the scheduler do what is due.
//
// Locks are taken in this order: that of a shard, this one, and then those of heads, troubles,
// the tail of a topic or the group commit.
type sharedScheduler struct {
	mu       sync.Mutex
	work     sync.Cond // on mu: a sender may find something to start, or stopping
	stopping bool
	wake     chan struct{} // something for loop to do at once
	s        scheduler
}

func newSharedScheduler(s scheduler) *sharedScheduler {
	q := &sharedScheduler{s: s, wake: make(chan struct{}, 1)}
	q.work.L = &q.mu
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
	q.mu.Lock()
	defer q.mu.Unlock()
	f(&q.s)
}

// yield releases the lock, which the caller has, for a moment, so that deliveries go on.
func (q *sharedScheduler) yield() {
	q.mu.Unlock()
	runtime.Gosched()
	q.mu.Lock()
}

// next waits for the delivery whose turn it is. False: there will be none.
func (q *sharedScheduler) next() (job, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.stopping {
		if j, ok := q.s.pick(); ok {
			if q.s.turns.more() {
				q.work.Signal()
			}
			return j, true
		}
		q.work.Wait()
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

// loop has the scheduler do what is due at a time, and what is done in chunks, until ctx ends.
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

// walk has the lanes of a topic looked at.
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

// each calls f for the lanes of a topic, in chunks: one that comes or goes meanwhile may be left out.
func (q *sharedScheduler) each(t *topic, f func(*scheduler, *lane)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	q.chunks(t, &n, func(l *lane) { f(&q.s, l) })
}

// chunks calls f for the lanes of a topic, from the last to the first as walks do, and yields
// after every chunk, which n counts.
func (q *sharedScheduler) chunks(t *topic, n *int, f func(*lane)) {
	for i := len(t.lanes) - 1; i >= 0; i-- {
		f(t.lanes[i])
		if *n++; *n%chunk == 0 {
			q.yield()
			i = min(i, len(t.lanes))
		}
	}
}

// eachOf calls f for the lanes of a shard, in chunks.
func (q *sharedScheduler) eachOf(set *laneSet, f func(*scheduler, *lane)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, l := range slices.Collect(maps.Values(set.lanes)) { // a copy: yield lets lanes come and go
		if i%chunk == chunk-1 {
			q.yield()
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
				seen = append(seen, s.pause(some, true)...)
			}
		})
		reserved = false
	}
	return seen
}
