package subscriptions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/journal"
)

// ErrEnded says that a subscription is not in force: it ended, its lease ran out, or it was
// never verified.
var ErrEnded = errors.New("the subscription is not in force: it ended, its lease ran out, or it was never verified")

// Entries reads the notifications of a topic, as journal.Reader does.
type Entries interface {
	Read(ctx context.Context, topic string, after journal.Anchor, max int, maxBytes int64) ([]journal.Entry, error)
}

// entriesPage is how many entries are read at once, without their bodies.
const entriesPage = 1000

// Retry makes the next attempt due now, of a delivery or a verification (see the function
// Retry). It returns the record after that, which is durable. ErrNotFound: there is no such
// subscription. ErrEnded: there is nothing to try.
func (s *Service) Retry(ctx context.Context, id uuid.UUID) (Record, error) {
	rec, err := s.update(ctx, id, func(rec Record) (Record, error) {
		if topic, _ := rec.Pair(); topic == "" {
			return rec, ErrNotFound
		}
		return Retry(rec, s.o.Clock.Earliest())
	})
	if err != nil {
		return Record{}, fmt.Errorf("retrying subscription %v: %w", id, err)
	}
	if r := rec.Request; r != nil && r.Denied == "" {
		s.enqueue(r, rec.Subscription.sameSubscriber(r))
	}
	s.o.Event(recordEvent(EventRetried, rec))
	return rec, nil
}

// Replay delivers every retained notification whose End is after since again, in order, and
// then the newer ones (see the function Replay). Notifications that were not delivered yet
// follow too, even if they end before since. It returns the record after that, which is
// durable, and how many notifications there are to deliver. ErrNotFound: there is no such
// subscription. ErrEnded: it is not in force.
func (s *Service) Replay(ctx context.Context, id uuid.UUID, since time.Time) (n uint64, rec Record, err error) {
	defer func() {
		if err != nil {
			n, rec, err = 0, Record{}, fmt.Errorf("replaying subscription %v: %w", id, err)
		}
	}()
	if rec, err = s.o.Store.Get(ctx, id); err != nil {
		return 0, rec, err
	}
	topic, _ := rec.Pair()
	if topic == "" {
		return 0, rec, ErrNotFound
	}
	if _, err = Replay(rec, journal.Anchor{}, s.o.Clock.Earliest()); err != nil { // do not read the journal in vain
		return 0, rec, err
	}
	head, to, err := s.before(ctx, topic, since)
	if err != nil {
		return 0, rec, err
	}
	rec, err = s.update(ctx, id, func(rec Record) (Record, error) {
		return Replay(rec, to, s.o.Clock.Earliest())
	})
	if err != nil {
		return 0, rec, err
	}
	n = Ahead(head, rec.Subscription.Cursor.Anchor)
	e := recordEvent(EventReplayed, rec)
	e.Since, e.Count = since, n
	s.o.Event(e)
	return n, rec, nil
}

// before returns the head of a topic, and the anchor before its first retained entry whose
// End is after since. If there is no such entry, that is the anchor of the last one.
func (s *Service) before(ctx context.Context, topic string, since time.Time) (head journal.Head, at journal.Anchor, err error) {
	if head, err = s.o.Heads.Head(ctx, topic); err != nil {
		return head, at, err
	}
	at = head.Trimmed
	for {
		entries, err := s.o.Entries.Read(ctx, topic, at, entriesPage, 0)
		if next, ok := journal.ReadOn(err); ok {
			if errors.Is(err, journal.ErrDamaged) && next.Until.After(since) {
				return head, at, nil // delivery passes it over, or can read it later
			}
			at = next
			continue
		}
		if err != nil {
			return head, at, fmt.Errorf("reading the topic's notifications: %w", err)
		}
		for i := range entries {
			if entries[i].End().After(since) {
				return head, at, nil
			}
			at = entries[i].Anchor()
		}
		if len(entries) == 0 {
			return head, at, nil
		}
	}
}

// recordEvent is an event of a subscription, or of the request for one.
func recordEvent(name string, rec Record) Event {
	topic, callback := rec.Pair()
	return Event{Name: name, SubscriptionID: ID(topic, callback), Topic: topic, CallbackHost: egress.HostPortOf(callback)}
}
