package delivery

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// Right before an attempt the lease is checked again. An expired subscription gets nothing, and
// nothing is stored about it (HUB-49, invariant 10).
func TestExpiry_HUB49(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		short := func(s *subscriptions.Subscription) { s.ExpiresAt = time.Now().Add(time.Minute) }
		sub := b.subscribe(topicA, cb(0), short)
		b.subscribe(topicA, cb(1), short)
		b.set(cb(1), answers(500))
		b.run()
		defer b.end()
		one := b.publish(t, topicA, []byte("one"))
		pass(70 * time.Second)
		b.publish(t, topicA, []byte("two"))
		pass(10 * time.Minute)
		b.wantOrder(cb(0), one)
		b.wantWaits(cb(1), 5*time.Second, 30*time.Second)
		if s, _ := b.stored(sub); !s.EndedAt.IsZero() || len(s.Gaps) != 0 {
			t.Errorf("written of an expired subscription: %+v", s)
		}
		if st := b.d.Stats(); st.Ready != 0 || st.Waiting != 0 || st.InFlight != 0 {
			t.Errorf("expired lanes are busy: %+v", st)
		}
		// A renewed subscription continues where it stopped, in a restarted hub too.
		s, _ := b.stored(sub)
		s.ExpiresAt = time.Now().Add(time.Hour)
		b.d.Apply(s)
		pass(time.Second)
		if got := b.at(cb(0)); len(got) != 2 || got[1].body != "two" {
			t.Errorf("got %v", got)
		}
	})
}

// A lease that runs out while the lane waits for its turn, or for a body, is seen
// right before the attempt (HUB-49).
func TestLeaseRunsOutInTheQueue_HUB49(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, func(o *Options) { o.PerHost = 1 })
		for _, path := range []string{"0", "1", "2"} {
			b.subscribe(topicA, "http://h.example/"+path, func(s *subscriptions.Subscription) { s.ExpiresAt = time.Now().Add(12 * time.Second) })
		}
		b.set("h.example", takes(10*time.Second))
		b.run()
		defer b.end()
		b.publish(t, topicA, []byte("one"))
		pass(time.Hour)
		if n := len(b.everything()); n != 2 {
			t.Errorf("%d attempts, want those begun at 0 and 10 s of a lease of 12 s", n)
		}
	})
}

// A clock that jumps ahead and comes back within --resume-within heals by itself.
func TestClockThatComesBackHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, single)
		sub := b.subscribe(topicA, cb(0))
		b.run()
		defer b.end()
		pass(time.Second)
		lease := func(d time.Duration) {
			b.d.only().mu.Lock()
			defer b.d.only().mu.Unlock()
			b.d.only().s.lane(sub.ID).expires = time.Now().Add(d).UnixNano()
		}
		lease(-time.Hour)
		one := b.publish(t, topicA, []byte("one"))
		pass(10 * time.Minute)
		b.wantOrder(cb(0))
		lease(time.Hour)
		pass(2 * time.Minute)
		b.wantOrder(cb(0), one)
	})
}

// If a sweep read a subscription and Apply got a newer state meanwhile, the older state is dropped:
// after a confirmed unsubscribe nothing is sent (HUB-49).
func TestSweepDoesNotReviveEnded_HUB49(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, sweeping)
		sub := b.subscribe(topicA, cb(0))
		ended := sub
		ended.EndedAt = time.Now()
		stale := &staleReads{memory: b.memory, then: func() { b.d.Apply(ended) }}
		b.d.shards.store = stale
		b.run()
		defer b.end()
		pass(time.Second)
		stale.armed.Store(true)
		b.memory.mu.Lock()
		b.store(subscriptions.Record{Subscription: &sub}) // so that the sweep reads it
		b.memory.mu.Unlock()
		pass(5 * time.Second)
		if st := b.d.Stats(); st.Lanes != 0 {
			t.Errorf("the lane is back: %+v", st)
		}
	})
}

// staleReads has something happen between the reading of a record and its
// return, once.
type staleReads struct {
	*memory
	armed atomic.Bool
	then  func()
}

func (s *staleReads) Get(ctx context.Context, id uuid.UUID) (subscriptions.Record, error) {
	rec, err := s.memory.Get(ctx, id)
	if s.armed.Swap(false) {
		s.then()
	}
	return rec, err
}

// A read that began before the head moved says nothing of the head after it.
func TestLateReadDoesNotMoveTheHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, single)
		sub := b.subscribe(topicA, cb(0))
		b.run()
		defer b.end()
		one := b.publish(t, topicA, []byte("one"))
		pass(time.Second)
		b.set(cb(0), hangs)
		two := b.publish(t, topicA, []byte("two"))
		synctest.Wait()
		b.d.only().do(func(s *scheduler) {
			l := s.lane(sub.ID)
			late := job{lane: l, cursor: l.cursor, headSets: l.topic.headSets - 1}
			if !late.cursor.anchor().same(packAnchor(one.Anchor())) {
				t.Error("not in flight")
			}
			l.host.active[late.kind]++ // release takes it back
			s.turns.inFlight++
			s.atHead(late)
			if head := l.topic.head; !head.same(packAnchor(two.Anchor())) {
				t.Errorf("the head went back to %+v", head)
			}
		})
	})
}

