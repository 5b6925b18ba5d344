package subscriptions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/websub"
)

// ErrNotFound says that there is no such subscription and no request for one.
var ErrNotFound = errors.New("there is no such subscription")

// End ends a subscription for one of the End reasons and drops its pending request. Run then
// notifies the callback with a denial that carries notice (HUB-21). The end is durable when
// End returns. A subscription that is only requested is denied in the same way; one that has
// already ended stays as it is. ErrNotFound: there is no such subscription.
func (s *Service) End(ctx context.Context, id uuid.UUID, reason, notice string) error {
	rec, err := s.o.Store.Get(ctx, id)
	if err != nil {
		return fmt.Errorf("ending subscription %v: %w", id, err)
	}
	topic, _ := rec.Pair()
	if topic == "" {
		return ErrNotFound
	}
	// It ends now. The head is read afterwards, so it has every entry the callback missed.
	now := s.o.Clock.Now()
	head, err := s.o.Heads.Head(ctx, topic)
	if err != nil {
		return fmt.Errorf("ending subscription %v: reading the head of its topic: %w", id, err)
	}
	var before *Subscription
	var denial *Request // nil: there was nothing to end
	rec, err = s.update(ctx, id, func(rec Record) (Record, error) {
		before = rec.Subscription
		rec, denial = endWithNotice(rec, reason, notice, head, now)
		return rec, nil
	})
	if err != nil {
		return fmt.Errorf("ending subscription %v: %w", id, err)
	}
	if denial == nil {
		return nil
	}
	s.enqueue(denial, false)
	e := requestEvent(EventEnded, denial, reason)
	e.Who = whoAsked(ctx)
	e.Mode, e.Try, e.Gap = "", 0, newGap(before, rec.Subscription)
	s.o.Event(e)
	return nil
}

// endWithNotice is End with a denial as the pending request. It also returns the denial. If
// nothing was in force or requested, the record stays as it was, and the denial is nil.
func endWithNotice(rec Record, reason, notice string, head journal.Head, now time.Time) (Record, *Request) {
	inForce := rec.Subscription != nil && rec.Subscription.EndedAt.IsZero()
	requested := rec.Request != nil && rec.Request.Denied == ""
	if !inForce && !requested {
		return rec, nil
	}
	topic, callback := rec.Pair()
	rec = End(rec, reason, head, now)
	rec.Request = &Request{
		ID: uuid.New(), Mode: websub.ModeDenied, Topic: topic, Callback: callback,
		AcceptedAt: now,
		Denied:     cmp.Or(notice, "The subscription was ended by the hub."),
	}
	return rec, rec.Request
}

// Pair returns the topic and the callback of a record. Both are empty if it stores nothing.
func (r Record) Pair() (topic, callback string) {
	switch {
	case r.Subscription != nil:
		return r.Subscription.Topic, r.Subscription.Callback
	case r.Request != nil:
		return r.Request.Topic, r.Request.Callback
	}
	return "", ""
}

// CallbackHost is the host:port of the callback, as in logs.
func (r Record) CallbackHost() string {
	_, callback := r.Pair()
	return egress.HostPortOf(callback)
}
