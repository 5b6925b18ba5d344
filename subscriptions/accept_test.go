package subscriptions

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/websub"
)

func TestLeaseIsClampedIntoTheBounds_HUB05_HUB30(t *testing.T) {
	for _, tc := range []struct {
		asked, want time.Duration // asked 0: not at all
	}{
		{0, 864_000 * time.Second},
		{time.Second, 300 * time.Second},
		{300 * time.Second, 300 * time.Second},
		{3600 * time.Second, 3600 * time.Second},
		{2_678_400 * time.Second, 2_678_400 * time.Second},
		{2_678_401 * time.Second, 2_678_400 * time.Second},
		{websub.MaxLease, 2_678_400 * time.Second},
		{3600*time.Second + time.Millisecond, 3600 * time.Second},
	} {
		w := newWorld(Options{})
		r := subscribe(callback)
		r.Lease, r.HasLease = tc.asked, tc.asked > 0
		w.accept(t, r)
		if got := w.record(callback).Request.Lease; got != tc.want {
			t.Errorf("asked for %v and was granted %v, want %v", tc.asked, got, tc.want)
		}
	}
	// A default outside of the bounds does not escape them, and a lease is a
	// whole second at least.
	w := newWorld(Options{LeaseMin: time.Millisecond, LeaseDefault: time.Hour, LeaseMax: 1500 * time.Millisecond})
	w.accept(t, subscribe(callback))
	if got := w.record(callback).Request.Lease; got != time.Second {
		t.Errorf("granted %v, want 1s", got)
	}
}

// HUB-13, HUB-15: when Accept returns, the request is stored, and no callback
// and no topic was called, so that the answer can't depend on what they say.
func TestAcceptStoresAndDoesNotCall_HUB13_HUB15(t *testing.T) {
	w := newWorld(Options{})
	w.checking(func(string) error {
		t.Error("the topic was checked while accepting")
		return nil
	})
	w.publish(5)
	r := subscribe(callback)
	r.Secret = "s3cret"
	w.accept(t, r)
	got := w.record(callback)
	if got.Subscription != nil || got.Request == nil {
		t.Fatalf("stored %+v, want a request alone", got)
	}
	// Invariant 6: the start is fixed here.
	if q := got.Request; q.Start != entry(5) || q.Secret != "s3cret" || q.Mode != websub.ModeSubscribe || q.AcceptedAt.IsZero() {
		t.Errorf("stored %+v", q)
	}
	if len(w.callsTo("")) != 0 {
		t.Errorf("%d calls were made", len(w.callsTo("")))
	}
	if err := w.Accept(t.Context(), websub.SubscribeRequest{Mode: websub.ModePublish, Topic: topic, Callback: callback}, ""); err == nil {
		t.Error("a ping was accepted as a subscription")
	}
}

// HUB-11, HUB-12: one request a pair, the newest; other pairs are others.
func TestNewerRequestReplacesTheOlder_HUB11(t *testing.T) {
	w := newWorld(Options{MaxPending: 2})
	w.accept(t, subscribe(callback))
	first := w.record(callback).Request
	r := subscribe(callback)
	r.Secret = "newer"
	w.accept(t, r)
	second := w.record(callback).Request
	if second.ID == first.ID || second.Secret != "newer" || w.store.size() != 1 {
		t.Errorf("%d records, request %+v", w.store.size(), second)
	}
	w.accept(t, subscribe(callback+"&b=2"))
	if w.store.size() != 2 {
		t.Errorf("%d records for two callbacks", w.store.size())
	}
}

// Invariant 6: who asks again while the first request waits gets all from the
// first on.
func TestRepeatedRequestKeepsTheStart(t *testing.T) {
	w := newWorld(Options{})
	w.publish(4)
	w.accept(t, subscribe(callback))
	w.publish(5)
	w.accept(t, subscribe(callback))
	if r := w.record(callback).Request; r.Start != entry(4) {
		t.Errorf("it starts at %+v, want entry 4", r.Start)
	}
	// A change of mind does not.
	w.accept(t, unsubscribe(callback))
	w.accept(t, subscribe(callback))
	if r := w.record(callback).Request; r.Start != entry(5) {
		t.Errorf("it starts at %+v, want entry 5", r.Start)
	}
}

