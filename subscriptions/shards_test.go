package subscriptions

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// A request that a hub accepted for another is durable and left alone there; the
// owner verifies it once it found it, and the acceptor's place is free soon after.
func TestOnlyTheOwnerVerifies(t *testing.T) {
	var owned atomic.Bool
	virtual(t, Options{MaxPending: 1, Owns: func(int) bool { return owned.Load() }}, func(t *testing.T, w *world) {
		stop := w.run(t)
		w.accept(t, subscribe(callback))
		elapse(time.Hour)
		if rec := w.record(callback); rec.Request == nil || rec.Subscription != nil || len(w.callsTo("")) != 0 {
			t.Fatalf("%d calls by a hub that does not own the shard; stored: %+v", len(w.callsTo("")), rec)
		}
		if c := w.Counts(); c.Pending != 0 || c.Waiting != 1 {
			t.Errorf("counted of another hub's shard: %+v", c)
		}
		if err := w.Accept(t.Context(), subscribe("https://callback.example/2"), ""); !errors.As(err, new(*LimitError)) {
			t.Errorf("a second request where one may wait: %v", err)
		}
		// It takes the shard over: what is found in it is verified at once.
		owned.Store(true)
		start := time.Now()
		w.Found(w.record(callback))
		elapse(0)
		if rec := w.record(callback); rec.Subscription == nil || time.Since(start) != 0 {
			t.Errorf("not verified at once by the new owner: %+v", rec)
		}
		w.Found(Record{})
		stop()
		// The acceptor, whose request another hub is done with.
		owned.Store(false)
		w.restart(Options{MaxPending: 1, Owns: func(int) bool { return owned.Load() }})
		defer w.run(t)()
		w.accept(t, unsubscribe(callback))
		elapse(time.Minute)
		if _, err := w.store.Update(t.Context(), ID(topic, callback), func(rec Record) (Record, error) {
			return Deactivate(rec, rec.Request.ID, headAt(rec.Subscription.Cursor.Anchor), time.Now())
		}); err != nil {
			t.Fatal(err)
		}
		elapse(3 * time.Minute)
		if c := w.Counts(); c.Waiting != 0 {
			t.Errorf("%d places are taken by requests that another hub is done with", c.Waiting)
		}
	})
}

// The owner takes up what it finds once: what it knows goes on as it was planned,
// and what is newer, or was begun anew by the operator, takes effect.
func TestFoundIsTakenUpOnce(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, w *world) {
		w.answer(cbHost, answering(500))
		defer w.run(t)()
		w.accept(t, subscribe(callback))
		for range 20 {
			elapse(100 * time.Millisecond)
			w.Found(w.record(callback))
		}
		if n := len(w.callsTo(cbHost)); n != 1 {
			t.Fatalf("%d calls in 2 s, want the first try alone", n)
		}
		elapse(10 * time.Second) // the second try failed, the third is 30 s off
		if n := len(w.callsTo(cbHost)); n != 2 {
			t.Fatalf("%d calls", n)
		}
		// Another hub's operator has it tried now.
		rec, err := w.store.Update(t.Context(), ID(topic, callback), func(rec Record) (Record, error) { return Retry(rec, time.Now()) })
		if err != nil {
			t.Fatal(err)
		}
		w.Found(rec)
		elapse(0)
		if n := len(w.callsTo(cbHost)); n != 3 {
			t.Errorf("%d calls after a retry through another hub", n)
		}
		// Another hub accepts a newer request.
		w.answer(cbHost, echo)
		other, err := New(Options{Store: w.store, Heads: w, Client: w, Owns: func(int) bool { return false }})
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Accept(t.Context(), subscribe(callback), ""); err != nil {
			t.Fatal(err)
		}
		w.Found(w.record(callback))
		elapse(0)
		if rec := w.record(callback); rec.Subscription == nil {
			t.Errorf("the newer request was not verified: %+v", rec.Request)
		}
	})
}

