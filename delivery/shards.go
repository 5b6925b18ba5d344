package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/post"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// errLost is the cause with which exchanges are cut off when another hub owns their shard.
var errLost = errors.New("the shard is not this hub's any more")

// cutGrace is how long Finish waits until exchanges that it cut off end, and until the results
// of others are stored.
const cutGrace = 400 * time.Millisecond

// shards are the shards of subscriptions that this hub works on. It reads their subscriptions,
// adds them to the scheduler and removes them. The sweep (sweep.go) keeps them current.
type shards struct {
	journal   journal.Watcher
	store     subscriptions.Registry
	poll      func(ctx context.Context, partitions, shards map[int]uint64) (moved, changed []int, err error)
	found     func(subscriptions.Record)
	ownsShard func(shard int) bool
	sched     *schedulers
	heads     *heads
	commits   results
	log       *zap.Logger
	now       func() time.Time
	exchanges context.Context // what all exchanges belong to

	all [journal.Partitions]shard
	// since are the values to ask Changes with, by partition. They are the sweep's.
	since [journal.Partitions]uint64
}

// shard is one of them.
type shard struct {
	// one allows one Start or Finish at a time. Abort waits for neither.
	one *semaphore.Weighted

	mu     sync.Mutex // locked while lanes come and go
	tenure *tenure    // nil: the shard is not this hub's
	left   remnant    // of the tenure before, if it was aborted
}

// remnant is what an aborted tenure delivered to. A store that loses the records of a shard loses the lease on it too, so the
// sweep may come too late to notice. The next Start compares.
type remnant struct {
	lanes []uuid.UUID
	at    time.Time
}

// remnantKept is how long an aborted tenure is remembered. Ended subscriptions stay in the store for longer, so one that is
// not there within this time was lost.
const remnantKept = time.Minute

// tenure is the time from a Start to the Finish or Abort after it. Work begun in one has no
// effect in the next.
type tenure struct {
	ctx context.Context // of its exchanges
	cut context.CancelCauseFunc
	// sets are its lanes in each scheduler.
	sets []*laneSet
	// loaded: its subscriptions were read. yielding: no attempt is begun any more. The
	// lock of the shard guards both, and touched.
	loaded, yielding bool
	// touched are the subscriptions that Apply was called for, that answered 410, or whose end
	// was stored, since the last sweep began, or the tenure: what is being read of them may be
	// older. The value is when the lease was verified whose end was stored; zero: none.
	touched map[uuid.UUID]time.Time

	// The rest is the sweep's, once it is loaded: the counter value to ask Changed
	// with, and the subscriptions that changed while they were being read, or
	// could not be read.
	changed uint64
	again   map[uuid.UUID]struct{}
}

// touch has a subscription read again by the next sweep. It returns what touched says of its end. The caller has the
// lock of the shard.
func (t *tenure) touch(id uuid.UUID) (ended time.Time) {
	ended = t.touched[id]
	t.touched[id] = ended
	return ended
}

// current is the shard's tenure; nil: the shard is not this hub's.
func (s *shard) current() *tenure {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tenure
}

// owns reports whether the lane's shard is this hub's at this moment.
func (ss *shards) owns(l *lane) bool { return ss.ownsShard(subscriptions.Shard(l.id)) }

// of is the shard of a subscription.
func (ss *shards) of(id uuid.UUID) *shard { return &ss.all[subscriptions.Shard(id)] }

// start implements Dispatcher.Start.
func (ss *shards) start(ctx context.Context, n int) error {
	if err := journal.CheckPartition(n); err != nil {
		return fmt.Errorf("delivery: %w", err)
	}
	s := &ss.all[n]
	if err := s.one.Acquire(ctx, 1); err != nil {
		return context.Cause(ctx)
	}
	defer s.one.Release(1)
	t := ss.open(n)
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })() //nolint:contextcheck // a Cut ends it too
	// Store the results of an aborted tenure first, so that its deliveries are not repeated.
	ss.commits.ofShard(n).flush(ctx)
	start := time.Now()
	left := ss.leftOf(s)
	if err := ss.load(ctx, n, t, left); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		ss.drop(n, t) // it ends ctx too
		return fmt.Errorf("taking up shard %d: %w", n, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tenure != t {
		return fmt.Errorf("taking up shard %d: %w", n, errLost)
	}
	t.loaded, s.left = true, remnant{}
	ss.lost(n, left)
	count := 0
	for i, q := range ss.sched.all {
		q.do(func(*scheduler) { count += len(t.sets[i].lanes) })
	}
	ss.log.Debug("the subscriptions of a shard were read", zap.String("event", "shard_loaded"),
		zap.Int("shard", n), zap.Int("subscriptions", count), zap.Duration("duration", time.Since(start)))
	return nil
}