// After an end nothing is sent, whatever state the lane is in (HUB-49).
func TestEndTakesEffectAtOnce_HUB49(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, func(o *Options) { o.PerHost = 1 })
		const host = "http://h.example/"
		var subs []subscriptions.Subscription
		for _, path := range []string{"flying", "ready", "idle"} {
			subs = append(subs, b.subscribe(topicA, host+path))
		}
		failing := b.subscribe(topicA, cb(0))
		subs = append(subs, failing)
		b.set(cb(0), answers(500))
		b.set("h.example", takes(10*time.Second))
		b.run()
		defer b.end()
		b.publish(t, topicA, []byte("one"))
		pass(time.Second) // one is in flight, two are ready, one waits
		for _, s := range subs {
			s.EndedAt = time.Now()
			b.tell(s)
		}
		b.publish(t, topicA, []byte("two"))
		pass(time.Hour)
		if len(b.everything()) != 2 {
			t.Errorf("%d attempts, want the two made before the end", len(b.everything()))
		}
		if st := b.d.Stats(); st.Lanes+st.Ready+st.Waiting+st.InFlight+st.Hosts+st.Topics != 0 {
			t.Errorf("left: %+v", st)
		}
	})
}

// A renewal with another secret is verified while a delivery is in flight. That delivery does not
// move the new cursor, and is made again, signed with the new secret. Even then there is only one
// at a time (invariants 4 and 8).
func TestRenewalMidFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		sub := b.subscribe(topicA, cb(0), func(s *subscriptions.Subscription) { s.Secret = "old" })
		b.set(cb(0), takes(10*time.Second))
		b.run()
		defer b.end()
		one := b.publish(t, topicA, []byte("one"))
		two := b.publish(t, topicA, []byte("two"))
		pass(time.Second)
		renewed, err := b.Update(t.Context(), sub.ID, func(r subscriptions.Record) (subscriptions.Record, error) {
			s := *r.Subscription
			s.Secret = "new"
			s.Cursor = journal.Cursor{Generation: journal.MintGeneration(s.Cursor.Generation, time.Now()), Anchor: s.Cursor.Anchor}
			return subscriptions.Record{Subscription: &s}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		b.d.Apply(*renewed.Subscription)
		b.d.Apply(sub) // a late message changes nothing back but is of an older cursor
		b.d.Apply(*renewed.Subscription)
		pass(time.Minute)
		b.wantOrder(cb(0), one, one, two)
		got := b.at(cb(0))
		if got[0].header.Get("X-Hub-Signature") == got[1].header.Get("X-Hub-Signature") {
			t.Error("the second delivery has the old secret's signature")
		}
		if b.most["h0.example"] != 1 {
			t.Error("two exchanges of one subscription at once")
		}
		if s, _ := b.stored(sub); s.Cursor.Generation != renewed.Subscription.Cursor.Generation || s.Cursor.Seq != 2 {
			t.Errorf("stored %+v", s.Cursor)
		}
	})
}

// Renewals come at any moment of an exchange, and each has the callback and the secret as they were when it began. The
// race detector sees who reads them later.
func TestRenewalsDuringExchanges(t *testing.T) {
	const entries = 100
	b := newBed(t)
	sub := b.subscribe(topicA, cb(0), func(s *subscriptions.Subscription) { s.Secret = "0" })
	for n := range entries {
		b.publish(t, topicA, fmt.Append(nil, n))
	}
	b.run()
	for end, n := time.Now().Add(20*time.Second), 1; b.d.Stats().Delivered < entries && time.Now().Before(end); n++ {
		sub.Secret = strings.Repeat("0", n%200)
		b.d.Apply(sub)
	}
	b.end()
	for _, r := range b.everything() {
		if r.url != cb(0) {
			t.Errorf("a delivery to %.100s", r.url)
		}
	}
	if got := len(b.at(cb(0))); got != entries {
		t.Errorf("%d deliveries", got)
	}
}

// A renewal with the same secret keeps the cursor: nothing is delivered again
// (HUB-49).
func TestRenewalDeliversOnce_HUB49(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		sub := b.subscribe(topicA, cb(0))
		b.run()
		defer b.end()
		one := b.publish(t, topicA, []byte("one"))
		pass(50 * time.Millisecond) // delivered, not committed
		sub.ExpiresAt = sub.ExpiresAt.Add(time.Hour)
		b.d.Apply(sub)
		two := b.publish(t, topicA, []byte("two"))
		pass(time.Second)
		b.wantOrder(cb(0), one, two)
	})
}

