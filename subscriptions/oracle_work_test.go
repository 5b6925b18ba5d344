package subscriptions

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rshub/rshub/internal/base/egress"
)

// work is what an unsubscribe makes a hub do after its 202.
type work struct {
	Requests []string // at the callback's host, without their challenges
	Store    []string
	Held     int // times that the budget had no place
	Left     bool
}

// unsubscribing is the work that an unsubscribe makes where the callback's host
// answers as given and the store holds rec, and what the store holds in the end.
func unsubscribing(t *testing.T, rec Record, answer func(*http.Request) (int, string, error)) (did work, end Record, events []string) {
	t.Helper()
	virtual(t, Options{}, func(t *testing.T, w *world) {
		budget := egress.NewBudget(1)
		budget.Refused = func(egress.Refusal) { did.Held++ }
		c := &callLog{Registry: w.store, Space: w.store}
		w.o.Budget, w.o.Store = budget, c
		w.answer(cbHost, answer)
		if rec.Subscription != nil {
			w.store.records[ID(topic, callback)] = clone(rec)
		}
		defer w.run(t)()
		// No try ends in the moment in which house is kept, at whole seconds: what that
		// has read then may be older, and have the store asked once more.
		elapse(1500 * time.Millisecond)
		c.taken()
		began := time.Now()
		w.accept(t, unsubscribe(callback))
		elapse(time.Second)
		if calls := w.callsTo(cbHost); len(calls) == 0 || !calls[0].at.Equal(began) {
			t.Errorf("the callback was not asked at once: %v", calls)
		}
		elapse(time.Hour)
		for _, call := range w.callsTo(cbHost) {
			u := *call.req.URL
			q := u.Query()
			if len(q.Get("hub.challenge")) != 26 {
				t.Errorf("asked %s", &u)
			}
			q.Set("hub.challenge", "")
			u.RawQuery = q.Encode()
			did.Requests = append(did.Requests, call.req.Method+" "+u.String())
		}
		for _, call := range c.taken() {
			if call != "list" { // that of the house-keeping
				did.Store = append(did.Store, call)
			}
		}
		did.Left = w.queue.known(ID(topic, callback))
		end = w.record(callback)
		for _, e := range w.eventsNamed("") {
			events = append(events, fmt.Sprint(e.Name, " ", e.Reason))
		}
		if len(w.told()) > 0 != slices.Contains(events, EventEnded+" "+EndUnsubscribed) {
			t.Errorf("delivery was told %v after %q", w.told(), events)
		}
	})
	return did, end, events
}

// HUB-18: nobody can tell from the work that an unsubscribe makes whether there is
// a subscription: whatever the callback answers, its host sees the same requests,
// the budget has the same of them, and the store does the same. One that is
// confirmed ends what there is, and nothing where there is nothing.
func TestUnsubscribeTakesTheSameWhateverThereIs_HUB18(t *testing.T) {
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // when virtual time begins
	known := func(change func(*Subscription)) Record {
		s := Subscription{ID: ID(topic, callback), Topic: topic, Callback: callback, Secret: "s", CreatedAt: now, VerifiedAt: now, ExpiresAt: now.Add(24 * time.Hour)}
		change(&s)
		return Record{Subscription: &s}
	}
	ended := known(func(s *Subscription) { s.EndedAt, s.EndReason = now, EndGone })
	for name, tc := range map[string]struct {
		answer   func(*http.Request) (int, string, error)
		requests int
	}{
		"echo":     {echo, 1},
		"another":  {func(*http.Request) (int, string, error) { return 200, "no", nil }, 4},
		"404":      {answering(404), 1},
		"500":      {answering(500), 4},
		"no end":   {hang, 4},
		"redirect": {answering(307), 4},
	} {
		active, rec, events := unsubscribing(t, known(func(*Subscription) {}), tc.answer)
		confirmed := name == "echo"
		if len(active.Requests) != tc.requests || active.Left || rec.Request != nil || rec.Subscription.EndedAt.IsZero() == confirmed {
			t.Errorf("%s: %+v, and then %+v: %q", name, active, rec.Subscription, events)
		}
		for state, there := range map[string]Record{"unknown": {}, "ended": ended} {
			did, rec, events := unsubscribing(t, there, tc.answer)
			if d := cmp.Diff(active, did); d != "" {
				t.Errorf("%s, %s: it shows in the work (- there is one, + there is none):\n%s", name, state, d)
			}
			if d := cmp.Diff(there, rec); d != "" {
				t.Errorf("%s, %s: it changed something:\n%s", name, state, d)
			}
			if last := events[len(events)-1]; confirmed && last != EventDropped+" there is no subscription to end" {
				t.Errorf("%s, %s: told %q", name, state, events)
			}
		}
	}
}
