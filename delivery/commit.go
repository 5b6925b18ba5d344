package delivery

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// groupCommit stores what became of attempts, in groups: one is written while
// another fills. A group is written when its first result is a window old, or
// when it is full; over that, adding waits.
//
// What the store names as not stored (subscriptions.CommitError) is given to it
// again with later groups, with pauses, until it is stored. So a record that cannot
// be written holds no other one up, however long that lasts. Its subscription is
// blocked meanwhile: it gets nothing more, so that no result overtakes an earlier one,
// and that what waits stays small. Where over a group of results waits, or the store
// fails as a whole, the next group is not written before that is over.
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

	mu      sync.Mutex
	room    sync.Cond // on mu: there may be room to add
	filling commitGroup
	since   time.Time   // when filling got its first result
	hurry   bool        // filling is to be written without waiting for the window
	writing commitGroup // the group being written
	failed  commitGroup // wait to be written again, until again
	again   time.Time
	blocked map[uuid.UUID]struct{} // subscriptions that the store named, until all theirs is stored
	tries   int                    // writes of which something failed, since the store had taken all
	giveUp  bool                   // adding waits no more
	// taken counts the groups that write took, and written those of them that it is
	// done with; stored is closed, and made anew, with each that it is.
	taken, written uint64
	stored         chan struct{}
}

// The pauses before what failed is given to the store again.
const (
	commitPause    = 100 * time.Millisecond // the first; each is twice the one before
	maxCommitPause = 5 * time.Second
)

func newGroupCommit(store subscriptions.Committer, window time.Duration, size int, log *zap.Logger) *groupCommit {
	s := &groupCommit{
		store: store, window: window, size: size, log: log,
		wake: make(chan struct{}, 1), ended: make(chan struct{}),
		stored: make(chan struct{}), blocked: make(map[uuid.UUID]struct{}),
	}
	s.room.L = &s.mu
	return s
}

// add gives results to be stored. It waits while the group is full.
func (s *groupCommit) add(all ...subscriptions.Commit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range all {
		for (s.filling.n >= s.size || s.total() >= 2*s.size) && !s.giveUp {
			s.room.Wait()
		}
		if s.filling.n == 0 {
			s.since = time.Now()
		}
		if s.filling.add(c); s.filling.n == 1 || s.filling.n == s.size {
			s.lookAgain()
		}
	}
}

// lookAgain has run look again when a group is due.
func (s *groupCommit) lookAgain() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// ahead returns a stored subscription as it will be once the results that wait are
// stored.
func (s *groupCommit) ahead(sub subscriptions.Subscription) subscriptions.Subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range []*commitGroup{&s.writing, &s.failed, &s.filling} { // in their order
		sub = r.ahead(sub)
	}
	return sub
}

// run writes groups until close, and then the last one. It gives up what the
// store does not take when ctx ends, which is to be after close.
func (s *groupCommit) run(ctx context.Context) error {
	for {
		var due <-chan time.Time // nil while there is nothing to write
		if wait, ok := s.untilDue(); ok && wait <= 0 {
			if err := s.write(ctx, false); err != nil {
				return err
			}
			continue
		} else if ok {
			due = time.After(wait)
		}
		select {
		case <-s.wake:
		case <-due:
		case <-s.ended:
			return s.write(ctx, true)
		}
	}
}

// untilDue is how long it is until a group is to be written. What failed before waits
// for the group that fills, if there is one. False: there is nothing to write.
func (s *groupCommit) untilDue() (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.hurry || s.filling.n >= s.size:
		return 0, true
	case s.filling.n > 0:
		return s.window - time.Since(s.since), true
	default:
		return time.Until(s.again), s.failed.n > 0
	}
}

// write stores the group that fills. What the store names as not stored waits to be
// written with a later group. Where that is too much, or the store took nothing, or
// this is the last group, it is written again and again until that is over or ctx
// ends; meanwhile the next group fills.
func (s *groupCommit) write(ctx context.Context, last bool) error {
	g := s.nextGroup(last)
	defer s.done()
	for g.n > 0 {
		err := s.store.Commit(ctx, g.commits)
		if err != nil && ctx.Err() != nil { // who waited has gone, and said how much is not stored
			return s.givenUp(err)
		}
		var pause time.Duration
		if g, pause = s.requeue(s.acknowledge(g, err), last || isAway(err)); g.n == 0 {
			break
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return s.givenUp(err)
		}
	}
	return nil
}

