package delivery

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// operator is a Service that informs the bed's Dispatcher of its changes.
func (b *bed) operator() *subscriptions.Service {
	s, err := subscriptions.New(subscriptions.Options{
		Store: b.memory, Heads: b.memory, Entries: b.memory, Client: b.wire, Changed: b.d.Apply,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// A retry is made at once, whatever the lane waits for, and counts on; after it
// the ladder begins anew.
func TestRetryTakesEffectAtOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		answer callback
		after  time.Duration // for which it has failed
	}{
		"failing":                         {answers(500), 10 * time.Minute},
		"at the end of its ladder":        {answers(500), 20 * time.Hour},
		"held by a Retry-After":           {answers(503, "Retry-After", "18000"), time.Minute},
		"at a host that is down":          {down, 10 * time.Minute},
		"at a host that is down for long": {down, 20 * time.Hour},
		"at a host that hangs":            {hangs, 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t)
				sub := b.subscribe(topicA, cb(0))
				b.set(cb(0), tc.answer)
				b.run()
				defer b.end()
				one := b.publish(t, topicA, []byte("one"))
				pass(tc.after)
				before := b.attempts(cb(0))
				asked := time.Now()
				if _, err := b.operator().Retry(t.Context(), sub.ID); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				tried := b.attempts(cb(0))
				if len(tried) != len(before)+1 || !tried[len(before)].at.Equal(asked) || tried[len(before)].attempt != len(before)+1 {
					t.Fatalf("%d attempts after %d, the last %+v", len(tried), len(before), tried[len(tried)-1])
				}
				pass(20 * time.Second) // it failed again
				b.set(cb(0), nil)
				if _, err := b.operator().Retry(t.Context(), sub.ID); err != nil {
					t.Fatal(err)
				}
				pass(time.Second)
				b.wantOrder(cb(0), one)
				if s, _ := b.stored(sub); s.Cursor.Anchor != one.Anchor() || s.Cursor.Attempt != 0 || s.Cursor.Nudge != 0 || len(s.Gaps) != 0 {
					t.Errorf("stored %+v", s)
				}
			})
		})
	}
}

// A retry does not shorten the time that is left for a notification: give-up
// counts from its first attempt.
func TestRetryKeepsTheFirstAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, func(o *Options) { o.Policy.GiveUp = 12 * time.Hour })
		sub := b.subscribe(topicA, cb(0))
		b.set(cb(0), answers(500))
		b.run()
		defer b.end()
		began := time.Now()
		b.publish(t, topicA, []byte("one"))
		pass(11 * time.Hour)
		if _, err := b.operator().Retry(t.Context(), sub.ID); err != nil {
			t.Fatal(err)
		}
		pass(90 * time.Minute)
		s, _ := b.stored(sub)
		if len(s.Gaps) != 1 || s.Gaps[0].Reason != journal.GapGaveUp || s.Gaps[0].At.Sub(began) != 12*time.Hour {
			t.Errorf("%+v", s.Gaps)
		}
	})
}

// A retry of a lane that is in flight, or that has nothing to deliver, starts
// nothing twice.
func TestRetryOfABusyLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		sub := b.subscribe(topicA, cb(0))
		b.set(cb(0), takes(10*time.Second))
		b.run()
		defer b.end()
		retry := func() {
			t.Helper()
			if _, err := b.operator().Retry(t.Context(), sub.ID); err != nil && !errors.Is(err, subscriptions.ErrUnchanged) {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		pass(time.Second)
		retry() // it is idle
		one := b.publish(t, topicA, []byte("one"))
		two := b.publish(t, topicA, []byte("two"))
		pass(time.Second)
		retry() // it is in flight
		pass(9 * time.Second)
		retry() // the first is delivered and not committed
		pass(time.Minute)
		b.wantOrder(cb(0), one, two)
		if b.most["h0.example"] != 1 || len(b.everything()) != 2 {
			t.Errorf("%d attempts, %d at once", len(b.everything()), b.most["h0.example"])
		}
	})
}