// Invariant 12: what waits is bounded, in all and for one host.
func TestPendingRequestsAreBounded(t *testing.T) {
	w := newWorld(Options{MaxPending: 5, MaxPendingPerHost: 3})
	var limit *LimitError
	for i := range 3 {
		w.accept(t, subscribe(fmt.Sprintf("https://one.example/%d", i)))
	}
	if err := w.Accept(t.Context(), subscribe("https://ONE.example:443/x"), ""); !errors.As(err, &limit) || limit.RetryAfter <= 0 {
		t.Errorf("a fourth at one host: %v", err)
	}
	w.accept(t, subscribe("https://one.example/0")) // replaces one
	w.accept(t, subscribe("https://one.example:444/"))
	w.accept(t, subscribe("https://two.example/"))
	for _, r := range []websub.SubscribeRequest{subscribe("https://three.example/"), unsubscribe("https://three.example/")} {
		if err := w.Accept(t.Context(), r, ""); !errors.As(err, &limit) || limit.RetryAfter <= 0 {
			t.Errorf("a sixth: %v", err)
		}
	}
	if w.store.size() != 5 {
		t.Errorf("%d requests are stored", w.store.size())
	}
}

// One requester has a share of the places, in all and at one host, and gets it back
// as his requests are settled; others have theirs meanwhile.
func TestOneRequesterTakesNotAllPlaces(t *testing.T) {
	virtual(t, Options{MaxPending: 16, MaxPendingPerHost: 8}, func(t *testing.T, w *world) {
		asks := func(requester string, r websub.SubscribeRequest) error { return w.Accept(t.Context(), r, requester) }
		var limit *LimitError
		w.answer("one.example", hang)
		for i := range 2 {
			if err := asks("mallory", subscribe(fmt.Sprintf("https://one.example/%d", i))); err != nil {
				t.Fatal(err)
			}
		}
		if err := asks("mallory", subscribe("https://one.example/2")); !errors.As(err, &limit) || limit.RetryAfter <= 0 {
			t.Errorf("a third at one host: %v", err)
		}
		if err := errors.Join(asks("mallory", subscribe("https://one.example/1")), asks("alice", subscribe("https://one.example/2"))); err != nil {
			t.Errorf("one again, and another requester's: %v", err)
		}
		for i, host := range []string{"a", "b"} {
			if err := asks("mallory", unsubscribe("https://"+host+".example/")); err != nil {
				t.Errorf("%d: %v", i, err)
			}
		}
		if err := asks("mallory", subscribe("https://c.example/")); !errors.As(err, &limit) {
			t.Errorf("a fifth in all: %v", err)
		}
		if err := errors.Join(asks("alice", subscribe("https://c.example/")), asks("", subscribe("https://d.example/"))); err != nil {
			t.Errorf("the others: %v", err)
		}
		defer w.run(t)()
		elapse(time.Second) // all but those of one.example are settled
		if err := asks("mallory", subscribe("https://c.example/x")); err != nil {
			t.Errorf("when there is room again: %v", err)
		}
		elapse(time.Hour)
		if n := len(w.queue.quota.by) + len(w.queue.quota.count); n != 0 {
			t.Errorf("%d are remembered when nothing waits", n)
		}
	})
}

// A place that was reserved for a request that could not be stored is free again.
func TestFailedAcceptGivesItsPlaceBack(t *testing.T) {
	virtual(t, Options{MaxPending: 1}, func(t *testing.T, w *world) {
		w.store.breakWith(errors.New("disk on fire"))
		if err := w.Accept(t.Context(), subscribe(callback), ""); err == nil {
			t.Fatal("accepted although nothing was stored")
		}
		w.store.breakWith(nil)
		defer w.run(t)()
		elapse(time.Second)
		w.accept(t, subscribe("https://other.example/"))
	})
}

