package subscriptions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/validate"
	"github.com/rshub/rshub/websub"
)

// ErrEnded says that a subscription is not in force: it ended, its lease ran out, or it was
// never verified.
var ErrEnded = errors.New("the subscription is not in force: it ended, its lease ran out, or it was never verified")

// ErrPaused says that nothing is tried for a subscription, because the operator paused it.
var ErrPaused = errors.New("the subscription is paused")

// ErrUnchanged says that a subscription is already as the operator wants it.
var ErrUnchanged = errors.New("the subscription is like that already")

// Entries reads the notifications of a topic, as journal.Reader does.
type Entries interface {
	Read(ctx context.Context, topic string, after journal.Anchor, max int, maxBytes int64) ([]journal.Entry, error)
}

// entriesPage is how many entries are read at once, without their bodies.
const entriesPage = 1000

// Retry makes the next attempt of a delivery or a verification due now (see the function
// Retry). It returns the record after that, which is durable. ErrNotFound: there is no such
// subscription. ErrEnded: it is not in force, and no request would begin it. ErrPaused: the
// operator paused it. ErrUnchanged, with the record: everything is delivered.
func (s *Service) Retry(ctx context.Context, id uuid.UUID) (Record, error) {
	if rec, nothing, err := s.nothingWaits(ctx, id); nothing || err != nil {
		return rec, cmp.Or(err, ErrUnchanged)
	}
	rec, err := s.operate(ctx, id, EventRetried, Retry)
	if r := rec.Request; err == nil && r != nil && r.Denied == "" {
		s.enqueue(r, rec.Subscription.sameSubscriber(r))
	}
	return rec, err
}

// nothingWaits reports that a subscription is in force and has got everything, and returns its
// record.
func (s *Service) nothingWaits(ctx context.Context, id uuid.UUID) (rec Record, nothing bool, err error) {
	if rec, err = s.o.Store.Get(ctx, id); err != nil {
		return rec, false, err
	}
	sub := rec.Subscription
	if sub == nil || rec.Request != nil || sub.Cursor.Attempt > 0 || !sub.PausedAt.IsZero() || !sub.Live(s.o.Clock.Earliest()) {
		return rec, false, nil
	}
	head, err := s.o.Heads.Head(ctx, sub.Topic)
	return rec, err == nil && head.Last.Position == sub.Cursor.Position, err
}

// Pause stops the deliveries to a subscription until Resume (see the function Pause). It
// returns the record after that, which is durable. ErrNotFound: there is no such
// subscription. ErrEnded: it is not in force. ErrUnchanged, with the record: it is paused
// already.
func (s *Service) Pause(ctx context.Context, id uuid.UUID) (Record, error) {
	return s.operate(ctx, id, EventPaused, Pause)
}

// Resume lets a paused subscription continue (see the function Resume). Its results are those
// of Pause, and ErrUnchanged says that it is not paused.
func (s *Service) Resume(ctx context.Context, id uuid.UUID) (Record, error) {
	return s.operate(ctx, id, EventResumed, Resume)
}

// operate changes a record as the operator asked, and reports the event.
func (s *Service) operate(ctx context.Context, id uuid.UUID, event string, change func(Record, time.Time) (Record, error)) (Record, error) {
	var stored Record
	rec, err := s.update(ctx, id, func(rec Record) (Record, error) {
		stored = rec
		if topic, _ := rec.Pair(); topic == "" {
			return rec, ErrNotFound
		}
		return change(rec, s.o.Clock.Earliest())
	})
	if errors.Is(err, ErrUnchanged) {
		return stored, err
	}
	if err != nil {
		return Record{}, fmt.Errorf("changing subscription %v: %w", id, err)
	}
	s.o.Event(recordEvent(ctx, event, rec))
	return rec, nil
}

// Tried returns why the last try to verify a pending request, or to check its topic, failed, and
// when the next one is due; zero: now. Both are zero if this hub has tried nothing, or if nothing
// failed. A restart, another hub and Retry forget it.
func (s *Service) Tried(id uuid.UUID) (failure string, next time.Time) {
	if failure, next = s.queue.tried(id); failure == "" {
		return "", time.Time{}
	}
	return failure, next
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
// *validate.WaitError: the budget of its host is used up.
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
	host := egress.HostPortOf(sub.Callback)
	ctx, confirm, wait := s.o.Budget.Begin(egress.WithAsker(ctx, egress.Asker{Requester: sub.Requester, Reserve: id.String(), Established: true}), start, host)
	if wait > 0 {
		return v, &validate.WaitError{Host: host, After: wait}
	}
	challenge := websub.NewChallenge()
	r := &Request{Mode: websub.ModeSubscribe, Topic: sub.Topic, Callback: sub.Callback, Lease: sub.ExpiresAt.Sub(now)}
	v.Status, v.Answer, v.Err = get(ctx, s.o.Client, verificationURL(r, challenge), AnswerLimit)
	v.Took = time.Since(start)
	var spent *egress.BudgetError
	if errors.As(v.Err, &spent) {
		return v, &validate.WaitError{Host: host, After: spent.Wait}
	}
	if v.Confirmed = confirmed(v.Status, v.Answer, v.Err, challenge); v.Confirmed {
		confirm()
	}
	e := recordEvent(ctx, EventChecked, rec)
	e.Status, e.Err, e.Duration = v.Status, v.Err, v.Took
	s.o.Event(e)
	return v, nil
}

