package subscriptions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/websub"
)

// ErrEnded says that a subscription is not in force: it ended, its lease ran out, or it was
// never verified.
var ErrEnded = errors.New("the subscription is not in force: it ended, its lease ran out, or it was never verified")

// ErrPaused says that nothing is tried for a subscription, because the operator paused it.
var ErrPaused = errors.New("the subscription is paused")

// Entries reads the notifications of a topic, as journal.Reader does.
type Entries interface {
	Read(ctx context.Context, topic string, after journal.Anchor, max int, maxBytes int64) ([]journal.Entry, error)
}

// entriesPage is how many entries are read at once, without their bodies.
const entriesPage = 1000

// Retry makes the next attempt due now, of a delivery or a verification (see the function
// Retry). It returns the record after that, which is durable. ErrNotFound: there is no such
// subscription. ErrEnded: there is nothing to try.
// ErrPaused: the operator paused it.
func (s *Service) Retry(ctx context.Context, id uuid.UUID) (Record, error) {
	rec, err := s.operate(ctx, id, EventRetried, Retry)
	if r := rec.Request; err == nil && r != nil && r.Denied == "" {
		s.enqueue(r, rec.Subscription.sameSubscriber(r))
	}
	return rec, err
}

// Pause keeps everything from a subscription until Resume (see the function Pause). It
// returns the record after that, which is durable. ErrNotFound: there is no such
// subscription. ErrEnded: it is not in force.
func (s *Service) Pause(ctx context.Context, id uuid.UUID) (Record, error) {
	return s.operate(ctx, id, EventPaused, Pause)
}

// Resume lets a paused subscription continue (see the function Resume). Its results are those
// of Pause.
func (s *Service) Resume(ctx context.Context, id uuid.UUID) (Record, error) {
	return s.operate(ctx, id, EventResumed, Resume)
}

// operate changes a record as the operator asked, and reports the event.
func (s *Service) operate(ctx context.Context, id uuid.UUID, event string, change func(Record, time.Time) (Record, error)) (Record, error) {
	rec, err := s.update(ctx, id, func(rec Record) (Record, error) {
		if topic, _ := rec.Pair(); topic == "" {
			return rec, ErrNotFound
		}
		return change(rec, s.o.Clock.Earliest())
	})
	if err != nil {
		return Record{}, fmt.Errorf("changing subscription %v: %w", id, err)
	}
	s.o.Event(recordEvent(event, rec))
	return rec, nil
}

// Verification is the result of asking a callback again whether it wants its topic.
type Verification struct {
	Confirmed bool          // it answered 2xx with the challenge
	Status    int           // of the answer; 0: there was none
	Answer    []byte        // its first bytes, AnswerLimit at most
	Err       error         // why there is no answer, or not the whole of it
	Took      time.Duration // the exchange
}

// AnswerLimit is how much of a callback's answer a Verification has, in bytes.
const AnswerLimit = 1 << 10

// Verify sends the callback of a subscription in force the verification request again
// (HUB-22), with the rest of its lease, and returns the answer. It changes nothing, whatever
// the answer is. ErrNotFound: there is no such subscription. ErrEnded: it is not in force.
// *WaitError: the budget of its host is used up.
func (s *Service) Verify(ctx context.Context, id uuid.UUID) (v Verification, err error) {
	rec, err := s.o.Store.Get(ctx, id)
	if err != nil {
		return v, err
	}
	now, sub := s.o.Clock.Earliest(), rec.Subscription
	switch topic, _ := rec.Pair(); {
	case topic == "":
		return v, ErrNotFound
	case sub == nil || !sub.Live(now):
		return v, ErrEnded
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	start := time.Now()
	ctx, confirm, wait := s.o.Budget.Begin(egress.WithAsker(ctx, egress.Asker{Requester: sub.Requester, Reserve: id.String(), Established: true}), start, egress.HostPortOf(sub.Callback))
	if wait > 0 {
		return v, &WaitError{After: wait}
	}
	challenge := websub.NewChallenge()
	r := &Request{Mode: websub.ModeSubscribe, Topic: sub.Topic, Callback: sub.Callback, Lease: sub.ExpiresAt.Sub(now)}
	v.Status, v.Answer, v.Err = get(ctx, s.o.Client, verificationURL(r, challenge), AnswerLimit)
	v.Took = time.Since(start)
	var spent *egress.BudgetError
	if errors.As(v.Err, &spent) {
		return v, &WaitError{After: spent.Wait}
	}
	if v.Confirmed = confirmed(v.Status, v.Answer, v.Err, challenge); v.Confirmed {
		confirm()
	}
	e := recordEvent(EventChecked, rec)
	e.Status, e.Err, e.Duration = v.Status, v.Err, v.Took
	s.o.Event(e)
	return v, nil
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
