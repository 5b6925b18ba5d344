package delivery

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/websub"
)

// renew has a renewal of a subscription verified, with the same secret.
func (b *bed) renew(sub subscriptions.Subscription) {
	b.t.Helper()
	id := uuid.New()
	rec, err := b.Update(b.t.Context(), sub.ID, func(rec subscriptions.Record) (subscriptions.Record, error) {
		rec.Request = &subscriptions.Request{
			ID: id, Mode: websub.ModeSubscribe, Topic: sub.Topic, Callback: sub.Callback, Secret: sub.Secret,
			Lease: 240 * time.Hour, AcceptedAt: time.Now(),
		}
		return subscriptions.Activate(rec, id, time.Now(), time.Now(), time.Hour)
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.d.Apply(*rec.Subscription)
}

// inTurn answers with one status after the other, and then with 200.
func inTurn(codes ...int) callback {
	return func(*http.Request, []byte) (*http.Response, error) {
		if len(codes) == 0 {
			return nil, nil
		}
		code := codes[0]
		codes = codes[1:]
		return status(code), nil
	}
}

// A renewal that was verified after a 410 is not undone by it, wherever the
// results from before it have got: nothing is delivered twice, nothing is a gap, and
// the generation stays.
func TestRenewalAfterGone_HUB47_Invariant4(t *testing.T) {
	for name, answers := range map[string][]int{
		"a 410": {410}, "a delivery and a 410": {200, 410}, "a failure that was given up, and a 410": {413, 413, 413, 413, 413, 410},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, sweeping, func(o *Options) { o.CommitWindow, o.Policy.First = 10*time.Second, time.Millisecond })
				sub := b.subscribe(topicA, cb(0))
				b.set(cb(0), inTurn(answers...))
				one, two := b.publish(t, topicA, []byte("one")), b.publish(t, topicA, []byte("two"))
				b.run()
				defer b.end()
				pass(8 * time.Second)
				if n, s := len(b.attempts(cb(0))), b.d.Stats(); n != len(answers) || s.Uncommitted == 0 || s.Lanes != 0 {
					t.Fatalf("%d attempts, %+v", n, s)
				}
				b.renew(sub)
				pass(time.Minute)
				s, _ := b.stored(sub)
				if !s.EndedAt.IsZero() || s.Cursor.Seq != 2 || s.Cursor.Generation != sub.Cursor.Generation {
					t.Errorf("the renewed subscription ended as %q, at %+v", s.EndReason, s.Cursor)
				}
				if len(answers) <= 2 {
					b.wantOrder(cb(0), one, two)
					b.wantGaps(sub)
				} else {
					b.wantOrder(cb(0), two)
					b.wantGaps(sub, journal.Gap{From: one.From, Until: one.Until, Count: 1, Reason: journal.GapGaveUp})
				}
			})
		})
	}
}

// A 410 does not count if its exchange was in flight when a renewal was verified. The notification
// is sent again at once, and a 410 to that exchange counts.
func TestRenewalDuringAnExchange_HUB47(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var outcomes []string
		b := newBed(t, sweeping, func(o *Options) { o.Event = func(e Event) { outcomes = append(outcomes, e.Outcome) } })
		sub := b.subscribe(topicA, cb(0))
		b.set(cb(0), func(r *http.Request, body []byte) (*http.Response, error) {
			_, _ = takes(5*time.Second)(r, body) // it ends at the instant of a sweep
			return status(410), nil
		})
		b.publish(t, topicA, []byte("one"))
		b.run()
		defer b.end()
		pass(time.Second)
		b.renew(sub)
		pass(4500 * time.Millisecond)
		if s, _ := b.stored(sub); !s.EndedAt.IsZero() || len(b.attempts(cb(0))) != 2 {
			t.Errorf("after the first 410: ended as %q, %d attempts", s.EndReason, len(b.attempts(cb(0))))
		}
		pass(10 * time.Second)
		if s, _ := b.stored(sub); s.EndReason != subscriptions.EndGone || len(outcomes) != 2 || outcomes[0] != OutcomeSuperseded {
			t.Errorf("after the second: ended as %q, attempts counted as %q", s.EndReason, outcomes)
		}
	})
}

// late is a store whose answers about single subscriptions take a while to arrive.
type late struct {
	*memory
	by time.Duration
}

func (l late) Get(ctx context.Context, id uuid.UUID) (subscriptions.Record, error) {
	rec, err := l.memory.Get(ctx, id)
	time.Sleep(l.by)
	return rec, err
}