// A replay delivers again in order what is retained, and ends after some time, in any state of the
// lane. Notifications that are published meanwhile come after it. Deliveries in flight and
// uncommitted results do not undo it (invariants 3 and 4).
func TestReplayDeliversAgain_Invariant4(t *testing.T) {
	for name, tc := range map[string]struct {
		answer  callback
		pause   time.Duration // between the last publish and the replay
		suspect bool
	}{
		"idle":          {nil, time.Minute, false},
		"not committed": {nil, time.Millisecond, false},
		"in flight":     {takes(10 * time.Second), 45 * time.Second, false},
		"failing":       {failsLast(answers(500)), time.Hour, false},
		"held":          {failsLast(answers(429, "Retry-After", "18000")), time.Hour, false},
		"of a suspect":  {failsLast(down), time.Hour, true},
		"of a dead one": {failsLast(down), 20 * time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t)
				sub := b.subscribe(topicB, cb(0))
				b.set(cb(0), tc.answer)
				b.run()
				defer b.end()
				var all []journal.Entry
				for i := range 5 {
					all = append(all, b.publish(t, topicB, []byte(fmt.Sprint(i+1))))
				}
				pass(tc.pause)
				if st := b.d.Stats(); (st.Suspects > 0) != tc.suspect {
					t.Fatalf("%+v", st)
				}
				before := b.at(cb(0))
				inFlight := b.d.Stats().InFlight
				stored, _ := b.stored(sub)
				b.trim(topicB, min(stored.Cursor.Seq, 1))
				from := min(stored.Cursor.Seq, 2) // or what it did not get yet, as far as is stored
				b.set(cb(0), nil)
				n, rec, err := b.operator().Replay(all[1].Until)(t.Context(), sub.ID)
				if err != nil || n != 5-from || rec.Subscription.Cursor.Seq != from {
					t.Fatalf("%d, %+v, %v", n, rec.Subscription, err)
				}
				asked := time.Now()
				synctest.Wait()
				if tried := b.attempts(cb(0)); inFlight == 0 && !tried[len(tried)-1].at.Equal(asked) {
					t.Error("it waits")
				}
				six := b.publish(t, topicB, []byte("6"))
				pass(time.Minute)
				var was []string
				for _, r := range b.at(cb(0)) {
					was = append(was, r.body)
				}
				want := []string{"1", "2", "3", "4", "5", "6"}[from:]
				again := was[len(before)+inFlight:]
				if fmt.Sprint(again) != fmt.Sprint(want) {
					t.Errorf("%v, of which %d before the replay and %d in flight; want %v again", was, len(before), inFlight, want)
				}
				if s, _ := b.stored(sub); s.Cursor.Anchor != six.Anchor() || s.Cursor.Generation != rec.Subscription.Cursor.Generation || len(s.Gaps) != 0 {
					t.Errorf("stored %+v", s)
				}
			})
		})
	}
}

// failsLast accepts all but the last of five notifications.
func failsLast(fails callback) callback {
	return func(r *http.Request, body []byte) (*http.Response, error) {
		if string(body) == "5" {
			return fails(r, body)
		}
		return nil, nil
	}
}

// A replay of a subscription that is behind loses nothing: the notifications that it lacks still
// come.
func TestReplayIsNeverForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		sub := b.subscribe(topicA, cb(0))
		b.set(cb(0), answers(500))
		b.run()
		defer b.end()
		var all []journal.Entry
		for i := range 3 {
			all = append(all, b.publish(t, topicA, []byte(fmt.Sprint(i+1))))
		}
		pass(time.Hour)
		b.set(cb(0), nil)
		n, _, err := b.operator().Replay(all[2].Until)(t.Context(), sub.ID)
		if err != nil || n != 3 {
			t.Errorf("%d, %v", n, err)
		}
		pass(time.Second)
		b.wantOrder(cb(0), all...)
	})
}