// Notifications that were trimmed before they could be delivered become one gap, unless they had come before the journal lost
// them. Delivery continues after it (invariant 10).
func TestTrimmedIsAGap(t *testing.T) {
	for _, again := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t)
			sub := b.subscribe(topicA, cb(0))
			first := b.publish(t, topicA, []byte("first"))
			b.run()
			defer b.end()
			pass(time.Second)
			b.set(cb(0), answers(500))
			// This one is tried, and still in memory when it is trimmed.
			tried := b.publish(t, topicA, []byte("tried"))
			var lost journal.Entry
			for range 3 {
				lost = b.publish(t, topicA, []byte("lost"))
			}
			left := b.publish(t, topicA, []byte("left"))
			pass(time.Second)
			b.trim(topicA, lost.Seq)
			b.receivedBefore(topicA, again)
			b.set(cb(0), nil)
			pass(time.Hour)
			b.wantOrder(cb(0), first, tried, left)
			var want []journal.Gap
			if !again {
				want = append(want, journal.Gap{From: tried.Until, Until: lost.Until, Count: 3, Reason: journal.GapRetention})
			}
			b.wantGaps(sub, want...)
		})
	}
}

// Another hub ends the subscriptions of a topic and removes it. That hub reported what they missed,
// and this one does not report it again.
func TestRemovedByAnotherHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gaps []journal.Gap
		b := newBed(t, func(o *Options) { o.Gap = func(g journal.Gap) { gaps = append(gaps, g) } })
		ended, active := b.subscribe(topicA, cb(0)), b.subscribe(topicA, cb(1))
		b.set(cb(0), takes(2*time.Second))
		b.set(cb(1), takes(2*time.Second))
		b.run()
		defer b.end()
		first := b.publish(t, topicA, []byte("under way"))
		last := b.publish(t, topicA, []byte("removed"))
		pass(time.Second)
		_, err := b.Update(t.Context(), ended.ID, func(rec subscriptions.Record) (subscriptions.Record, error) {
			return subscriptions.End(rec, subscriptions.EndRemoved, journal.Head{Last: last.Anchor()}, time.Now()), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		b.topic(topicA).gone = journal.GapRemoved
		b.trim(topicA, last.Seq)
		pass(time.Minute)
		b.wantGaps(ended, journal.Gap{Until: last.Until, Count: 2, Reason: journal.GapRemoved})
		b.wantGaps(active, journal.Gap{From: first.Until, Until: last.Until, Count: 1, Reason: journal.GapRemoved})
		if len(gaps) != 1 {
			t.Errorf("told of %v", gaps)
		}
	})
}

// The store lost its tail: the lane goes back to the last entry that the journal still has, and
// continues from there in a new generation (invariant 5).
func TestRolledBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		sub := b.subscribe(topicA, cb(0))
		b.run()
		defer b.end()
		var all []journal.Entry
		for _, body := range []string{"1", "2", "3", "lost", "lost too"} {
			all = append(all, b.publish(t, topicA, []byte(body)))
			pass(time.Second)
		}
		before, _ := b.stored(sub)
		b.rollback(topicA, 2)
		again := b.publish(t, topicA, []byte("4"))
		more := b.publish(t, topicA, []byte("5"))
		pass(time.Second)
		b.wantOrder(cb(0), append(all, again, more)...)
		after, _ := b.stored(sub)
		if after.Cursor.Generation <= before.Cursor.Generation || after.Cursor.Anchor != more.Anchor() {
			t.Errorf("stored %+v after %+v", after.Cursor, before.Cursor)
		}
	})
}

// The same where the hub remembers nothing: all that is retained comes again,
// and nothing is skipped.
func TestRolledBackAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		var all []journal.Entry
		for range 4 {
			all = append(all, b.publish(t, topicA, []byte("x")))
		}
		b.trim(topicA, 1)
		b.subscribe(topicA, cb(0))
		b.rollback(topicA, 1)
		again := b.publish(t, topicA, []byte("4"))
		b.run()
		defer b.end()
		pass(time.Second)
		b.wantOrder(cb(0), all[1], all[2], again)
	})
}

// The same for a hub that has delivered once since it started. It also remembers the entry before
// that delivery, and goes no further back.
func TestRolledBackAfterTheFirstDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		for range 4 {
			b.publish(t, topicA, []byte("x"))
		}
		b.subscribe(topicA, cb(0))
		b.run()
		defer b.end()
		lost := b.publish(t, topicA, []byte("lost"))
		pass(time.Second)
		b.rollback(topicA, 1)
		again := b.publish(t, topicA, []byte("5"))
		pass(time.Second)
		b.wantOrder(cb(0), lost, again)
	})
}

// A store that cannot be read delays, and counts as no failed attempt.
func TestStoreTroubleIsNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		sub := b.subscribe(topicA, cb(0))
		b.run()
		defer b.end()
		pass(time.Second)
		until := time.Now().Add(20 * time.Second)
		b.memory.mu.Lock()
		b.failRead = func() error {
			if time.Now().Before(until) {
				return errStore
			}
			return nil
		}
		b.memory.mu.Unlock()
		one := b.publish(t, topicA, []byte("one"))
		pass(time.Minute)
		b.wantOrder(cb(0), one)
		if got := b.attempts(cb(0)); len(got) != 1 || got[0].attempt != 1 {
			t.Errorf("%+v", got)
		}
		if _, attempts := b.stored(sub); attempts != nil {
			t.Errorf("kept attempts: %+v", attempts)
		}
	})
}
