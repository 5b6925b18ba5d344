package delivery

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// sharedScheduler lets goroutines share a scheduler, with a lock under which nothing slow
// happens. It adds what a simulation does not need: the loop that calls step.
//
// Lock in this order: the lock of a shard, this one, and then those of topics, heads, bodies, troubles,
// the tail of a topic, the group commit or the bell. Nobody has the locks of two schedulers.
type sharedScheduler struct {
	mu   sync.Mutex
	wake chan struct{} // something for loop to do at once
	s    scheduler
	// listed: something may start if the limits of the hub allow it. Reserved: it goes before the turns of all others,
	// here and at the other schedulers. They are as of the last unlock.
	listed, reserved atomic.Bool

	// clocks are read before the lock is acquired, because all senders wait for who has it. While
	// it is locked, the scheduler's time stands still at now.
	clocks clocks
	locked bool
	now    reading
}

func newSharedScheduler(s scheduler) *sharedScheduler {
	q := &sharedScheduler{s: s, wake: make(chan struct{}, 1), clocks: s.clocks}
	q.s.clocks = clocks{
		mono: func() int64 {
			if q.locked {
				return q.now.mono
			}
			return q.clocks.mono()
		},
		read: func() reading {
			if q.locked {
				return q.now
			}
			return q.clocks.read()
		},
	}
	q.s.turns.now, q.s.hosts.clocks = q.s.mono, q.s.clocks
	wake := func() { poke(q.wake) }
	q.s.wake, q.s.hosts.wake = wake, wake
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
	listed, reserved := q.s.turns.listed()
	if reserved != q.reserved.Load() {
		q.reserved.Store(reserved)
	}
	if listed != q.listed.Load() {
		q.listed.Store(listed)
	}
	q.mu.Unlock()
}

// pick is scheduler.pick. More says that there may be more to start.
func (q *sharedScheduler) pick() (j job, more, ok bool) {
	q.lock()
	defer q.unlock()
	if j, ok = q.s.pick(); ok {
		more = q.s.turns.more()
	}
	return j, more, ok
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

// each calls f for some of its lanes, in chunks. Between two chunks it releases the lock: a lane that comes
// or goes meanwhile may be left out.
func (q *sharedScheduler) each(lanes func(*scheduler) []*lane, f func(*scheduler, *lane)) {
	q.lock()
	defer q.unlock()
	for i, l := range slices.Clone(lanes(&q.s)) {
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