func (s *groupCommit) givenUp(err error) error {
	return fmt.Errorf("the cursors of %d deliveries could not be stored, so they are made again: %w", s.uncommitted(), err)
}

// nextGroup returns the group that fills, with what failed before where its pause is
// over. Until then, what is new of a blocked subscription waits with that.
func (s *groupCommit) nextGroup(last bool) (g commitGroup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, s.filling, s.hurry = s.filling, commitGroup{}, false
	if s.failed.n > 0 {
		var later commitGroup
		later, g = g.split(s.failed.has)
		s.failed.pushAll(later)
		if last || s.failed.n > s.size || !time.Now().Before(s.again) {
			s.failed.pushAll(g)
			g, s.failed = s.failed, commitGroup{}
		}
	}
	s.writing = g
	s.taken++
	s.room.Broadcast()
	return g
}

// isAway tells whether the store took nothing, for all that is known.
func isAway(err error) bool {
	return err != nil && !errors.As(err, new(*subscriptions.CommitError))
}

// acknowledge returns what the store did not take of a group. What it can't ever take,
// since a record cannot be read, is dropped.
func (s *groupCommit) acknowledge(g commitGroup, err error) (failed commitGroup) {
	var why *subscriptions.CommitError
	switch {
	case err == nil:
	case errors.As(err, &why):
		var unreadable commitGroup
		failed, _ = g.split(func(id uuid.UUID) bool { return why.Failed[id] != nil })
		unreadable, failed = failed.split(func(id uuid.UUID) bool { return errors.Is(why.Failed[id], journal.ErrPacked) })
		if unreadable.n > 0 {
			s.log.Error("a cursor could not be stored, as what is stored of its subscription cannot be read; the others of its group were stored",
				zap.String("event", "commit_unreadable"), zap.Error(err))
		}
	default:
		failed = g
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range g.latest {
		switch {
		case !failed.has(id):
			delete(s.blocked, id)
		case why != nil:
			s.blocked[id] = struct{}{}
		}
	}
	switch {
	case failed.n > 0:
		s.tries++
		s.log.Warn("results could not be stored; they are stored again, and after a crash before that delivered again",
			zap.String("event", "commit_failed"), zap.Int("results", failed.n), zap.Int("subscriptions", len(failed.latest)), zap.Int("try", s.tries), zap.Error(err))
	case err == nil && s.tries > 0 && len(s.blocked) == 0:
		s.log.Info("the store accepts cursors again", zap.String("event", "commit_recovered"), zap.Int("tries", s.tries+1))
		s.tries = 0
	}
	return failed
}

// requeue lets what failed of a group wait for a later one. Where that is too much,
// or there is to be no later one, it returns all that failed, to be written after a
// pause.
func (s *groupCommit) requeue(failed commitGroup, none bool) (again commitGroup, pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pause = min(commitPause<<min(max(s.tries-1, 0), 10), maxCommitPause)
	if s.failed.n == 0 { // else it waits already
		s.again = time.Now().Add(pause)
	}
	s.failed.pushAll(failed)
	if none || s.failed.n > s.size {
		again, s.failed = s.failed, commitGroup{}
	}
	s.writing = again
	s.room.Broadcast()
	return again, pause
}

// done says that the group that was taken last is stored, but for what failed, or
// given up.
func (s *groupCommit) done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing = commitGroup{}
	s.written++
	s.room.Broadcast()
	close(s.stored)
	s.stored = make(chan struct{})
}

// blocks reports whether a subscription is to get nothing, since the store did not
// take what became of its last deliveries.
func (s *groupCommit) blocks(id uuid.UUID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.blocked[id]
	return ok
}

// flush has what was added so far stored without waiting for the window, and waits
// for that until ctx ends.
func (s *groupCommit) flush(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	until := s.taken
	if s.filling.n > 0 {
		until++
		s.hurry = true
		s.lookAgain()
	}
	for s.written < until && ctx.Err() == nil {
		stored := s.stored
		s.mu.Unlock()
		select {
		case <-stored:
		case <-ctx.Done():
		}
		s.mu.Lock()
	}
}

// giveWay lets adding wait no more, since those who wait have to end.
func (s *groupCommit) giveWay() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.giveUp = true
	s.room.Broadcast()
}

// close says that nothing will be added any more.
func (s *groupCommit) close() { close(s.ended) }

// uncommitted is how many results the store has not acknowledged.
func (s *groupCommit) uncommitted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total()
}

// total is uncommitted for those who hold the lock.
func (s *groupCommit) total() int { return s.filling.n + s.writing.n + s.failed.n }
