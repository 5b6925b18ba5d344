package subscriptions

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/web"
	"github.com/rshub/rshub/journal"
)

// Doer sends one HTTP request: in the hub the guarded client of internal/base/egress.
// It follows no redirects, and an *http.Client follows none here.
type Doer interface {
	Do(*http.Request) (*http.Response, error)
}

// Budget limits the requests to hosts that did not confirm that they want them.
type Budget interface {
	// Begin asks for one request to a host. If wait is 0 the request may be sent now
	// with the returned context, and confirm is called if the host wanted it; else it
	// may be asked for again after wait. Begin is called from many goroutines.
	Begin(ctx context.Context, now time.Time, host string) (_ context.Context, confirm func(), wait time.Duration)
}

// Heads reads the heads of topics.
type Heads interface {
	Head(ctx context.Context, topic string) (journal.Head, error)
}

// TopicCheck asks whether a topic may be subscribed to at this hub (HUB-20), as
// validate.TopicChecker does. Nil: it may. *validate.DeniedError: it may not, and the callback gets
// its Reason as hub.reason. *validate.WaitError: ask again later. Any other error: there is no
// answer, for instance because the topic's host is down.
type TopicCheck interface {
	Check(ctx context.Context, topic string) error
}

// Options are what a Service works with. Store, Heads and Client are required.
type Options struct {
	Store interface {
		Registry
		Space
	}
	Heads Heads
	// Entries are for Replay, which must not be called without it.
	Entries Entries
	Client  Doer
	// Budget delays verifications and denials that call one host too often without
	// its confirmation; nil: no limit.
	Budget Budget
	// Check checks the topic of a subscribe request; nil allows all.
	Check TopicCheck

	// LeaseMin, LeaseDefault and LeaseMax bound a granted lease (HUB-30). Zero
	// is 300 s, 10 days and 31 days.
	LeaseMin, LeaseDefault, LeaseMax time.Duration
	// ResumeWithin is how long after the end of its lease a renewed subscription goes on
	// where it stopped. Zero: not at all.
	ResumeWithin time.Duration
	// MaxPending and MaxPendingPerHost bound the requests that wait, in all and
	// for one callback host; MaxPerHost bounds the subscriptions of one callback
	// host. Zero is no limit. Stored requests from before a restart count once Run has
	// read them. Requests that arrive at the same instant may exceed MaxPerHost together.
	MaxPending, MaxPendingPerHost, MaxPerHost int
	// MaxTotal bounds the stored subscriptions, including those that ended and are still
	// readable. No callback site and no requester gets over a quarter of it. If there is no
	// place for a new one, Run denies it when it would be verified. Accept does not, because
	// its answer must not depend on subscriptions (HUB-18). Zero is no limit.
	MaxTotal int

	// Owns reports whether this hub owns a shard: whether it verifies its requests, ends its
	// expired subscriptions, and counts them. Requests for other shards are stored, and
	// their owner verifies them. It must be cheap; nil: all are owned.
	Owns func(shard int) bool
	// Starting reports whether the hub still reads the subscriptions of its first shards in order to
	// deliver to them. Run reads no shard before that is done: the hub would be ready later. Nil: it
	// is not starting.
	Starting func() bool
	// Live is the number of hubs that share the limits above. Each has its fraction, rounded
	// up, for the requests that it accepts and the shards that it owns. Nil: 1.
	Live func() int

	// Clock is the time of day. Nil: the machine's, with clock.New.
	Clock journal.Clock
	// StoreTime returns the time of day of the store. A subscription is ended or deleted for
	// good only if it is due by that clock too. Nil: the store has no clock.
	StoreTime func(context.Context) (time.Time, error)
	// Timeout limits one verification or denial request as a whole. Zero is 15 s.
	Timeout time.Duration
	// Workers is how many requests are verified at once, half of them first tries and half
	// retries. Half as many more are for established subscriptions. Zero is 512.
	Workers int

	// Changed is called with each subscription that began, was renewed or ended, after it
	// was stored; for one subscription, in the order of its changes. It must not block and
	// must not call the Service. It is called from several goroutines.
	Changed func(Subscription)
	// Event is called with what happens, to log it. The same rules apply.
	Event func(Event)
}

