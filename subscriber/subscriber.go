package subscriber

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"go.etcd.io/bbolt"
)

// Subscriber receives what one topic publishes. Its methods may be called from
// several goroutines.
type Subscriber struct {
	o     Options
	log   *slog.Logger
	state *state
	more  signal // the inbox has something new
	wake  signal // the subscription or the gaps are to be looked at

	reading   sync.Mutex // held by the one who ranges over Changes
	repairing sync.Mutex // one repair at a time

	writing sync.Mutex // of the status file
	written Status     // what is in it, without AsOf

	mu       sync.Mutex
	counts   Counts
	counted  bool   // counts has what was stored of it
	wanted   string // why the Change List is to be asked; empty: it is not
	trouble  string // what keeps it from subscribing or repairing, for Status
	streamed error
}

// signal tells any number of waiters that something came.
type signal struct {
	mu sync.Mutex
	ch chan struct{}
}

// wait returns what is closed when tell is called next.
func (g *signal) wait() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ch == nil {
		g.ch = make(chan struct{})
	}
	return g.ch
}

func (g *signal) tell() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ch != nil {
		close(g.ch)
		g.ch = nil
	}
}

// Open opens the state in Options.Dir, or begins a new one. Handler answers from
// then on; Run subscribes and repairs. The error says which option is wrong, or
// what is wrong with the folder.
func Open(o Options) (*Subscriber, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	st, err := openState(o.Dir)
	if err != nil {
		return nil, err
	}
	s := &Subscriber{o: o, log: o.Log, state: st}
	if err := s.recount(); err != nil {
		_ = st.close()
		return nil, err
	}
	return s, nil
}

// Close ends it. A notification that comes after it is answered 503, so that the
// hub comes again.
func (s *Subscriber) Close() error {
	err := s.writeStatus()
	return errors.Join(err, s.state.close())
}

// Run subscribes, renews the lease, and repairs gaps, until ctx ends; then it
// returns nil. The subscription stays, so that the hub goes on delivering to
// Handler, or to the next Run; Unsubscribe ends it. It may be called once.
func (s *Subscriber) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	if s.o.Callback != "" {
		wg.Go(func() { s.keepSubscribed(ctx) })
	}
	wg.Go(func() { s.keepComplete(ctx) })
	wg.Go(func() { s.keepStatus(ctx) })
	wg.Wait()
	return nil
}

// update changes the state, with the counts that go with it.
func (s *Subscriber) update(change func(*bbolt.Tx) error) error {
	err := s.state.update(func(tx *bbolt.Tx) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		return change(tx)
	})
	if errors.Is(err, errNotWritten) {
		_ = s.recount()
	}
	return err
}

// count changes the counts that are kept in memory.
func (s *Subscriber) count(change func(*Counts)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.counts)
}

// recount counts what is on disk.
func (s *Subscriber) recount() error {
	return s.state.view(func(tx *bbolt.Tx) error {
		var c Counts
		if _, err := getJSON(tx.Bucket(metaBucket), countsKey, &c); err != nil {
			return err
		}
		c.Backlog, c.Batches, c.Held = 0, 0, 0
		add := func(n *int) func(_, raw []byte) error {
			return func(_, raw []byte) error { *n++; c.Backlog += int64(len(raw)); return nil }
		}
		if err := tx.Bucket(inboxBucket).ForEach(add(&c.Batches)); err != nil {
			return err
		}
		if err := tx.Bucket(heldBucket).ForEach(add(&c.Held)); err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.counted {
			s.counts, s.counted = c, true
		}
		s.counts.Backlog, s.counts.Batches, s.counts.Held = c.Backlog, c.Batches, c.Held
		return nil
	})
}

// wakeUp has the subscription and the gaps looked at now.
func (s *Subscriber) wakeUp() { s.wake.tell() }

// pause waits for a time, or until or is closed; until ctx ends, and then it
// returns false.
func pause(ctx context.Context, d time.Duration, or <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-or:
	}
	return true
}
