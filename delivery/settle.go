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

// settler stores what became of attempts, in groups: one is written while
// another fills. A group is written when its first result is a window old, or
// when it is full; over that, adding waits. So the store has not acknowledged
// more than two groups at any time, and after a crash no more than these and
// what was in flight is delivered again (invariant 7).
type settler struct {
	store  subscriptions.Committer
	window time.Duration
	size   int
	log    *zap.Logger
	begun  chan struct{} // filling got its first result
	full   chan struct{} // filling is full
	ended  chan struct{} // nothing will be added any more

	mu      sync.Mutex
	room    sync.Cond // on mu: filling is not full any more
	filling results
	writing int  // results in the group being written
	giveUp  bool // adding waits no more
	// taken counts the groups that write took, and written those of them that it is
	// done with; stored is closed, and made anew, with each that it is.
	taken, written uint64
	stored         chan struct{}
}

// results is a group.
type results struct {
	commits []subscriptions.Commit
	at      map[uuid.UUID]int // the latest of each subscription
	n       int               // results in it
}

func newSettler(store subscriptions.Committer, window time.Duration, size int, log *zap.Logger) *settler {
	s := &settler{
		store: store, window: window, size: size, log: log,
		begun: make(chan struct{}, 1), full: make(chan struct{}, 1), ended: make(chan struct{}),
		stored: make(chan struct{}),
	}
	s.room.L = &s.mu
	return s
}

// add gives a result to be stored. It waits while the group is full.
func (s *settler) add(c subscriptions.Commit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.filling.n >= s.size && !s.giveUp {
		s.room.Wait()
	}
	s.filling.add(c)
	switch s.filling.n {
	case 1:
		signal(s.begun)
	case s.size:
		signal(s.full)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// add joins c with an earlier commit of its subscription: the greater cursor,
// all attempts and gaps. Over another generation, or an end, nothing is joined,
// since what comes with one cursor is not to take effect with another.
func (r *results) add(c subscriptions.Commit) {
	r.n++
	if i, ok := r.at[c.ID]; ok {
		if p := &r.commits[i]; p.End == "" && p.Cursor.Generation == c.Cursor.Generation {
			p.Cursor = journal.Merge(p.Cursor, c.Cursor)
			p.Attempts = append(p.Attempts, c.Attempts...)
			if over := len(p.Attempts) - subscriptions.MaxAttempts; over > 0 {
				p.Attempts = append(p.Attempts[:0], p.Attempts[over:]...)
			}
			for _, g := range c.Gaps {
				p.Gaps = journal.AddGap(p.Gaps, g)
			}
			p.End, p.EndedAt = c.End, c.EndedAt
			return
		}
	}
	if r.at == nil {
		r.at = make(map[uuid.UUID]int)
	}
	r.at[c.ID] = len(r.commits)
	r.commits = append(r.commits, c)
}

// run writes groups until close, and then the last one. It gives up what the
// store does not take when ctx ends, which is to be after close.
func (s *settler) run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.begun:
		case <-s.ended:
			return s.write(ctx)
		}
		timer.Reset(s.window)
		select {
		case <-timer.C:
		case <-s.full:
		case <-s.ended:
		}
		if err := s.write(ctx); err != nil {
			return err
		}
	}
}

// write stores the group that fills. The same commits are given to the store
// until it takes them or ctx ends; meanwhile the next group fills.
func (s *settler) write(ctx context.Context) error {
	s.mu.Lock()
	g := s.filling
	s.filling, s.writing = results{}, g.n
	s.taken++
	defer s.done()
	s.room.Broadcast()
	s.mu.Unlock()
	if g.n == 0 {
		return nil
	}
	wait := 100 * time.Millisecond
	for tries := 1; ; tries++ {
		err := s.store.Commit(ctx, g.commits)
		if err == nil {
			if tries > 1 {
				s.log.Info("the store takes cursors again", zap.String("event", "commit_recovered"), zap.Int("tries", tries))
			}
			break
		}
		if errors.Is(err, journal.ErrPacked) {
			s.log.Error("a cursor could not be stored, as what is stored of its subscription cannot be read; the others of its group were stored",
				zap.String("event", "commit_unreadable"), zap.Error(err))
			break
		}
		s.log.Warn("cursors could not be stored; they are stored again, and after a crash before that delivered again",
			zap.String("event", "commit_failed"), zap.Int("results", g.n), zap.Int("try", tries), zap.Error(err))
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("the cursors of %d deliveries could not be stored, so they are made again: %w", s.uncommitted(), err)
		}
		wait = min(2*wait, 5*time.Second)
	}
	return nil
}

// done says that the group that was taken last is stored, or given up.
func (s *settler) done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing = 0
	s.written++
	close(s.stored)
	s.stored = make(chan struct{})
}

// flush has what was added so far stored without waiting for the window, and waits
// for that until ctx ends.
func (s *settler) flush(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	until := s.taken
	if s.filling.n > 0 {
		until++
		signal(s.full)
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
func (s *settler) giveWay() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.giveUp = true
	s.room.Broadcast()
}

// close says that nothing will be added any more.
func (s *settler) close() { close(s.ended) }

// uncommitted is how many results the store has not acknowledged.
func (s *settler) uncommitted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.filling.n + s.writing
}
