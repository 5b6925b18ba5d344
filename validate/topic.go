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
	"github.com/rshub/rshub/internal/base/web"
	"github.com/rshub/rshub/journal"
)

// TopicMode says how much the topic check counts (`--topic-check`).
type TopicMode string

// The modes. The empty one is TopicRequire.
const (
	TopicRequire TopicMode = "require" // a topic that does not name this hub is refused
	TopicWarn    TopicMode = "warn"    // it is accepted with a warning
	TopicOff     TopicMode = "off"     // nothing is requested
)

// How long the answer of a topic URI is remembered. StayGood is how long a good answer of
// an established topic counts while the topic URI cannot be requested again.
const (
	RememberGood = 5 * time.Minute
	RememberBad  = 10 * time.Second
	StayGood     = 24 * time.Hour
)

// warnWait is how long a caller waits for a check whose result is only a warning. The
// check itself goes on.
const warnWait = 2 * time.Second

// maxChecks is how many topics are checked at once for strangers, and reservedChecks how
// many in addition for established ones. One requester may use a quarter of
// either.
const (
	maxChecks         = 1000
	reservedChecks    = 500
	requesterFraction = 4
)

// DeniedError says that the answer of the topic URI is negative.
type DeniedError struct{ Reason string }

func (e *DeniedError) Error() string { return e.Reason }

// UnsureError says that the topic URI gave no usable answer. It may later.
type UnsureError struct {
	Reason string
	After  time.Duration // how long to wait before another try; zero: unknown
	// Passing says that the cause was a 5xx, a failure of DNS, a time limit, a failure of this hub
	// itself, or too many of its checks at once. None of these speaks against the topic.
	Passing bool
}

func (e *UnsureError) Error() string { return e.Reason }

// WaitError says that the budget of unconfirmed requests to the topic's host is
// used up.
type WaitError struct {
	Host  string
	After time.Duration // how long until there is room again
}

func (e *WaitError) Error() string {
	return fmt.Sprintf("too many requests to %s have not been confirmed yet; try again in %d seconds", e.Host, seconds(e.After))
}

// Doer makes one HTTP exchange and follows no redirects. An *http.Client follows none here.
type Doer interface {
	Do(req *http.Request) (*http.Response, error)
}

// Budget limits the requests to hosts that have not confirmed them.
type Budget interface {
	// Begin reserves one request to a host. If wait is 0, send the request with the
	// returned context, and call confirm if the host confirms it. Else try again after
	// wait. Many goroutines may call Begin.
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
	// Remember is the greatest number of topics whose answers are remembered. Ten times as many
	// established ones are remembered besides. Zero: 10,000.
	Remember int
	// Warn, if set, is called for each topic that TopicWarn accepts with a warning.
	Warn func(topic string, err error)
}

// TopicChecker requests topic URIs, and checks whether they name this hub (HUB-53,
// HUB-54) and whether they serve what was posted. A hub says in the contexts of its methods
// on whose behalf they are, and its Budget reads that. It may be shared between goroutines.
type TopicChecker struct {
	o      TopicOptions
	ctx    context.Context // of the checks under way; Close cancels it
	cancel context.CancelFunc
	known  *lru.Cache[uuid.UUID, pastAnswer] // by journal.TopicID
	// established are the latest good answers of established topics, which other names do
	// not evict. A bad answer removes a topic.
	established *lru.Cache[uuid.UUID, time.Time]
	needsGET    *lru.Cache[string, struct{}] // host:port of topics where HEAD says nothing

	mu        sync.Mutex
	flights   map[route]*flight  // the checks under way
	strangers quota              // how many of them are for strangers
	reserved  quota              // and how many with a reserve
	readings  map[route]*reading // the latest comparison with what a topic serves
	wg        sync.WaitGroup     // counts what is under way
}

// route is a topic, and whether it is requested out of the reserve. The result of a
// stranger's request does not predict that of one with a reserve.
type route struct {
	topic   string
	reserve bool
}

// flight is one check under way. Read err only after done is closed.
type flight struct {
	done chan struct{}
	err  error
}

type pastAnswer struct {
	err   error
	until time.Time
}

