package subscriber

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/subscriber/internal/biglist"
)

// Subscriber receives what one topic publishes. Its methods may be called from
// several goroutines.
type Subscriber struct {
	o     Options
	log   *slog.Logger
	state *state
	large func(list string, entries int) // warns of a list, once
	more  signal                         // the inbox has something new
	wake  signal                         // the subscription or the gaps are to be looked at

	closing   sync.Once
	reading   sync.Mutex // held by the one who ranges over Changes
	repairing sync.Mutex // one repair at a time

	changed signal     // the status may be another
	writing sync.Mutex // of the status file
	written Status     // what is in it, without AsOf

	bodies atomic.Int64 // bytes of deliveries that are being taken

	mu       sync.Mutex
	counts   Counts
	counted  bool                 // counts has what was stored of it
	told     map[string]time.Time // when a refusal was logged, by its reason
	wanted   string               // why the Change List is to be asked; empty: it is not
	trouble  [2]string            // what keeps it from subscribing, and from repairing
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
	s := &Subscriber{o: o, log: o.Log, large: biglist.Warner(o.Log)}
	var err error
	if s.state, err = openState(o.Dir, s.recount); err != nil {
		return nil, err
	}
	return s, nil
}

// Close ends it, and a range over Changes with it. A notification that comes after
// it is answered 503, so that the hub comes again. End Run before.
func (s *Subscriber) Close() (err error) {
	s.closing.Do(func() {
		err = errors.Join(s.writeStatus(), s.state.close())
		s.more.tell()
		if c, ok := s.o.Client.(interface{ CloseIdleConnections() }); ok && s.o.ownClient {
			c.CloseIdleConnections()
		}
	})
	return err
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
func (s *Subscriber) update(change func(*boltfile.Tx) error) error {
	defer s.changed.tell()
	return s.state.update(func(tx *boltfile.Tx) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		return change(tx)
	})
}

// count changes the counts that are kept in memory.
func (s *Subscriber) count(change func(*Counts)) {
	defer s.changed.tell()
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.counts)
}

// recount counts what is on disk.
func (s *Subscriber) recount(tx *boltfile.Tx) error {
	var c Counts
	if _, err := getJSON(tx.Bucket(metaBucket), countsKey, &c); err != nil {
		return err
	}
	c.Backlog, c.Batches, c.Held = 0, 0, 0
	for bucket, n := range map[string]*int{string(inboxBucket): &c.Batches, string(heldBucket): &c.Held} {
		err := tx.Bucket([]byte(bucket)).ForEach(func(_, raw []byte) error {
			*n++
			c.Backlog += int64(len(raw))
			return nil
		})
		if err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.counted {
		s.counts, s.counted = c, true
	}
	s.counts.Backlog, s.counts.Batches, s.counts.Held = c.Backlog, c.Batches, c.Held
	return nil
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