// Service accepts requests and carries them out. Its methods may be called from
// several goroutines.
type Service struct {
	o      Options
	queue  *queue
	counts *counts
	// order has a lock for each shard. It is locked during a change and the call of Changed,
	// so that the calls have the order of the changes.
	order [journal.Partitions]sync.Mutex
}

// New returns a Service. It does nothing in the background until Run. It fails if a required
// option is missing.
func New(o Options) (*Service, error) {
	if o.Store == nil || o.Heads == nil || o.Client == nil {
		return nil, errors.New("subscriptions: Options needs a Store, Heads and a Client")
	}
	o.LeaseMin = cmp.Or(o.LeaseMin, 300*time.Second)
	o.LeaseDefault = cmp.Or(o.LeaseDefault, 864_000*time.Second)
	o.LeaseMax = cmp.Or(o.LeaseMax, 2_678_400*time.Second)
	o.Timeout = cmp.Or(o.Timeout, 15*time.Second)
	o.Workers = cmp.Or(o.Workers, 512)
	o.Client = web.WithoutRedirects(o.Client)
	if o.Budget == nil {
		o.Budget = (*egress.Budget)(nil)
	}
	if o.Clock == nil {
		o.Clock = clock.New(nil)
	}
	if o.Owns == nil {
		o.Owns = func(int) bool { return true }
	}
	if o.Starting == nil {
		o.Starting = func() bool { return false }
	}
	if o.Live == nil {
		o.Live = func() int { return 1 }
	}
	if o.Changed == nil {
		o.Changed = func(Subscription) {}
	}
	if o.Event == nil {
		o.Event = func(Event) {}
	}
	return &Service{
		o:      o,
		queue:  newQueue(o.Workers, o.MaxPending, o.MaxPendingPerHost, o.Live),
		counts: newCounts(max(o.MaxTotal, 0), o.MaxPerHost > 0, o.Owns),
	}, nil
}

// owns reports whether this hub owns the shard of a subscription.
func (o *Options) owns(id uuid.UUID) bool { return o.Owns(Shard(id)) }

// Found queues the request of a record that was read from the store, if Run does not know
// it: another hub accepted it, or owned the shard before. It must be called for owned shards
// only.
func (s *Service) Found(rec Record) {
	r := rec.Request
	if r == nil || !s.queue.lacks(r) {
		return
	}
	if id := r.SubscriptionID(); !s.queue.known(id) { // it is not counted here yet
		s.counts.changed(id, Record{Subscription: rec.Subscription}, rec, s.o.Clock.Earliest())
	}
	s.enqueue(r, rec.Subscription.sameSubscriber(r))
}

// Run verifies the pending requests of the shards that this hub owns, and those that Accept
// and Found add, until ctx ends. It returns nil when everything that it started has stopped.
// The next Run, here or in another process, goes on with unfinished requests. Run may be
// called once.
func (s *Service) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { s.sweep(ctx) })

	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		j, wait := s.queue.next(time.Now())
		if j != nil {
			wg.Go(func() { s.queue.finish(j, s.work(ctx, j)) })
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-s.queue.wake():
		case <-timer.C:
		}
	}
	return nil
}

// update changes a record, and calls Changed if that changed the subscription.
func (s *Service) update(ctx context.Context, id uuid.UUID, change func(Record) (Record, error)) (Record, error) {
	mu := &s.order[Shard(id)]
	mu.Lock()
	defer mu.Unlock()
	var before, after *Subscription
	rec, err := s.change(ctx, id, func(rec Record) (Record, error) {
		before = rec.Subscription
		rec, err := change(rec)
		after = rec.Subscription
		return rec, err
	})
	if err != nil {
		return rec, err
	}
	if before == after { // the functions of transition.go copy what they change
		return rec, nil
	}
	if rec.Subscription != nil {
		s.o.Changed(*rec.Subscription)
	}
	return rec, nil
}

// change is Update of the store, and counts the result. Its argument must not write into the
// record that it gets: it returns a copy, as the functions of transition.go do.
func (s *Service) change(ctx context.Context, id uuid.UUID, change func(Record) (Record, error)) (Record, error) {
	var before Record
	rec, err := s.o.Store.Update(ctx, id, func(rec Record) (Record, error) {
		before = rec
		return change(rec)
	})
	if err == nil && s.o.owns(id) {
		s.counts.changed(id, before, rec, s.o.Clock.Earliest())
	}
	return rec, err
}