// NewTopicChecker returns a TopicChecker. Close ends it. It fails if a required option is missing, or
// the mode does not exist.
func NewTopicChecker(o TopicOptions) (*TopicChecker, error) {
	if o.Budget == nil {
		o.Budget = (*egress.Budget)(nil)
	}
	o.Client = web.WithoutRedirects(o.Client)
	o.Mode, o.Timeout, o.Remember = cmp.Or(o.Mode, TopicRequire), cmp.Or(max(o.Timeout, 0), 15*time.Second), cmp.Or(max(o.Remember, 0), 10_000)
	if !slices.Contains([]TopicMode{TopicRequire, TopicWarn, TopicOff}, o.Mode) {
		return nil, fmt.Errorf("topic check %q: it can be require, warn or off", o.Mode)
	}
	if o.HubURL == "" || o.Client == nil {
		return nil, errors.New("validate: HubURL and Client have to be given")
	}
	known, err := lru.New[uuid.UUID, pastAnswer](o.Remember)
	if err != nil {
		return nil, err
	}
	established, err := lru.New[uuid.UUID, time.Time](10 * o.Remember)
	if err != nil {
		return nil, err
	}
	needsGET, err := lru.New[string, struct{}](o.Remember)
	if err != nil {
		return nil, err
	}
	c := &TopicChecker{
		o: o, known: known, established: established, needsGET: needsGET,
		flights: make(map[route]*flight), readings: make(map[route]*reading),
		strangers: quota{limit: maxChecks, by: make(map[uint64]int)}, reserved: quota{limit: reservedChecks, by: make(map[uint64]int)},
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// Close cancels the checks under way and waits for them. A Check after it fails.
func (c *TopicChecker) Close() {
	c.cancel()
	c.wg.Wait()
}

// Check requests the topic URI, and checks whether it names itself and this hub: in Link
// headers, or if these name no hub, in the first 64 KiB of its HTML page or feed
// (DST-01). Four things can happen:
//
//   - nil: it does, or the mode lets it pass;
//   - *DeniedError: it answered and does not, or its address is refused;
//   - *WaitError: its host may not be requested before some time has passed;
//   - another error: there was no answer, or the caller's ctx ended.
//
// An answer is remembered, 5 minutes if it is good and 10 seconds if not. After that the
// good answer of an established topic still counts, for 24 hours at most, as long as new
// requests end with a *WaitError or with an *UnsureError that is Passing. Any answer that
// does not name this hub ends that.
//
// Concurrent calls for one topic share one request, which goes on if a caller leaves.
// Calls with a reserve share none with strangers.
func (c *TopicChecker) Check(ctx context.Context, topic string) error {
	if c.o.Mode == TopicOff {
		return nil
	}
	id, a := journal.TopicID(topic), egress.AskerOf(ctx)
	if v, ok := c.remembered(id); ok {
		return c.enforced(v.err)
	}
	f, err := c.join(topic, a) //nolint:contextcheck // the check is shared, and outlives its first caller
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

// remembered is the answer of a topic URI, as long as it needs no new request.
func (c *TopicChecker) remembered(id uuid.UUID) (v pastAnswer, ok bool) {
	now := time.Now()
	if v, ok = c.known.Get(id); ok && now.Before(v.until) {
		return v, true
	}
	at, ok := c.established.Get(id)
	return pastAnswer{}, ok && now.Before(at.Add(RememberGood))
}

// excused is nil if err says nothing against an established topic whose good answer still
// counts; else it is err.
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
	quota := &c.strangers
	if to.reserve {
		quota = &c.reserved
	}
	if !quota.acquire(a.Requester) {
		return nil, &UnsureError{Reason: "this hub is asking too many topic URIs at the moment", After: time.Second, Passing: true}
	}
	f := &flight{done: make(chan struct{})}
	c.flights[to] = f
	c.wg.Go(func() {
		f.err = c.look(topic, a)
		c.mu.Lock()
		delete(c.flights, to)
		quota.release(a.Requester)
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

// acquire counts one more check of a requester, and returns false if there is no room for
// it. Requester 0 stands for unknown ones.
func (q *quota) acquire(requester uint64) bool {
	if q.all >= q.limit || requester != 0 && q.by[requester] >= q.limit/requesterFraction {
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

// look requests the topic URI for a and remembers the answer.
func (c *TopicChecker) look(topic string, a egress.Asker) error {
	ctx, cancel := context.WithTimeout(egress.WithAsker(c.ctx, a), c.o.Timeout)
	defer cancel()
	err := c.ask(ctx, topic)
	c.remember(topic, a, err)
	return err
}

// remember stores the answer of a topic URI, and warns about topics that are accepted
// nevertheless.
func (c *TopicChecker) remember(topic string, a egress.Asker, err error) {
	_, denied := err.(*DeniedError) //nolint:errorlint // this package makes them itself and wraps none
	id := journal.TopicID(topic)
	switch now := time.Now(); {
	case err == nil:
		c.known.Add(id, pastAnswer{until: now.Add(RememberGood)})
		if a.Established || c.established.Contains(id) {
			c.established.Add(id, now)
		}
	case denied:
		c.established.Remove(id)
		c.known.Add(id, pastAnswer{err: err, until: now.Add(RememberBad)})
	}
	if err != nil && c.o.Mode == TopicWarn && c.o.Warn != nil {
		c.o.Warn(topic, err)
	}
}

// forget ends the good answer of an established topic if err is that of an answer that
// does not name this hub, whatever it was requested for.
func (c *TopicChecker) forget(topic string, err error) {
	var denied *DeniedError
	if errors.As(err, &denied) {
		c.established.Remove(journal.TopicID(topic))
	}
}
