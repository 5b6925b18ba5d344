package subscriptions

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
)

// acceptFrom has a request accepted from a network.
func (w *world) acceptFrom(t *testing.T, requester, callback, secret string) error {
	t.Helper()
	r := subscribe(callback)
	r.Secret = secret
	return w.Accept(t.Context(), r, requester)
}

// renewed reports whether a callback's subscription was verified since a time.
func (w *world) renewed(callback string, since time.Time) bool {
	s := w.record(callback).Subscription
	return s != nil && !s.VerifiedAt.Before(since)
}

// A renewal by the subscriber is verified at once, whatever strangers have done to its
// callback's host: its budget is used up, the places for requests that wait are taken,
// and all workers for them are busy. The subscriber is known by its network, or by the
// secret wherever it asks from.
func TestStrangersDoNotHoldUpRenewals(t *testing.T) {
	o := Options{Budget: egress.NewBudget(20), MaxPending: 100, MaxPendingPerHost: 40, Workers: 8}
	virtual(t, o, func(t *testing.T, w *world) {
		expected := map[string]bool{callback: true}
		w.answer(cbHost, func(r *http.Request) (int, string, error) {
			u := *r.URL
			q := u.Query()
			if expected["https://"+cbHost+u.Path+"?a="+q.Get("a")] {
				return echo(r)
			}
			return answering(500)(r)
		})
		stop := w.run(t)
		if err := w.acceptFrom(t, "192.0.2.1", callback, "secret"); err != nil {
			t.Fatal(err)
		}
		elapse(time.Second)
		strangers := func() {
			for i := range 400 {
				from := fmt.Sprintf("198.51.100.%d", i%16)
				_ = w.acceptFrom(t, from, fmt.Sprintf("https://%s/%d", cbHost, i), "")
				_ = w.acceptFrom(t, from, fmt.Sprintf("https://hangs%d.example/", i), "")
				w.answer(fmt.Sprintf("hangs%d.example", i), hang)
			}
		}
		renews := func(requester, secret string, want bool) {
			t.Helper()
			start := time.Now()
			err := w.acceptFrom(t, requester, callback, secret)
			elapse(time.Second)
			if got := err == nil && w.renewed(callback, start); got != want {
				t.Errorf("from %s with the secret %q: accepted with %v, renewed: %t, want %t", requester, secret, err, got, want)
			}
		}
		strangers()
		elapse(time.Second)
		renews("192.0.2.1", "secret", true)
		renews("203.0.113.7", "secret", true)
		renews("203.0.113.7", "another secret", true) // the same network
		renews("198.51.100.1", "a stranger's", false)
		// Just restarted, with all of them waiting.
		stop()
		if err := w.acceptFrom(t, "203.0.113.7", callback, "another secret"); err != nil {
			t.Fatal(err)
		}
		w.restart(o)
		start := time.Now()
		defer w.run(t)()
		elapse(time.Second)
		if !w.renewed(callback, start) {
			t.Error("after a restart the renewal waits")
		}
	})
}

// A stranger's request for exactly the pair that its subscriber is renewing does not
// take the place of the renewal, until that has failed once.
func TestStrangersDoNotReplaceARenewal(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, w *world) {
		accept := func(requester, secret string) {
			t.Helper()
			if err := w.acceptFrom(t, requester, callback, secret); err != nil {
				t.Fatal(err)
			}
		}
		defer w.run(t)()
		accept("192.0.2.1", "secret")
		elapse(time.Second)
		release := make(chan struct{})
		w.answer(cbHost, func(r *http.Request) (int, string, error) { <-release; return echo(r) })
		start := time.Now()
		accept("192.0.2.1", "secret")
		elapse(time.Second)
		accept("198.51.100.1", "a stranger's")
		elapse(0)
		if r := w.record(callback).Request; r == nil || r.Secret != "secret" {
			t.Errorf("a stranger replaced it: %+v", r)
		}
		close(release)
		elapse(time.Minute)
		if s := w.record(callback).Subscription; s.Secret != "secret" || s.VerifiedAt.Before(start) {
			t.Errorf("it is %+v", s)
		}
		// One that failed may have been given up: whoever asks next is verified.
		w.answer(cbHost, answering(500))
		accept("192.0.2.1", "secret")
		elapse(time.Second)
		w.answer(cbHost, nil)
		accept("198.51.100.1", "new")
		elapse(time.Second)
		if s := w.record(callback).Subscription; s.Secret != "new" {
			t.Errorf("its secret is %q", s.Secret)
		}
	})
}

// Requesters take turns at a host: one whose requests the budget holds back there does
// not hold back another's.
func TestRequestersTakeTurnsAtAHost(t *testing.T) {
	virtual(t, Options{Budget: egress.NewBudget(20)}, func(t *testing.T, w *world) {
		w.answer(cbHost, func(r *http.Request) (int, string, error) {
			if r.URL.Path == "/good" {
				return echo(r)
			}
			return answering(404)(r)
		})
		defer w.run(t)()
		for i := range 100 {
			if err := w.acceptFrom(t, "198.51.100.1", fmt.Sprintf("https://%s/%d", cbHost, i), ""); err != nil {
				t.Fatal(err)
			}
		}
		elapse(time.Second)
		if n := len(w.callsTo(cbHost)); n != 5 {
			t.Errorf("%d requests for one requester, want 5", n)
		}
		good := "https://" + cbHost + "/good"
		if err := w.acceptFrom(t, "192.0.2.1", good, ""); err != nil {
			t.Fatal(err)
		}
		elapse(time.Second)
		if w.record(good).Subscription == nil {
			t.Error("another requester waits")
		}
	})
}
