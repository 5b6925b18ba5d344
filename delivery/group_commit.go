package delivery

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// groupCommit stores the results of attempts, in groups: one is written while
// another fills. A group is written when its first result is a window old, or
// when it is full. While it is full, add waits.
//
// Results that the store refuses (subscriptions.CommitError) are written again with later groups,
// after a backoff, until they are stored. So a record that cannot be written delays no other. Its
// subscription is blocked meanwhile: it gets nothing more. So no result overtakes an earlier one,
// and few wait. If more than a group of results waits, or the store fails as a whole, the next
// group is written only after that.
//
// Failed results count like others: whatever the store does, no more than two groups
// are not acknowledged at any time. After a crash no more than these and what was in
// flight is delivered again (invariant 7).
type groupCommit struct {
	store  subscriptions.Committer
	window time.Duration
	size   int
	log    *zap.Logger
	wake   chan struct{} // a group may be due earlier than run thinks
	ended  chan struct{} // nothing will be added any more
	// stored, if not nil, is called for each end that was stored, before ahead forgets it.
	stored func(*subscriptions.Commit)

	mu      sync.Mutex
	changed sync.Cond // on mu: there may be room to add, or a group is written
	filling group
	since   time.Time // when filling got its first result
	hurry   bool      // filling is to be written without waiting for the window
	writing group     // the group being written
	failed  group     // wait to be written again, until again
	again   time.Time
	blocked map[uuid.UUID]struct{} // subscriptions that the store named, until all theirs is stored
	anyone  atomic.Bool            // is in blocked
	tries   int                    // writes of which something failed, since the store had stored all
	giveUp  bool                   // add waits no more
	before  int                    // commits in the group before the one that fills; only write uses it
	// begun counts the groups that write began with, and written those that it has finished.
	begun, written uint64
}

// The backoff before failed results are written again.
const (
	commitBackoff    = 100 * time.Millisecond // the first; each is twice the one before
	maxCommitBackoff = 5 * time.Second
)

func newGroupCommit(store subscriptions.Committer, window time.Duration, size int, log *zap.Logger) *groupCommit {
	s := &groupCommit{
		store: store, window: window, size: size, log: log,
		wake: make(chan struct{}, 1), ended: make(chan struct{}),
		blocked: make(map[uuid.UUID]struct{}),
	}
	s.changed.L = &s.mu
	return s
}

// add adds a result to be stored. It waits while the group is full.
func (gc *groupCommit) add(c subscriptions.Commit) {
	gc.mu.Lock()
	defer gc.mu.Unlock()
	for (gc.filling.n >= gc.size || gc.total() >= 2*gc.size) && !gc.giveUp {
		gc.changed.Wait()
	}
	if gc.filling.n == 0 {
		gc.since = time.Now()
	}
	if gc.filling.add(c); gc.filling.n == 1 || gc.filling.n == gc.size {
		poke(gc.wake)
	}
}

// ahead returns a stored subscription as it will be once the results that wait are
// stored.
func (gc *groupCommit) ahead(sub subscriptions.Subscription) subscriptions.Subscription {
	gc.mu.Lock()
	defer gc.mu.Unlock()
	for _, r := range []*group{&gc.writing, &gc.failed, &gc.filling} { // in their order
		sub = r.ahead(sub)
	}
	return sub
}

// run writes groups until close, and then the last one. When ctx ends, which is to be after
// close, it gives up what the store does not accept.
func (gc *groupCommit) run(ctx context.Context) {
	for {
		wait := gc.untilDue()
		if wait <= 0 {
			gc.write(ctx, false)
			continue
		}
		select {
		case <-gc.wake:
		case <-time.After(wait):
		case <-gc.ended:
			gc.write(ctx, true)
			return
		}
	}
}

// untilDue is how long it is until a group has to be written; long, if there is nothing to
// write. Results that failed before wait for the group that fills, if there is one.
func (gc *groupCommit) untilDue() time.Duration {
	gc.mu.Lock()
	defer gc.mu.Unlock()
	switch {
	case gc.hurry || gc.filling.n >= gc.size:
		return 0
	case gc.filling.n > 0:
		return gc.window - time.Since(gc.since)
	case gc.failed.n > 0:
		return time.Until(gc.again)
	default:
		return time.Hour
	}
}

// write stores the group that fills. Results that the store refuses wait to be written with a
// later group. If there are too many of them, or the store accepted nothing, or this is the last
// group, write tries again until that is over or ctx ends. Meanwhile the next group fills.
func (gc *groupCommit) write(ctx context.Context, last bool) {
	g := gc.nextGroup(last)
	defer gc.done()
	for g.n > 0 {
		err := gc.store.Commit(ctx, g.commits)
		if err != nil && ctx.Err() != nil { // Run has ended, and logged how much is not stored
			return
		}
		var backoff time.Duration
		if g, backoff = gc.requeue(gc.acknowledge(g, err), last || isAway(err)); g.n > 0 && !clock.Sleep(ctx, backoff) {
			return
		}
	}
}

