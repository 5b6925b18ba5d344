package subscriptions

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/journal"
)

// Doer sends one HTTP request: in the hub the guarded client of internal/base/egress.
// It follows no redirects.
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

// Heads tells the state of a topic.
type Heads interface {
	Head(ctx context.Context, topic string) (journal.Head, error)
}

// TopicCheck asks whether a topic may be subscribed to at this hub (HUB-20).
// Nil: it may. *DeniedError: it may not. *WaitError: ask again later. Any other
// error: it could not be told, for instance as the topic's host is down.
type TopicCheck interface {
	Check(ctx context.Context, topic string) error
}

// DeniedError says that a topic may not be subscribed to.
type DeniedError struct {
	Reason string // told to the callback as hub.reason
}

func (e *DeniedError) Error() string { return "the topic was denied: " + e.Reason }

// WaitError says that the topic's host was asked often enough for now.
type WaitError struct {
	After time.Duration
}

func (e *WaitError) Error() string {
	return fmt.Sprintf("wait %v before asking the topic again", e.After)
}

// Options are what a Service works with. Store, Heads and Client are required.
type Options struct {
	Store interface {
		Registry
		Space
	}
	Heads Heads
	// Entries are read to replay. Replay must not be called without it.
	Entries Entries
	Client  Doer
	// Budget delays verifications and denials that call one host too often without
	// its confirmation; nil: no limit.
	Budget Budget
	// Check looks at the topic of a subscribe request; nil lets all pass.
	Check TopicCheck

	// LeaseMin, LeaseDefault and LeaseMax bound a granted lease (HUB-30). Zero
	// is 300 s, 10 days and 31 days.
	LeaseMin, LeaseDefault, LeaseMax time.Duration
	// ResumeWithin is how long after its lease ran out a subscription can be
	// taken up where it stopped. Zero: not at all.
	ResumeWithin time.Duration
	// MaxPending and MaxPendingPerHost bound the requests that wait, in all and
	// for one callback host; MaxPerHost bounds the subscriptions of one callback
	// host. Zero is no limit. What is stored from before counts once Run has
	// read it, and requests that come at the same instant may pass MaxPerHost
	// together.
	MaxPending, MaxPendingPerHost, MaxPerHost int
	// MaxTotal bounds the stored subscriptions, those that ended and are kept to be
	// read included. No callback site and no requester gets over a quarter of it. A
	// new one that finds no place is denied when its turn comes to be verified, and
	// not by Accept, whose answer tells nobody what there is (HUB-18). Zero is no limit.
	MaxTotal int

	// Owns tells whether this hub works on a shard: verifies its requests, ends what
	// expired, and counts it. Requests for others are stored, and left to whoever
	// does. It must be cheap; nil: on all of them.
	Owns func(shard int) bool
	// Live is the number of hubs that share the limits above: each has its part
	// of them, rounded up, for the requests that it accepts and what it owns. Nil: 1.
	Live func() int

	// Clock tells the time of day. Nil: the machine's, with clock.New.
	Clock journal.Clock
	// StoreTime tells what time of day it is for the store. What ended and is
	// forgotten for good is over by that, too. Nil: the store has no clock of its own.
	StoreTime func(context.Context) (time.Time, error)
	// Timeout limits one verification or denial request as a whole. Zero is 15 s.
	Timeout time.Duration
	// Workers is how many requests are worked on at once, retries at most half of
	// them. What is established has half as many beside these. Zero is 512.
	Workers int

	// Changed is told each subscription that began, was renewed or ended, after
	// it was stored, and for one subscription in the order in which it changed.
	// It must not wait and must not call the Service; it is called from several
	// goroutines.
	Changed func(Subscription)
	// Event is told what happens, to log it. The same rules hold.
	Event func(Event)
}

// Service accepts requests and carries them out. Its methods may be called from
// several goroutines.
type Service struct {
	o      Options
	queue  *queue
	counts *counts
	// order keeps the calls of Changed in the order of the changes they tell of:
	// one lock a shard is held over both.
	order [journal.Partitions]sync.Mutex
}

// New returns a Service. It does nothing in the background until Run.
func New(o Options) *Service {
	o.LeaseMin = cmp.Or(o.LeaseMin, 300*time.Second)
	o.LeaseDefault = cmp.Or(o.LeaseDefault, 864_000*time.Second)
	o.LeaseMax = cmp.Or(o.LeaseMax, 2_678_400*time.Second)
	o.Timeout = cmp.Or(o.Timeout, 15*time.Second)
	o.Workers = cmp.Or(o.Workers, 512)
	if o.Budget == nil {
		o.Budget = (*egress.Budget)(nil)
	}
	if o.Clock == nil {
		o.Clock = clock.New(nil)
	}
	if o.Owns == nil {
		o.Owns = func(int) bool { return true }
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
	}
}

// owns tells whether this hub works on the shard of a subscription.
func (s *Service) owns(id uuid.UUID) bool { return s.o.Owns(Shard(id)) }

// Found takes up the request of a record that was read from the store, if Run does
// not know of it: another hub accepted it, or had the shard before. It must not be
// called for a shard of somebody else's.
func (s *Service) Found(rec Record) {
	if r := rec.Request; r != nil && s.queue.lacks(r) {
		s.enqueue(r, rec.Subscription.sameSubscriber(r))
	}
}

// Run takes up the pending requests of the shards that this hub owns and works on
// them, and on those that Accept and Found add, until ctx ends; it returns nil then, when all that it
// started has stopped. What it was working on is taken up again by the next Run,
// here or in another process. It may be called once.
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

// update changes a record and tells Changed of a subscription that is not as it
// was.
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

// change is Update of the store, counted. The records that change gets and
// returns are not to share what it changes, as those of transition.go do not.
func (s *Service) change(ctx context.Context, id uuid.UUID, change func(Record) (Record, error)) (Record, error) {
	var before Record
	rec, err := s.o.Store.Update(ctx, id, func(rec Record) (Record, error) {
		before = rec
		return change(rec)
	})
	if err == nil && s.owns(id) {
		s.counts.changed(id, before, rec, s.o.Clock.Earliest())
	}
	return rec, err
}