// finish implements Dispatcher.Finish.
func (ss *shards) finish(ctx context.Context, n int) {
	if journal.CheckPartition(n) != nil {
		return // as any shard that was not started
	}
	s := &ss.all[n]
	if s.one.Acquire(ctx, 1) != nil {
		ss.abort(n)
		return
	}
	defer s.one.Release(1)
	t := ss.close(s)
	if t == nil {
		return
	}
	if !ss.drain(ctx, t) {
		t.cut(errLost)
		moment, cancel := context.WithTimeout(context.WithoutCancel(ctx), cutGrace)
		defer cancel()
		ss.drain(moment, t)
		ctx = moment
	}
	ss.commits.ofShard(n).flush(ctx)
	ss.drop(n, t)
}

// abort implements Dispatcher.Abort.
func (ss *shards) abort(n int) {
	if journal.CheckPartition(n) != nil {
		return
	}
	s := &ss.all[n]
	t := s.current()
	if t == nil {
		return
	}
	lanes := ss.drop(n, t)
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.loaded {
		s.left = remnant{lanes, time.Now()}
	}
}

// leftOf returns the subscriptions that the aborted tenure before delivered to.
func (ss *shards) leftOf(s *shard) map[uuid.UUID]struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.left.at) > remnantKept {
		s.left = remnant{}
	}
	left := make(map[uuid.UUID]struct{}, len(s.left.lanes))
	for _, id := range s.left.lanes {
		left[id] = struct{}{}
	}
	return left
}

// lost reports subscriptions of a shard that were delivered to and that the store does not list any more.
func (ss *shards) lost(n int, unlisted map[uuid.UUID]struct{}) {
	if len(unlisted) > 0 {
		ss.log.Warn("the store lost subscriptions, so nothing is sent to them any more until they subscribe again",
			zap.String("event", "subscriptions_lost"), zap.Int("shard", n), zap.Int("subscriptions", len(unlisted)))
	}
}

// open begins a tenure. Nil: the shard was started already.
func (ss *shards) open(n int) *tenure {
	s := &ss.all[n]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tenure != nil {
		return nil
	}
	t := &tenure{again: make(map[uuid.UUID]struct{}), touched: make(map[uuid.UUID]time.Time)}
	t.ctx, t.cut = post.NewScope(ss.exchanges)
	for range ss.sched.all {
		t.sets = append(t.sets, &laneSet{ctx: t.ctx})
	}
	s.tenure = t
	for i, q := range ss.sched.all {
		q.do(func(sc *scheduler) { sc.sets[n] = t.sets[i] })
	}
	return t
}

// close lets no attempt begin any more, and returns the tenure; nil: there is none.
func (ss *shards) close(s *shard) *tenure {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tenure
	if t == nil {
		return nil
	}
	t.yielding = true
	for i, q := range ss.sched.all {
		q.do(func(*scheduler) { t.sets[i].closing = true })
	}
	ss.each(t, func(sc *scheduler, l *lane) {
		if l.state != inFlight { // these go when their sender is done with them
			sc.remove(l)
		}
	})
	return t
}

// drop ends a tenure, if it is the shard's still: it cuts off what is in flight
// and forgets the lanes, which it returns.
func (ss *shards) drop(n int, t *tenure) (lanes []uuid.UUID) {
	s := &ss.all[n]
	t.cut(errLost) // before waiting for the lock
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tenure != t {
		return nil
	}
	s.tenure = nil
	ss.each(t, func(sc *scheduler, l *lane) {
		lanes = append(lanes, l.id)
		sc.remove(l)
	})
	ss.sched.do(func(sc *scheduler) { sc.sets[n] = nil })
	return lanes
}

// each calls f for the lanes of a tenure, in chunks.
func (ss *shards) each(t *tenure, f func(*scheduler, *lane)) {
	for i, q := range ss.sched.all {
		q.each(func(*scheduler) []*lane { return t.sets[i].lanes }, f)
	}
}

