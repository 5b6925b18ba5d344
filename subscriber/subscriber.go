package subscriber

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/internal/base/quiet"
	"github.com/rshub/rshub/subscriber/internal/biglist"
)

// Subscriber receives what one topic publishes. Its methods may be called from
// several goroutines.
//
// It has these parts, and each knows only those above it:
//
//	inbox     the file of the state, and the order: which notification follows, is early, or is a duplicate
//	renewal   finds the hub, subscribes and renews the lease
//	repairer  fills gaps from the Source's Change Lists
//	receiver  the callback: verifications, signatures, deliveries
//	streamer  reads the hub's stream in place of deliveries
type Subscriber struct {
	o        Options
	log      *slog.Logger
	inbox    *inbox
	renewal  *renewal
	repairer *repairer
	receiver *receiver
	streamer *streamer
	troubles *troubles
	quiet    *quiet.Limit

	closing sync.Once
	reading stream     // of Changes
	writing sync.Mutex // of the status file
	written Status     // what is in it, without AsOf
}

// What trouble is about.
const (
	subscribing = iota
	repairing
)

// troubles are what keeps the Subscriber from subscribing, and from repairing.
type troubles struct {
	changed *clock.Signal // the status may be another

	mu    sync.Mutex
	about [2]string
}

// set stores an error; nil: there is no trouble any more.
func (t *troubles) set(about int, err error) {
	defer t.changed.Broadcast()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.about[about] = ""; err != nil {
		t.about[about] = err.Error()
	}
}

// String lists them; empty: there is none.
func (t *troubles) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Trim(strings.Join(t.about[:], "; "), "; ")
}

// Open opens the state in Options.Dir, or begins a new one. From then on, Handler
// answers. Run subscribes and repairs. The error says which option is wrong, or
// what is wrong with the folder.
func Open(o Options) (*Subscriber, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	in := &inbox{dir: o.Dir, maxBacklog: o.MaxBacklog, maxHeld: o.MaxHeld, start: o.Start}
	var err error
	if in.db, err = openState(o.Dir, in.recount); err != nil {
		return nil, fmt.Errorf("subscriber: %w", err)
	}
	s := &Subscriber{o: o, log: o.Log, inbox: in, troubles: &troubles{changed: &in.changed}, quiet: quiet.New(time.Minute, 1), reading: stream{inbox: in}}
	s.renewal = &renewal{o: &s.o, log: o.Log, inbox: in, troubles: s.troubles}
	s.repairer = &repairer{o: &s.o, log: o.Log, large: biglist.Warner(o.Log), later: laterWarner(o.Log), inbox: in, renewal: s.renewal, troubles: s.troubles}
	s.streamer = &streamer{o: &s.o, log: o.Log, inbox: in, renewal: s.renewal, repairer: s.repairer, troubles: s.troubles, quiet: s.quiet}
	s.receiver = &receiver{o: &s.o, log: o.Log, inbox: in, repairer: s.repairer, quiet: s.quiet}
	return s, nil
}

// Close ends the Subscriber, and a range over Changes with it. A notification that comes
// later is answered 503, so that the hub sends it again. End Run before.
func (s *Subscriber) Close() (err error) {
	s.closing.Do(func() {
		err = errors.Join(s.writeStatus(), s.inbox.db.Close())
		s.inbox.more.Broadcast()
		if c, ok := s.o.Client.(interface{ CloseIdleConnections() }); ok && s.o.ownClient {
			c.CloseIdleConnections()
		}
	})
	return err
}

// Run subscribes and renews the lease, or reads the hub's stream, or polls (Options.Via), and
// repairs gaps, until ctx ends; then it returns nil. The subscription stays, so that the hub goes
// on delivering to Handler, or to the next Run; Unsubscribe ends it, and so does a Run that reads the
// stream or polls, if there is a Callback at which the hub can verify that. It may be called once.
// An error says that the Subscriber was closed before.
func (s *Subscriber) Run(ctx context.Context) error {
	if err := s.inbox.db.Closed(); err != nil {
		return err
	}
	var wg sync.WaitGroup
	if !s.o.subscribes() {
		wg.Go(func() { s.renewal.leave(ctx) })
	}
	switch {
	case s.o.subscribes():
		wg.Go(func() { s.renewal.keepSubscribed(ctx) })
	case s.o.streams():
		wg.Go(func() { s.streamer.run(ctx) })
	default:
		s.log.Info("the Source is asked for changes", "event", "polling", "topic", s.o.Topic, "every", s.o.PollEvery)
		s.repairer.poll(true)
	}
	wg.Go(func() { s.repairer.keepComplete(ctx) })
	wg.Go(func() { s.keepStatus(ctx) })
	wg.Wait()
	return nil
}
