package subscriber

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/rshub/rshub/subscriber/internal/biglist"
)

// Subscriber receives what one topic publishes. Its methods may be called from
// several goroutines.
//
// It puts its parts together, each of which knows only those above it:
//
//	state     the file that holds all that has to survive a restart
//	inbox     the order: what follows on what was received, what is early, what was there
//	renewal   finds the hub, subscribes and renews the lease
//	repairer  fills gaps from the Source's Change Lists
//	receiver  the callback: verifications, signatures, deliveries
type Subscriber struct {
	o        Options
	log      *slog.Logger
	state    *state
	inbox    *inbox
	renewal  *renewal
	repairer *repairer
	receiver *receiver
	troubles *troubles
	logLimit *logLimit

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
	changed *signal // the status

	mu    sync.Mutex
	about [2]string
}

// set notes an error; nil: there is no trouble any more.
func (t *troubles) set(about int, err error) {
	defer t.changed.tell()
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

// logLimit lets one log line of a kind through in a minute: strangers can bring them about.
type logLimit struct {
	mu sync.Mutex
	at map[string]time.Time // when one was logged, by its kind
}

// allows reports whether a line is to be logged, and counts it.
func (l *logLimit) allows(what string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.at[what]; ok && time.Since(at) < time.Minute {
		return false
	}
	if l.at == nil {
		l.at = map[string]time.Time{}
	}
	l.at[what] = time.Now()
	return true
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
	in := &inbox{dir: o.Dir, maxBacklog: o.MaxBacklog, maxHeld: o.MaxHeld, start: o.Start}
	var err error
	if in.state, err = openState(o.Dir, in.recount); err != nil {
		return nil, err
	}
	s := &Subscriber{o: o, log: o.Log, state: in.state, inbox: in, troubles: &troubles{changed: &in.changed}, logLimit: &logLimit{}, reading: stream{inbox: in}}
	s.renewal = &renewal{o: &s.o, log: o.Log, inbox: in, troubles: s.troubles}
	s.repairer = &repairer{o: &s.o, log: o.Log, large: biglist.Warner(o.Log), inbox: in, renewal: s.renewal, troubles: s.troubles}
	s.receiver = &receiver{o: &s.o, log: o.Log, inbox: in, repairer: s.repairer, logLimit: s.logLimit}
	return s, nil
}

// Close ends it, and a range over Changes with it. A notification that comes after
// it is answered 503, so that the hub comes again. End Run before.
func (s *Subscriber) Close() (err error) {
	s.closing.Do(func() {
		err = errors.Join(s.writeStatus(), s.state.close())
		s.inbox.more.tell()
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
		wg.Go(func() { s.renewal.keepSubscribed(ctx) })
	}
	wg.Go(func() { s.repairer.keepComplete(ctx) })
	wg.Go(func() { s.keepStatus(ctx) })
	wg.Wait()
	return nil
}