// The bound on a host's subscriptions holds for what is stored from before and
// counts what ends; a renewal passes it. HUB-12
func TestSubscriptionsOfOneHostAreBounded(t *testing.T) {
	o := Options{MaxPerHost: 2}
	virtual(t, o, func(t *testing.T, w *world) {
		stop := w.run(t)
		at := func(i int) string { return fmt.Sprintf("https://%s/%d", cbHost, i) }
		w.accept(t, subscribe(at(0)))
		w.accept(t, subscribe(at(1)))
		var limit *LimitError
		if err := w.Accept(t.Context(), subscribe(at(2)), ""); !errors.As(err, &limit) {
			t.Errorf("while two wait: %v", err)
		}
		elapse(time.Second)
		if err := w.Accept(t.Context(), subscribe(at(2)), ""); !errors.As(err, &limit) {
			t.Errorf("with two in force: %v", err)
		}
		w.accept(t, subscribe(at(1)))
		w.accept(t, subscribe("https://other.example/"))
		elapse(time.Second)
		stop()

		w.restart(o)
		defer w.run(t)()
		elapse(time.Second)
		if err := w.Accept(t.Context(), subscribe(at(2)), ""); !errors.As(err, &limit) {
			t.Errorf("after a restart: %v", err)
		}
		w.accept(t, unsubscribe(at(0)))
		elapse(time.Second)
		w.accept(t, subscribe(at(2)))
		elapse(10 * time.Minute) // more than a round of the house-keeping
		if n := w.counts.onHost(egress.HostPortOf(at(0))); n != 2 {
			t.Errorf("%d are counted, want 2", n)
		}
	})
}

// A subscription has one place at its host, whatever requests wait: to renew it, to end it, to
// end what there is not, or denials. HUB-12, HUB-18
func TestWaitingRequestsNeedNoSecondPlaceAtTheHost(t *testing.T) {
	virtual(t, Options{MaxPerHost: 3}, func(t *testing.T, w *world) {
		defer w.run(t)()
		at := func(i int) string { return fmt.Sprintf("https://%s/%d", cbHost, i) }
		refused := func(i int) bool {
			t.Helper()
			err := w.Accept(t.Context(), subscribe(at(i)), "")
			if err != nil && !errors.As(err, new(*LimitError)) {
				t.Fatal(err)
			}
			return err != nil
		}
		w.accept(t, subscribe(at(0)))
		elapse(time.Second)
		w.answer(cbHost, answering(500)) // everything waits from now on
		w.accept(t, subscribe(at(0)))
		w.accept(t, unsubscribe(at(9)))
		elapse(time.Second)
		if refused(1) || refused(2) {
			t.Error("the renewal has a second place, or the unsubscribe has one")
		}
		if refused(0) || refused(1) {
			t.Error("a request is refused because of itself")
		}
		if !refused(3) || !refused(9) {
			t.Error("there are more than the host may have")
		}
		w.accept(t, unsubscribe(at(0)))
		w.answer(cbHost, nil)
		elapse(time.Minute)
		if refused(3) {
			t.Error("the one that ended has a place")
		}
		w.answer(cbHost, answering(500))
		if err := w.End(t.Context(), ID(topic, at(1)), EndRemoved, ""); err != nil {
			t.Fatal(err)
		}
		if refused(4) {
			t.Error("a denial that waits has a place")
		}
	})
}

// A request that another hub accepted has its place as soon as the hub that owns it finds it.
func TestRequestsOfOtherHubsHavePlacesAtTheHost(t *testing.T) {
	virtual(t, Options{MaxPerHost: 2}, func(t *testing.T, w *world) {
		defer w.run(t)()
		elapse(time.Second)
		at := func(i int) string { return fmt.Sprintf("https://%s/%d", cbHost, i) }
		other, err := New(Options{Store: w.store, Heads: w, Client: w, Owns: func(int) bool { return false }})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			if err := other.Accept(t.Context(), subscribe(at(i)), ""); err != nil {
				t.Fatal(err)
			}
		}
		count := func(when string) {
			t.Helper()
			w.Found(w.record(at(0)))
			w.Found(w.record(at(1)))
			if n := w.counts.onHost(egress.HostPortOf(at(0))); n != 2 {
				t.Errorf("%s: %d are counted, want 2", when, n)
			}
		}
		count("found")
		count("found again")
		elapse(time.Second)
		count("in force")
		if err := w.Accept(t.Context(), subscribe(at(2)), ""); !errors.As(err, new(*LimitError)) {
			t.Errorf("one more than the host may have: %v", err)
		}
	})
}