// drain waits until no sender has a lane of a tenure. False: ctx ended first.
func (ss *shards) drain(ctx context.Context, t *tenure) bool {
	for i, q := range ss.sched.all {
		drained := make(chan struct{})
		q.do(func(*scheduler) {
			if set := t.sets[i]; set.active == 0 {
				close(drained)
			} else {
				set.drained = drained
			}
		})
		select {
		case <-drained:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// apply implements Dispatcher.Apply.
func (ss *shards) apply(s subscriptions.Subscription) {
	of := ss.of(s.ID)
	of.mu.Lock()
	defer of.mu.Unlock()
	if t := of.tenure; t != nil && !t.yielding {
		if ended := t.touch(s.ID); ended.IsZero() || s.VerifiedAt.After(ended) { // else it was read before its end was stored
			ss.schedule(&s)
		}
	}
}

// applyRead applies what was read from the store, unless something newer is known
// meanwhile, or the tenure is over; then it returns false.
func (ss *shards) applyRead(t *tenure, s *subscriptions.Subscription) bool {
	of := ss.of(s.ID)
	of.mu.Lock()
	defer of.mu.Unlock()
	if _, touched := t.touched[s.ID]; touched || of.tenure != t || t.yielding {
		return false
	}
	return ss.schedule(s)
}

// schedule gives a subscription to the scheduler. The caller has the lock of the shard. False:
// it is to be read again.
func (ss *shards) schedule(s *subscriptions.Subscription) (ok bool) {
	host := egress.HostPortOf(s.Callback)
	sched := ss.sched.at(host)
	if s.Callback == "" { // the store has lost it, and not even its callback is known
		if sched = ss.sched.find(s); sched == nil {
			return true
		}
	}
	var fresh *topic
	sched.do(func(sc *scheduler) { fresh, ok = sc.apply(s, host) })
	ss.heads.add(fresh)
	return ok
}

// ending calls f, which may remove the lane of a subscription that answered 410. The next
// sweep looks whether the store accepted the end: it does not where a renewal, or
// a result of the hub that had the shard before, came first.
func (ss *shards) ending(id uuid.UUID, f func()) {
	of := ss.of(id)
	of.mu.Lock()
	defer of.mu.Unlock()
	if f(); of.tenure != nil {
		of.tenure.touch(id)
	}
}

// stored is called when the store has accepted the end of a subscription, or found its lease over,
// while groupCommit.ahead still has the end: what was read before does not make a lane again.
func (ss *shards) stored(c *subscriptions.Commit) {
	of := ss.of(c.ID)
	of.mu.Lock()
	defer of.mu.Unlock()
	if of.tenure != nil {
		of.tenure.touched[c.ID] = c.Lease
	}
}

// endedElsewhere reports whether the subscription of a topic that was removed ended with
// it. Then another hub ended it and recorded its gap; the lane is removed.
func (ss *shards) endedElsewhere(ctx context.Context, j *job) bool {
	rec, err := ss.store.Get(ctx, j.lane.id)
	if err != nil || rec.Subscription == nil || rec.Subscription.EndedAt.IsZero() {
		return false
	}
	t := ss.of(j.lane.id).current()
	return t != nil && slices.Contains(t.sets, j.set) && ss.applyRead(t, rec.Subscription)
}

// pageSize is how many records are read from the store at once. With Redis, each page lists the ids
// of the whole shard.
const pageSize = 4096

// load makes lanes of all subscriptions of a shard that have not ended, and removes those that
// it reads from unlisted, which may be nil.
func (ss *shards) load(ctx context.Context, n int, t *tenure, unlisted map[uuid.UUID]struct{}) error {
	// The counter is read before what it counts.
	_, next, err := ss.store.Changed(ctx, n, subscriptions.FromNow)
	if err != nil {
		return err
	}
	t.changed = next
	var after uuid.UUID
	for {
		page, err := ss.store.List(ctx, n, after, pageSize)
		if err != nil {
			return err
		}
		for _, rec := range page {
			if rec.Subscription != nil {
				ss.applyRead(t, rec.Subscription)
				delete(unlisted, rec.Subscription.ID)
			}
			ss.foundIn(rec)
		}
		if len(page) < pageSize {
			return nil
		}
		after = subscriptions.ID(page[len(page)-1].Pair())
	}
}

func (ss *shards) foundIn(rec subscriptions.Record) {
	if rec.Request != nil {
		ss.found(rec)
	}
}