// What was read of a subscription before its end was stored does not bring it back, neither a
// read of the sweep nor a hint.
func TestStaleReadAfterGone_HUB47(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, sweeping, func(o *Options) {
			o.Subscriptions, o.CommitWindow = late{o.Subscriptions.(*memory), 2 * time.Second}, time.Second //nolint:errcheck // newBed puts it there
		})
		sub := b.subscribe(topicA, cb(0))
		b.set(cb(0), answers(410))
		b.run()
		defer b.end()
		pass(4500 * time.Millisecond)
		b.publish(t, topicA, []byte("one")) // answered before the sweep, stored while it reads, and applied after that
		pass(3 * time.Second)
		if s, _ := b.stored(sub); s.EndReason != subscriptions.EndGone || len(b.attempts(cb(0))) != 1 || b.d.Stats().Lanes != 0 {
			t.Errorf("after the sweep: ended as %q, %d attempts, %+v", s.EndReason, len(b.attempts(cb(0))), b.d.Stats())
		}
		b.d.Apply(sub)
		pass(time.Minute)
		if n := len(b.attempts(cb(0))); n != 1 || b.d.Stats().Lanes != 0 {
			t.Errorf("after the hint: %d attempts, %+v", n, b.d.Stats())
		}
		b.renew(sub)
		pass(time.Second)
		if n := len(b.attempts(cb(0))); n != 2 {
			t.Errorf("after a renewal: %d attempts", n)
		}
	})
}

// Where a 410 cannot be stored for long, nothing more is sent, although the store
// still says that the subscription is in force.
func TestGoneIsRememberedUntilStored_HUB47(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, sweeping)
		sub := b.subscribe(topicA, cb(0))
		b.set(cb(0), answers(410))
		b.publish(t, topicA, []byte("one"))
		var down atomic.Bool
		down.Store(true)
		b.failCommit = func() error {
			if down.Load() {
				return errStore
			}
			return nil
		}
		b.run()
		defer b.end()
		pass(time.Minute)
		b.publish(t, topicA, []byte("two"))
		pass(time.Minute)
		if n := len(b.attempts(cb(0))); n != 1 {
			t.Errorf("%d attempts while the end could not be stored", n)
		}
		down.Store(false)
		pass(time.Minute)
		if s, _ := b.stored(sub); s.EndReason != subscriptions.EndGone || len(b.attempts(cb(0))) != 1 {
			t.Errorf("ended as %q after %d attempts", s.EndReason, len(b.attempts(cb(0))))
		}
	})
}

// afterThree runs a bed in which three notifications were delivered to a subscription.
func afterThree(t *testing.T) (*bed, subscriptions.Subscription) {
	b := newBed(t, sweeping)
	sub := b.subscribe(topicA, cb(0))
	b.run()
	for range 3 {
		b.publish(t, topicA, []byte("x"))
		pass(10 * time.Second)
	}
	return b, sub
}

// A 410 right after a move back after a lost tail, which is stored with it, ends the subscription:
// the generation is another, the lease is not (invariant 5).
func TestGoneAfterARollback_Invariant5(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, sub := afterThree(t)
		defer b.end()
		b.rollback(topicA, 1)
		b.set(cb(0), answers(410))
		b.publish(t, topicA, []byte("next"))
		pass(time.Minute)
		if s, _ := b.stored(sub); s.EndReason != subscriptions.EndGone || s.Cursor.Generation == sub.Cursor.Generation {
			t.Errorf("ended as %q in generation %d after %d", s.EndReason, s.Cursor.Generation, sub.Cursor.Generation)
		}
		if n := len(b.attempts(cb(0))); n != 4 {
			t.Errorf("%d attempts", n)
		}
	})
}

// A 410 that comes before anybody has noticed that the journal lost the cursor's entry leaves a gap for what is there
// again (invariant 10).
func TestGoneWhileATopicBeginsAgain_Invariant10(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, sub := afterThree(t)
		defer b.end()
		b.set(cb(0), func(r *http.Request, body []byte) (*http.Response, error) {
			_, _ = takes(5*time.Second)(r, body)
			return status(410), nil
		})
		newest := b.publish(t, topicA, []byte("under way"))
		pass(time.Second)
		b.memory.mu.Lock() // a topic that is as young is sent again from its beginning
		*b.topic(topicA) = memTopic{gaps: []journal.Gap{{Reason: journal.GapRolledBack, Position: newest.Position}}}
		b.memory.mu.Unlock()
		again := b.publish(t, topicA, []byte("again"))
		pass(time.Minute)
		s, _ := b.stored(sub)
		if s.EndReason != subscriptions.EndGone || len(s.Gaps) != 1 || s.Gaps[0].Count != 1 || !s.Gaps[0].Until.Equal(again.Until) {
			t.Errorf("ended as %q, with the gaps %+v", s.EndReason, s.Gaps)
		}
	})
}

// A verified renewal makes a failed notification due at once, even if the store does not know the
// failure yet, nor what was delivered before it.
func TestRenewalOverUncommittedFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, sweeping, func(o *Options) { o.CommitWindow, o.Policy.First = 10*time.Minute, time.Hour })
		sub := b.subscribe(topicA, cb(0))
		b.set(cb(0), inTurn(200, 500))
		one, two := b.publish(t, topicA, []byte("one")), b.publish(t, topicA, []byte("two"))
		b.run()
		defer b.end()
		pass(8 * time.Second)
		b.wantOrder(cb(0), one)
		b.renew(sub)
		pass(time.Second)
		b.wantOrder(cb(0), one, two)
	})
}