// Nothing is written of, and nothing counted in, the shards of others: no expiry
// and no end.
func TestHouseIsKeptForOwnShards(t *testing.T) {
	var owned atomic.Bool
	owned.Store(true)
	o := Options{LeaseMin: time.Minute, LeaseDefault: time.Minute, LeaseMax: time.Minute, Owns: func(int) bool { return owned.Load() }}
	virtual(t, o, func(t *testing.T, w *world) {
		defer w.run(t)()
		w.accept(t, subscribe(callback))
		elapse(time.Second)
		owned.Store(false)
		elapse(24 * time.Hour)
		if s := w.record(callback).Subscription; s == nil || !s.EndedAt.IsZero() {
			t.Fatalf("a hub ended what it does not own: %+v", s)
		}
		owned.Store(true)
		elapse(10 * time.Minute)
		if s := w.record(callback).Subscription; s == nil || s.EndReason != EndExpired {
			t.Errorf("its owner did not end it: %+v", s)
		}
		if c := w.Counts(); c.Ended != 1 {
			t.Errorf("%+v", c)
		}
		owned.Store(false)
		elapse(10 * time.Minute)
		if c := w.Counts(); c.Ended != 0 {
			t.Errorf("counted of another hub's shard: %+v", c)
		}
	})
}

// While the hub reads its subscriptions to deliver to them, nothing else reads them all. Then they are
// counted.
func TestSweepWaitsForTheStart(t *testing.T) {
	var starting atomic.Bool
	starting.Store(true)
	virtual(t, Options{Starting: starting.Load}, func(t *testing.T, w *world) {
		w.store.records[ID(topic, callback)] = Record{Subscription: &Subscription{
			ID: ID(topic, callback), Topic: topic, Callback: callback, EndedAt: time.Now(), EndReason: EndExpired,
		}}
		defer w.run(t)()
		elapse(time.Hour)
		if c := w.Counts(); c.Ended != 0 {
			t.Errorf("counted while the hub was starting: %+v", c)
		}
		starting.Store(false)
		elapse(time.Second)
		if c := w.Counts(); c.Ended != 1 {
			t.Errorf("not counted after the start: %+v", c)
		}
	})
}

// HUB-13: each of several hubs enforces its part of the limits.
func TestLimitsAreShared(t *testing.T) {
	live := 4
	w := newWorld(Options{MaxPending: 10, Live: func() int { return live }})
	accepted := func(from int) (n int) {
		for ; n < 20; n++ {
			if err := w.Accept(t.Context(), subscribe(fmt.Sprintf("https://h%d.example/", from+n)), ""); err != nil {
				break
			}
		}
		return n
	}
	if n := accepted(0); n != 3 {
		t.Errorf("%d accepted of 10 by one of 4 hubs, want 3", n)
	}
	live = 1 // the others are gone
	if n := accepted(100); n != 7 {
		t.Errorf("%d more accepted by the only hub, want 7", n)
	}
	for _, tc := range []struct{ limit, live, want int }{{0, 3, 0}, {10, 1, 10}, {10, 3, 4}, {1, 5, 1}, {10, 0, 10}, {-1, 2, 0}} {
		if got := perHub(tc.limit, tc.live); got != tc.want {
			t.Errorf("perHub(%d, %d) = %d, want %d", tc.limit, tc.live, got, tc.want)
		}
	}
}

// What the limit per host and the census count holds as soon as a shard is this
// hub's, which it is a moment after the start, or when another hub died.
func TestShardsAreCountedWhenTheyCome(t *testing.T) {
	var owned atomic.Bool
	o := Options{MaxPerHost: 3, Owns: func(int) bool { return owned.Load() }}
	virtual(t, o, func(t *testing.T, w *world) {
		for n := range 4 {
			s := aSubscription()
			if n == 3 {
				s.EndedAt = time.Now()
			}
			s.Callback = fmt.Sprintf("https://%s/%d", cbHost, n)
			s.ID = ID(s.Topic, s.Callback)
			w.store.records[s.ID] = Record{Subscription: s}
		}
		defer w.run(t)()
		elapse(10 * time.Second)
		if c := w.Counts(); c != (Counts{}) {
			t.Errorf("counted of another hub's shards: %+v", c)
		}
		owned.Store(true)
		elapse(2 * time.Second)
		if c := w.Counts(); c.Ended != 1 {
			t.Errorf("%d of the one that ended is counted", c.Ended)
		}
		if err := w.Accept(t.Context(), subscribe("https://"+cbHost+"/more"), ""); !errors.As(err, new(*LimitError)) {
			t.Errorf("one more than the host may have: %v", err)
		}
		owned.Store(false)
		elapse(2 * time.Second)
		if c := w.Counts(); c != (Counts{}) {
			t.Errorf("counted of what another hub took over: %+v", c)
		}
	})
}
