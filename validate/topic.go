package validate

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/rshub/rshub/internal/egress"
)

// TopicMode says how much the topic check counts (`--topic-check`).
type TopicMode string

// The modes. The empty one is TopicRequire.
const (
	TopicRequire TopicMode = "require" // a topic that does not name this hub is refused
	TopicWarn    TopicMode = "warn"    // it is let through with a warning
	TopicOff     TopicMode = "off"     // nothing is asked
)

// How long what a topic URI said is remembered.
const (
	RememberGood = 5 * time.Minute
	RememberBad  = 10 * time.Second
)

// warnWait is how long a check whose outcome is only a warning may hold up
// whoever asked. The check itself goes on.
const warnWait = 2 * time.Second

// maxFlights is how many topics are asked at once.
const maxFlights = 1000

// DeniedError says that the topic URI gave an answer, and that it is no.
type DeniedError struct{ Reason string }

func (e *DeniedError) Error() string { return e.Reason }

// UnsureError says that the topic URI could not be asked; later it may be.
type UnsureError struct {
	Reason string
	After  time.Duration // when to try again; zero: it did not say
}

func (e *UnsureError) Error() string { return e.Reason }

// WaitError says that the budget of unconfirmed requests to the topic's host is
// used up.
type WaitError struct {
	Host  string
	After time.Duration // when there is room again
}

func (e *WaitError) Error() string {
	return fmt.Sprintf("too many requests to %s have not been confirmed yet; try again in %d seconds", e.Host, seconds(e.After))
}

// Doer makes one HTTP exchange and follows no redirects, as egress.Client does.
type Doer interface {
	Do(req *http.Request) (*http.Response, error)
}

// TopicOptions are what a TopicChecker needs. HubURL and Client are required.
type TopicOptions struct {
	HubURL string
	Client Doer
	// Budget bounds the requests to hosts that did not name this hub; nil: no
	// bound.
	Budget *egress.Budget
	Mode   TopicMode
	// Timeout is for one exchange; a body gets more by its length. Zero: 15 s.
	Timeout time.Duration
	// Remember is how many topics are remembered at most. Zero: 10,000.
	Remember int
	// Warn is told what TopicWarn lets through; nil: nobody is.
	Warn func(topic string, err error)
}

// TopicChecker asks topic URIs whether they name this hub (HUB-53, HUB-54) and
// whether they serve what was posted. It may be shared between
// goroutines.
type TopicChecker struct {
	o      TopicOptions
	ctx    context.Context // of the checks under way; Close cancels it
	cancel context.CancelFunc
	known  *lru.Cache[string, verdict]

	mu      sync.Mutex
	flights map[string]*flight // the checks under way, by topic
	wg      sync.WaitGroup     // counts them
}

// flight is one check under way. Err is to be read after done is closed.
type flight struct {
	done chan struct{}
	err  error
}

type verdict struct {
	err   error
	until time.Time
}

// NewTopicChecker returns a TopicChecker. Close ends it.
func NewTopicChecker(o TopicOptions) (*TopicChecker, error) {
	if o.Mode == "" {
		o.Mode = TopicRequire
	}
	switch o.Mode {
	case TopicRequire, TopicWarn, TopicOff:
	default:
		return nil, fmt.Errorf("topic check %q: it can be require, warn or off", o.Mode)
	}
	if o.Timeout <= 0 {
		o.Timeout = 15 * time.Second
	}
	if o.Remember <= 0 {
		o.Remember = 10_000
	}
	known, err := lru.New[string, verdict](o.Remember)
	if err != nil {
		return nil, err
	}
	c := &TopicChecker{o: o, known: known, flights: make(map[string]*flight)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// Close breaks off the checks that are under way and waits for them. A Check
// after it fails.
func (c *TopicChecker) Close() {
	c.cancel()
	c.wg.Wait()
}

// Check asks the topic URI whether it names itself and this hub: in Link headers, or
// where these name no hub, in the first 64 KiB of its HTML page or feed (DST-01). Four
// things can happen:
//
//   - nil: it does, or the mode lets it pass;
//   - *DeniedError: it answered and does not, or its address is refused;
//   - *WaitError: its host may not be asked before some time has passed;
//   - another error: it could not be asked, or the caller's ctx ended.
//
// An answer is remembered, 5 minutes where it is good and 10 seconds where it
// is not. Callers that ask for one topic at once share one request, which a
// caller that goes away does not end.
func (c *TopicChecker) Check(ctx context.Context, topic string) error {
	if c.o.Mode == TopicOff {
		return nil
	}
	if v, ok := c.known.Get(topic); ok && time.Now().Before(v.until) {
		return c.enforced(v.err)
	}
	f, err := c.join(topic) //nolint:contextcheck // the check is shared, and outlives the one who asked first
	if err != nil {
		return c.enforced(err)
	}
	var patience <-chan time.Time
	if c.o.Mode == TopicWarn {
		t := time.NewTimer(warnWait)
		defer t.Stop()
		patience = t.C
	}
	select {
	case <-f.done:
		return c.enforced(f.err)
	case <-patience:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// join returns the check of topic that is under way, or begins one.
func (c *TopicChecker) join(topic string) (*flight, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f, ok := c.flights[topic]; ok {
		return f, nil
	}
	if c.ctx.Err() != nil {
		return nil, &UnsureError{Reason: "this hub is shutting down"}
	}
	if len(c.flights) >= maxFlights {
		return nil, &UnsureError{Reason: "this hub is asking too many topic URIs at the moment", After: time.Second}
	}
	f := &flight{done: make(chan struct{})}
	c.flights[topic] = f
	c.wg.Go(func() {
		f.err = c.look(topic)
		c.mu.Lock()
		delete(c.flights, topic)
		c.mu.Unlock()
		close(f.done)
	})
	return f, nil
}

// enforced returns err, or nil in the mode that only warns.
func (c *TopicChecker) enforced(err error) error {
	if c.o.Mode == TopicWarn {
		return nil
	}
	return err
}

// look asks the topic URI and remembers the answer.
func (c *TopicChecker) look(topic string) error {
	ctx, cancel := context.WithTimeout(c.ctx, c.o.Timeout)
	defer cancel()
	err := c.ask(ctx, topic)
	c.remember(topic, err)
	return err
}

// remember keeps what a topic URI said, and tells of what is let pass.
func (c *TopicChecker) remember(topic string, err error) {
	_, denied := err.(*DeniedError) //nolint:errorlint // this package makes them itself and wraps none
	switch now := time.Now(); {
	case err == nil:
		c.known.Add(topic, verdict{until: now.Add(RememberGood)})
	case denied:
		c.known.Add(topic, verdict{err: err, until: now.Add(RememberBad)})
	}
	if err != nil && c.o.Mode == TopicWarn && c.o.Warn != nil {
		c.o.Warn(topic, err)
	}
}