// nextGroup returns the group that fills. If the backoff of the results that failed is over, they
// belong to it. Until then, new results of their subscriptions wait with them.
func (gc *groupCommit) nextGroup(last bool) (g group) {
	next := newGroup(gc.before)
	gc.mu.Lock()
	defer gc.mu.Unlock()
	g, gc.filling, gc.hurry = gc.filling, next, false
	if gc.failed.n > 0 {
		var later group
		later, g = g.split(gc.failed.has)
		gc.failed.pushAll(later)
		if last || gc.failed.n > gc.size || !time.Now().Before(gc.again) {
			gc.failed.pushAll(g)
			g, gc.failed = gc.failed, group{}
		}
	}
	gc.writing, gc.before = g, len(g.commits)
	gc.begun++
	gc.changed.Broadcast()
	return g
}

// isAway reports whether the store may have stored nothing at all.
func isAway(err error) bool {
	return err != nil && !errors.As(err, new(*subscriptions.CommitError))
}

// acknowledge returns the results of a group that the store refused. Those that it can never store,
// since a record cannot be read, are dropped.
func (gc *groupCommit) acknowledge(g group, err error) (failed group) {
	var why *subscriptions.CommitError
	switch {
	case err == nil:
	case errors.As(err, &why):
		var unreadable group
		failed, _ = g.split(func(id uuid.UUID) bool { return why.Failed[id] != nil })
		unreadable, failed = failed.split(func(id uuid.UUID) bool { return errors.Is(why.Failed[id], journal.ErrPacked) })
		if unreadable.n > 0 {
			gc.log.Error("a cursor could not be stored, as what is stored of its subscription cannot be read; the others of its group were stored",
				zap.String("event", "commit_unreadable"), zap.Error(err))
		}
	default:
		failed = g
	}
	for i := range g.commits {
		if c := &g.commits[i]; c.End != "" && gc.stored != nil && !failed.has(c.ID) {
			gc.stored(c)
		}
	}
	gc.mu.Lock()
	defer gc.mu.Unlock()
	if why != nil || len(gc.blocked) > 0 {
		for id := range g.latest {
			switch {
			case !failed.has(id):
				delete(gc.blocked, id)
			case why != nil:
				gc.blocked[id] = struct{}{}
			}
		}
		gc.anyone.Store(len(gc.blocked) > 0)
	}
	switch {
	case failed.n > 0:
		gc.tries++
		gc.log.Warn("results could not be stored; they are stored again, and after a crash before that delivered again",
			zap.String("event", "commit_failed"), zap.Int("results", failed.n), zap.Int("subscriptions", len(failed.latest)), zap.Int("try", gc.tries), zap.Error(err))
	case err == nil && gc.tries > 0 && len(gc.blocked) == 0:
		gc.log.Info("the store accepts cursors again", zap.String("event", "commit_recovered"), zap.Int("tries", gc.tries+1))
		gc.tries = 0
	}
	return failed
}

// requeue lets the failed results of a group wait for a later group. If there are too many, or
// there will be no later group, it returns all that failed, to be written after a backoff.
func (gc *groupCommit) requeue(failed group, none bool) (again group, backoff time.Duration) {
	gc.mu.Lock()
	defer gc.mu.Unlock()
	backoff = min(commitBackoff<<min(max(gc.tries-1, 0), 10), maxCommitBackoff)
	if gc.failed.n == 0 { // else it waits already
		gc.again = time.Now().Add(backoff)
	}
	gc.failed.pushAll(failed)
	if none || gc.failed.n > gc.size {
		again, gc.failed = gc.failed, group{}
	}
	gc.writing = again
	gc.changed.Broadcast()
	return again, backoff
}

// done records that the group that nextGroup returned last is stored, except what failed, or
// given up.
func (gc *groupCommit) done() {
	gc.mu.Lock()
	defer gc.mu.Unlock()
	gc.writing = group{}
	gc.written++
	gc.changed.Broadcast()
}

// blocks reports whether a subscription must get nothing, because the store has not accepted
// the results of its last deliveries.
func (gc *groupCommit) blocks(id uuid.UUID) bool {
	if !gc.anyone.Load() {
		return false
	}
	gc.mu.Lock()
	defer gc.mu.Unlock()
	_, ok := gc.blocked[id]
	return ok
}

// flush stores what was added so far without waiting for the window, and waits for that until
// ctx ends.
func (gc *groupCommit) flush(ctx context.Context) {
	gc.mu.Lock()
	defer gc.mu.Unlock()
	until := gc.begun
	if gc.filling.n > 0 {
		until++
		gc.hurry = true
		poke(gc.wake)
	}
	defer context.AfterFunc(ctx, func() {
		gc.mu.Lock()
		defer gc.mu.Unlock()
		gc.changed.Broadcast()
	})()
	for gc.written < until && ctx.Err() == nil {
		gc.changed.Wait()
	}
}

// giveWay ends the waits in add, because the senders have to end.
func (gc *groupCommit) giveWay() {
	gc.mu.Lock()
	defer gc.mu.Unlock()
	gc.giveUp = true
	gc.changed.Broadcast()
}

// close ends run after it wrote the last group. Call it after the last add.
func (gc *groupCommit) close() { close(gc.ended) }

// uncommitted is how many results the store has not acknowledged.
func (gc *groupCommit) uncommitted() int {
	gc.mu.Lock()
	defer gc.mu.Unlock()
	return gc.total()
}

// total is uncommitted under the lock.
func (gc *groupCommit) total() int { return gc.filling.n + gc.writing.n + gc.failed.n }
