package validate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/journal"
)

// TopicMode says how much the topic check counts (`--topic-check`).
type TopicMode string

// The modes. The empty one is TopicRequire.
const (
	TopicRequire TopicMode = "require" // a topic that does not name this hub is refused
	TopicWarn    TopicMode = "warn"    // it is let through with a warning
	TopicOff     TopicMode = "off"     // nothing is asked
)

// How long what a topic URI said is remembered. StayGood is how long a good answer of
// an established topic counts while the topic URI can't be asked again.
const (
	RememberGood = 5 * time.Minute
	RememberBad  = 10 * time.Second
	StayGood     = 24 * time.Hour
)

// warnWait is how long a check whose outcome is only a warning may hold up
// whoever asked. The check itself goes on.
const warnWait = 2 * time.Second

// maxFlights is how many topics are asked at once for strangers, and reservedFlights
// how many for what is established, beside these. One requester may have one in
// flightsPart of either.
const (
	maxFlights      = 1000
	reservedFlights = 500
	flightsPart     = 4
)

// DeniedError says that the topic URI gave an answer, and that it is no.
type DeniedError struct{ Reason string }

func (e *DeniedError) Error() string { return e.Reason }

// UnsureError says that the topic URI could not be asked; later it may be.
type UnsureError struct {
	Reason string
	After  time.Duration // when to try again; zero: it did not say
	// Passing says that it was a 5xx, a failure of DNS, a time limit, or that this hub
	// was asking too many at once: nothing that speaks against the topic.
	Passing bool
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

// Budget limits the requests to hosts that did not confirm that they want them.
type Budget interface {
	// Begin asks for one request to a host. If wait is 0 the request may be sent now
	// with the returned context, and confirm is called if the host wanted it; else it
	// may be asked for again after wait. Begin is called from many goroutines.
	Begin(ctx context.Context, now time.Time, host string) (_ context.Context, confirm func(), wait time.Duration)
}

// TopicOptions are what a TopicChecker needs. HubURL and Client are required.
type TopicOptions struct {
	HubURL string
	Client Doer
	// Budget bounds the requests to hosts that did not name this hub; nil: no
	// bound.
	Budget Budget
	Mode   TopicMode
	// Timeout is for one exchange; a body gets more by its length. Zero: 15 s.
	Timeout time.Duration
	// Remember is how many topics are remembered at most, and ten times as many
	// established ones apart from these. Zero: 10,000.
	Remember int
	// Warn is told what TopicWarn lets through; nil: nobody is.
	Warn func(topic string, err error)
}

// TopicChecker asks topic URIs whether they name this hub (HUB-53, HUB-54) and
// whether they serve what was posted. On whose behalf it asks, the contexts of its
// methods say (egress.WithAsker). It may be shared between goroutines.
type TopicChecker struct {
	o      TopicOptions
	ctx    context.Context // of the checks under way; Close cancels it
	cancel context.CancelFunc
	known  *lru.Cache[uuid.UUID, verdict] // by journal.TopicID
	// established are the latest good answers of established topics, which other names
	// do not push out. An answer that is not good takes a topic out.
	established *lru.Cache[uuid.UUID, time.Time]

	mu       sync.Mutex
	flights  map[route]*flight  // the checks under way
	busy     map[bool]*quota    // how many of them, for strangers (false) and with a reserve
	readings map[route]*reading // the latest comparison with what a topic serves
	wg       sync.WaitGroup     // counts what is under way
}

// route is a topic, and whether it is asked out of the reserve: what a stranger's
// request comes to says nothing of what one with a reserve would come to.
type route struct {
	topic   string
	reserve bool
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
	if o.Budget == nil {
		o.Budget = (*egress.Budget)(nil)
	}
	o.Mode, o.Timeout, o.Remember = cmp.Or(o.Mode, TopicRequire), cmp.Or(max(o.Timeout, 0), 15*time.Second), cmp.Or(max(o.Remember, 0), 10_000)
	if !slices.Contains([]TopicMode{TopicRequire, TopicWarn, TopicOff}, o.Mode) {
		return nil, fmt.Errorf("topic check %q: it can be require, warn or off", o.Mode)
	}
	known, err := lru.New[uuid.UUID, verdict](o.Remember)
	if err != nil {
		return nil, err
	}
	established, err := lru.New[uuid.UUID, time.Time](10 * o.Remember)
	if err != nil {
		return nil, err
	}
	c := &TopicChecker{
		o: o, known: known, established: established,
		flights: make(map[route]*flight), readings: make(map[route]*reading),
		busy: map[bool]*quota{false: {limit: maxFlights, by: make(map[uint64]int)}, true: {limit: reservedFlights, by: make(map[uint64]int)}},
	}
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
// is not. After that the good answer of a topic that is established counts on, for 24
// hours at most, as long as asking again comes to a *WaitError or to an *UnsureError
// that is Passing. Any answer that does not name this hub ends it.
//
// Callers that ask for one topic at once share one request, which a caller that goes
// away does not end; those with a reserve share none with strangers.
func (c *TopicChecker) Check(ctx context.Context, topic string) error {
	if c.o.Mode == TopicOff {
		return nil
	}
	id, a := journal.TopicID(topic), egress.AskerOf(ctx)
	if v, ok := c.remembered(id); ok {
		return c.enforced(v.err)
	}
	f, err := c.join(topic, a) //nolint:contextcheck // the check is shared, and outlives the one who asked first
	if err != nil {
		return c.enforced(c.excused(id, a, err))
	}
	var patience <-chan time.Time
	if c.o.Mode == TopicWarn {
		t := time.NewTimer(warnWait)
		defer t.Stop()
		patience = t.C
	}
	select {
	case <-f.done:
		return c.enforced(c.excused(id, a, f.err))
	case <-patience:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// remembered is what a topic URI said, while that needs no asking again.
func (c *TopicChecker) remembered(id uuid.UUID) (v verdict, ok bool) {
	now := time.Now()
	if v, ok = c.known.Get(id); ok && now.Before(v.until) {
		return v, true
	}
	at, ok := c.established.Get(id)
	return verdict{}, ok && now.Before(at.Add(RememberGood))
}

// excused is nil where err says nothing against an established topic whose good
// answer still counts; else it is err.
func (c *TopicChecker) excused(id uuid.UUID, a egress.Asker, err error) error {
	var wait *WaitError
	var unsure *UnsureError
	passing := errors.As(err, &wait) || errors.As(err, &unsure) && unsure.Passing
	if !passing || !a.Established {
		return err
	}
	if at, ok := c.established.Get(id); ok && time.Now().Before(at.Add(StayGood)) {
		return nil
	}
	return err
}

// join returns the check of topic that is under way, or begins one for a.
func (c *TopicChecker) join(topic string, a egress.Asker) (*flight, error) {
	to := route{topic, a.Reserve != ""}
	c.mu.Lock()
	defer c.mu.Unlock()
	if f, ok := c.flights[to]; ok {
		return f, nil
	}
	if c.ctx.Err() != nil {
		return nil, &UnsureError{Reason: "this hub is shutting down"}
	}
	if !c.busy[to.reserve].acquire(a.Requester) {
		return nil, &UnsureError{Reason: "this hub is asking too many topic URIs at the moment", After: time.Second, Passing: true}
	}
	f := &flight{done: make(chan struct{})}
	c.flights[to] = f
	c.wg.Go(func() {
		f.err = c.look(topic, a)
		c.mu.Lock()
		delete(c.flights, to)
		c.busy[to.reserve].release(a.Requester)
		c.mu.Unlock()
		close(f.done)
	})
	return f, nil
}

// quota counts the checks under way, in all and by requester.
type quota struct {
	limit, all int
	by         map[uint64]int
}

// acquire counts one more check of a requester, and returns false if there is no room
// for it. Requester 0 is nobody in particular.
func (q *quota) acquire(requester uint64) bool {
	if q.all >= q.limit || requester != 0 && q.by[requester] >= q.limit/flightsPart {
		return false
	}
	q.all++
	q.by[requester]++
	return true
}

func (q *quota) release(requester uint64) {
	q.all--
	if q.by[requester]--; q.by[requester] == 0 {
		delete(q.by, requester)
	}
}

// enforced returns err, or nil in the mode that only warns.
func (c *TopicChecker) enforced(err error) error {
	if c.o.Mode == TopicWarn {
		return nil
	}
	return err
}

// look asks the topic URI for a and remembers the answer.
func (c *TopicChecker) look(topic string, a egress.Asker) error {
	ctx, cancel := context.WithTimeout(egress.WithAsker(c.ctx, a), c.o.Timeout)
	defer cancel()
	err := c.ask(ctx, topic)
	c.remember(topic, a, err)
	return err
}

// remember keeps what a topic URI said, and tells of what is let pass.
func (c *TopicChecker) remember(topic string, a egress.Asker, err error) {
	_, denied := err.(*DeniedError) //nolint:errorlint // this package makes them itself and wraps none
	id := journal.TopicID(topic)
	switch now := time.Now(); {
	case err == nil:
		c.known.Add(id, verdict{until: now.Add(RememberGood)})
		if a.Established || c.established.Contains(id) {
			c.established.Add(id, now)
		}
	case denied:
		c.established.Remove(id)
		c.known.Add(id, verdict{err: err, until: now.Add(RememberBad)})
	}
	if err != nil && c.o.Mode == TopicWarn && c.o.Warn != nil {
		c.o.Warn(topic, err)
	}
}

// unsay ends the good answer of an established topic where err is that of an answer
// which does not name this hub, though it was asked for something else.
func (c *TopicChecker) unsay(topic string, err error) {
	var denied *DeniedError
	if errors.As(err, &denied) {
		c.established.Remove(journal.TopicID(topic))
	}
}
