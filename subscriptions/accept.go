package subscriptions

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/websub"
)

// LimitError says that a request was not accepted because too many wait, or because the
// callback's host has too many subscriptions. The hub answers it with 429.
type LimitError struct {
	Reason     string // a sentence for the requester
	RetryAfter time.Duration
}

func (e *LimitError) Error() string { return e.Reason }

// Accept accepts a request to subscribe or unsubscribe. If it returns nil, the request is
// durable, and Run verifies it in the background, also after a crash (HUB-13, HUB-15). The
// request replaces an older one of the same pair. All notifications from now on will be
// delivered, however long the verification takes (invariant 6). If the older request still
// waited and had the same mode, its start counts.
//
// *LimitError: a limit refused the request. An error that wraps journal.ErrFull: the store
// is at its high water, and refuses every request, renewals too. Any other error is the
// store's, and the request may or may not have been stored.
//
// If another hub owns the shard, that hub verifies the request; the limits of this hub
// apply.
//
// A request by the subscriber of a subscription in force needs no place among the requests
// that wait. Until its first try has failed, a request by anybody else for the same pair
// does not replace it: the callback is asked about the one that waits.
//
// Accept and Run do the same for an unsubscribe whether there is a subscription or not
// (HUB-18). A subscribe for a host that is at its limit passes if it renews a subscription
// (HUB-12). Requester names the network that asked, and may be empty. It is in the event,
// and one requester may have a limited number of places.
func (s *Service) Accept(ctx context.Context, r websub.SubscribeRequest, requester string) error {
	if r.Mode != websub.ModeSubscribe && r.Mode != websub.ModeUnsubscribe {
		return fmt.Errorf("a request of mode %q cannot be accepted here; expected %q or %q", r.Mode, websub.ModeSubscribe, websub.ModeUnsubscribe)
	}
	// Before anything else, so that the answer does not depend on subscriptions (HUB-18).
	if err := s.o.Store.Room(ctx); err != nil {
		return err
	}
	id, host := ID(r.Topic, r.Callback), egress.HostPortOf(r.Callback)
	if r.Mode == websub.ModeSubscribe {
		if err := s.checkPerHost(ctx, id, host); err != nil {
			return err
		}
	}
	req := Request{
		ID: uuid.New(), Mode: r.Mode, Topic: r.Topic, Callback: r.Callback,
		// The earliest, so that no jump of the clock makes the request late.
		AcceptedAt: s.o.Clock.Earliest(), Requester: egress.RequesterID(requester),
	}
	if r.Mode == websub.ModeSubscribe {
		req.Secret, req.Lease = r.Secret, s.o.grant(r)
	}
	if err := s.queue.reserve(id, host, requester); err != nil {
		if rec, failed := s.o.Store.Get(ctx, id); failed != nil || !rec.Subscription.sameSubscriber(&req) {
			return err
		}
		s.queue.admit(id, host)
	}
	req, established, err := s.store(ctx, req)
	if err == nil { // before a worker reports the result
		s.o.Event(Event{Name: EventAccepted, SubscriptionID: id, Topic: r.Topic, CallbackHost: host, Mode: r.Mode, Requester: requester})
	}
	// After an error too: the request may have been stored after all. If it was not, the
	// worker that notices releases the place.
	s.enqueue(&req, established)
	return err
}

// store makes req the pending request of its pair. It returns the request that is pending
// then, and whether that comes from the subscriber of a subscription in force.
func (s *Service) store(ctx context.Context, req Request) (_ Request, established bool, err error) {
	head, err := s.o.Heads.Head(ctx, req.Topic)
	if err != nil {
		return req, false, fmt.Errorf("reading the head of the topic: %w", err)
	}
	req.Start = head.Last
	stored := req
	_, err = s.change(ctx, req.SubscriptionID(), func(rec Record) (Record, error) {
		r, older := req, rec.Request
		established = rec.Subscription.sameSubscriber(&r)
		switch {
		case older == nil || older.Denied != "":
		case !established && r.Requester != 0 && older.Tries == 0 && rec.Subscription.sameSubscriber(older):
			r, established = *older, true
		case older.Mode == r.Mode:
			r.Start = older.Start // a repeated request must not lose notifications
		}
		rec.Request, stored = &r, r
		return rec, nil
	})
	if err != nil {
		return req, established, fmt.Errorf("storing the request: %w", err)
	}
	return stored, established, nil
}

// grant returns the lease for a subscribe request: the requested or the default one,
// within the bounds, in whole seconds (HUB-05, HUB-30).
func (o *Options) grant(r websub.SubscribeRequest) time.Duration {
	lease := o.LeaseDefault
	if r.HasLease {
		lease = r.Lease
	}
	lease = max(o.LeaseMin, min(lease, o.LeaseMax))
	return max(lease.Truncate(time.Second), time.Second)
}

// checkPerHost refuses a new subscription at a host that is at its limit. A subscription
// that is only requested counts too, and a request to renew one needs no further place.
func (s *Service) checkPerHost(ctx context.Context, id uuid.UUID, host string) error {
	if s.o.MaxPerHost <= 0 || s.counts.onHost(host) < perHub(s.o.MaxPerHost, s.o.Live()) {
		return nil
	}
	rec, err := s.o.Store.Get(ctx, id)
	if err != nil {
		return fmt.Errorf("looking for a subscription to renew: %w", err)
	}
	if s.counts.of(rec, s.o.Clock.Earliest()).host != "" {
		return nil
	}
	return &LimitError{
		Reason:     fmt.Sprintf("The callback's host has reached its limit of %d subscriptions at this hub; end some of them first.", s.o.MaxPerHost),
		RetryAfter: 10 * time.Minute,
	}
}