// Replay returns a function that delivers to a subscription, again and in order, every
// retained notification whose End is after since, and then the newer ones (see the function
// Replay). Notifications that were not delivered yet follow too, even if they end before
// since. It looks once for each topic where that is, so it is good for a short while. It may
// be called by several goroutines at once.
//
// The function returns the record after that, which is durable, and how many notifications
// there are to deliver. ErrNotFound: there is no such subscription. ErrEnded: it is not in
// force.
func (s *Service) Replay(since time.Time) func(ctx context.Context, id uuid.UUID) (n uint64, rec Record, err error) {
	var mu sync.Mutex
	found := map[string]replayStart{}
	before := func(ctx context.Context, topic string) (p replayStart, err error) {
		mu.Lock()
		defer mu.Unlock()
		p, ok := found[topic]
		if !ok {
			if p, err = s.o.replayStart(ctx, topic, since); err == nil {
				found[topic] = p
			}
		}
		return p, err
	}
	return func(ctx context.Context, id uuid.UUID) (uint64, Record, error) {
		n, rec, err := s.replay(ctx, id, since, before)
		if err != nil {
			return 0, Record{}, fmt.Errorf("replaying subscription %v: %w", id, err)
		}
		return n, rec, nil
	}
}

func (s *Service) replay(ctx context.Context, id uuid.UUID, since time.Time, before func(context.Context, string) (replayStart, error)) (n uint64, rec Record, err error) {
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
	to, err := before(ctx, topic)
	if err != nil {
		return 0, rec, err
	}
	rec, err = s.update(ctx, id, func(rec Record) (Record, error) {
		return Replay(rec, to.at, s.o.Clock.Earliest())
	})
	if err != nil {
		return 0, rec, err
	}
	n = LagOf(to.head.Last, to.head.Trimmed, rec.Subscription.Cursor, time.Time{}).Notifications
	e := recordEvent(ctx, EventReplayed, rec)
	e.Since, e.Count = since, n
	s.o.Event(e)
	return n, rec, nil
}

// replayStart is a place in the journal of a topic, and its head at that time.
type replayStart struct {
	head journal.Head
	at   journal.Anchor
}

// replayStart returns the anchor before the first retained entry of a topic whose End is after
// since. If there is no such entry, that is the anchor of the last one.
func (o *Options) replayStart(ctx context.Context, topic string, since time.Time) (p replayStart, err error) {
	if p.head, err = o.Heads.Head(ctx, topic); err != nil {
		return p, err
	}
	if p.at = p.head.Before(since); p.at == p.head.Last {
		return p, nil
	}
	for {
		entries, err := o.Entries.Read(ctx, topic, p.at, entriesPage, 0)
		if next, ok := journal.ReadOn(err); ok {
			if errors.Is(err, journal.ErrDamaged) && next.Until.After(since) {
				return p, nil // delivery passes it over, or can read it later
			}
			p.at = next
			continue
		}
		if err != nil {
			return p, fmt.Errorf("reading the topic's notifications: %w", err)
		}
		for i := range entries {
			if entries[i].End().After(since) {
				if p.at.Seq == 0 && p.at.Position > 0 { // the place where reading began
					p.at = entries[i].Predecessor()
				}
				return p, nil
			}
			p.at = entries[i].Anchor()
		}
		if len(entries) == 0 {
			return p, nil
		}
	}
}

// recordEvent is an event of a subscription, or of the request for one, that somebody asked for.
func recordEvent(ctx context.Context, name string, rec Record) Event {
	topic, callback := rec.Pair()
	return Event{Name: name, SubscriptionID: ID(topic, callback), Topic: topic, CallbackHost: egress.HostPortOf(callback), Who: whoAsked(ctx)}
}

type whoKey struct{}

// AskedBy returns a context whose changes have Event.Who: the name of the person who asks for
// them.
func AskedBy(ctx context.Context, who string) context.Context {
	return context.WithValue(ctx, whoKey{}, who)
}

func whoAsked(ctx context.Context) string {
	who, _ := ctx.Value(whoKey{}).(string)
	return who
}
