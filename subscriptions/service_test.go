package subscriptions

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/websub"
)

// within reports whether d is want with the jitter of a fifth.
func within(d, want time.Duration) bool { return d >= want*4/5 && d <= want*6/5 }

// HUB-26, HUB-12: four tries at growing distances, then the request goes and
// what was in force stays. HUB-21: a failed verification sends no denial.
func TestTriesAreBounded_HUB26(t *testing.T) {
	for name, tc := range map[string]struct {
		fails func(*http.Request) (int, string, error)
		why   string
	}{
		"500": {answering(500), "the callback answered 500"},
		"mismatch": {func(*http.Request) (int, string, error) {
			return 200, "hello", nil
		}, "the callback answered 200: the body of the answer is another text; it has to be the challenge alone"},
		"line end": {func(r *http.Request) (int, string, error) {
			_, challenge, err := echo(r)
			return 200, challenge + "\n", err
		}, "the callback answered 200: the body of the answer has a line end after the challenge; it has to be the challenge alone"},
		"timeout": {hang, "the callback did not answer in time"},
		"hung up": {func(*http.Request) (int, string, error) {
			return 0, "", io.EOF
		}, "the server closed the connection before it answered"},
		"no connection": {func(*http.Request) (int, string, error) {
			return 0, "", errors.New("connection refused")
		}, "connection refused"},
	} {
		virtual(t, Options{Timeout: 3 * time.Second}, func(t *testing.T, w *world) {
			w.answer(cbHost, tc.fails)
			defer w.run(t)()
			w.accept(t, subscribe(callback))
			elapse(time.Hour)
			calls := w.callsTo(cbHost)
			if len(calls) != 4 {
				t.Fatalf("%s: %d tries, want 4", name, len(calls))
			}
			took := time.Duration(0)
			if name == "timeout" {
				took = 3 * time.Second
			}
			for i, want := range []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute} {
				if d := calls[i+1].at.Sub(calls[i].at) - took; !within(d, want) {
					t.Errorf("%s: try %d came after %v, want about %v", name, i+2, d, want)
				}
				if mode := calls[i].req.URL.Query().Get("hub.mode"); mode != "subscribe" {
					t.Errorf("%s: hub.mode=%s", name, mode)
				}
			}
			dropped := w.eventsNamed(EventDropped)
			if w.store.size() != 0 || w.queue.known(ID(topic, callback)) || len(dropped) != 1 {
				t.Fatalf("%s: %d records are left", name, w.store.size())
			}
			if want := "the last try failed: " + tc.why; dropped[0].Reason != want {
				t.Errorf("%s: dropped because %q, want %q", name, dropped[0].Reason, want)
			}
		})
	}
}

// HUB-26: 404 is an answer, and the last one.
func Test404IsFinal_HUB26(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, w *world) {
		w.answer(cbHost, answering(http.StatusNotFound))
		defer w.run(t)()
		w.accept(t, subscribe(callback))
		elapse(time.Hour)
		if n := len(w.callsTo(cbHost)); n != 1 || w.store.size() != 0 {
			t.Errorf("%d calls, %d records", n, w.store.size())
		}
	})
}

// Invariant 8, HUB-12, HUB-27: what is in force stays as it was until a request
// is verified, and after one that failed; a changed secret as well as a lease
// and an unsubscribe.
func TestFailedVerificationChangesNothing_HUB12_HUB27(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, w *world) {
		defer w.run(t)()
		r := subscribe(callback)
		r.Secret = "old"
		w.accept(t, r)
		elapse(time.Second)
		before := w.record(callback).Subscription
		if before == nil || before.Secret != "old" {
			t.Fatalf("not activated: %+v", before)
		}
		newSecret, noSecret, lease := r, subscribe(callback), r
		newSecret.Secret = "new"
		lease.Lease, lease.HasLease = time.Hour, true
		for name, answer := range map[string]func(*http.Request) (int, string, error){"404": answering(404), "500": answering(500)} {
			w.answer(cbHost, answer)
			for _, r := range []websub.SubscribeRequest{newSecret, noSecret, lease, unsubscribe(callback)} {
				w.accept(t, r)
				elapse(0)
				if d := cmp.Diff(before, w.record(callback).Subscription); d != "" {
					t.Errorf("%s, %s: changed before it was verified:\n%s", name, r.Mode, d)
				}
				elapse(10 * time.Minute)
				if d := cmp.Diff(Record{Subscription: before}, w.record(callback)); d != "" {
					t.Errorf("%s, %s: changed although it failed:\n%s", name, r.Mode, d)
				}
			}
		}
		if len(w.told()) != 1 {
			t.Errorf("delivery was told %d changes, want the first alone", len(w.told()))
		}
		// Verified, it takes effect, and delivery hears of it.
		w.answer(cbHost, nil)
		w.accept(t, noSecret)
		elapse(time.Second)
		after := w.record(callback).Subscription
		if after.Secret != "" || after.Cursor.Generation <= before.Cursor.Generation || len(w.told()) != 2 || w.told()[1].Secret != "" {
			t.Errorf("not renewed: %+v", after)
		}
	})
}

// Invariant 8: the challenge of an older request, echoed late, does not activate
// the newer one that replaced it meanwhile.
func TestOlderChallengeActivatesNothingNewer(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, w *world) {
		release := make(chan struct{})
		w.answer(cbHost, func(r *http.Request) (int, string, error) {
			w.answer(cbHost, answering(404)) // to the second request
			<-release
			return echo(r)
		})
		defer w.run(t)()
		older, newer := subscribe(callback), subscribe(callback)
		older.Secret, newer.Secret = "older", "newer"
		w.accept(t, older)
		elapse(time.Second)
		w.accept(t, newer)
		close(release)
		elapse(time.Hour)
		if rec := w.record(callback); rec.Subscription != nil || rec.Request != nil {
			t.Errorf("activated: %+v", rec)
		}
		if n := len(w.callsTo(cbHost)); n != 2 {
			t.Errorf("%d calls, want one for each request", n)
		}
	})
}

// Invariant 8: nor does the "no" to an older request drop the newer one.
func TestOlderAnswerDropsNothingNewer(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, w *world) {
		release := make(chan struct{})
		w.answer(cbHost, func(*http.Request) (int, string, error) {
			w.answer(cbHost, nil)
			<-release
			return http.StatusNotFound, "", nil
		})
		defer w.run(t)()
		w.accept(t, subscribe(callback))
		elapse(time.Second)
		w.accept(t, subscribe(callback))
		close(release)
		elapse(time.Second)
		if w.record(callback).Subscription == nil {
			t.Error("the newer request was dropped with the older one")
		}
	})
}

// Invariant 9: however often its deliveries failed, a subscription stays until
// its lease ends, and a renewal has it tried again at once.
func TestFailingSubscriptionStays_HUB48(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, w *world) {
		defer w.run(t)()
		w.accept(t, subscribe(callback))
		elapse(time.Second)
		s := w.record(callback).Subscription
		failing := s.Cursor
		failing.Attempt, failing.Step, failing.LastStatus = 5000, 9, journal.StatusTimeout
		failing.NextAttemptAt = time.Now().Add(9 * 24 * time.Hour)
		w.store.commit(s.ID, failing)
		elapse(9 * 24 * time.Hour)
		if s = w.record(callback).Subscription; !s.Live(time.Now()) || s.Cursor != failing || len(s.Gaps) > 0 {
			t.Errorf("after nine days of failures it is %+v", s)
		}
		w.accept(t, subscribe(callback))
		elapse(0)
		if s = w.record(callback).Subscription; s.Cursor.Step != 0 || s.Cursor.NextAttemptAt.After(time.Now()) || s.Cursor.Compare(failing) <= 0 {
			t.Errorf("renewed, its cursor is %+v", s.Cursor)
		}
	})
}

// Invariant 6, HUB-22: a subscription begins where the topic was when the
// request was accepted, though verified later; its lease runs from when the
// verification request was sent.
func TestStartIsFixedAtAccept_HUB22(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, w *world) {
		var sent time.Time
		w.answer(cbHost, func(r *http.Request) (int, string, error) {
			sent = time.Now()
			w.publish(9)
			time.Sleep(7 * time.Second)
			return echo(r)
		})
		w.publish(4)
		w.accept(t, subscribe(callback))
		w.publish(5)
		elapse(time.Minute)
		defer w.run(t)()
		elapse(time.Minute)
		s := w.record(callback).Subscription
		if s == nil || s.Start != entry(4) || s.Cursor.Anchor != entry(4) {
			t.Fatalf("it starts at %+v, want entry 4", s)
		}
		if want := sent.Add(864_000 * time.Second); !s.ExpiresAt.Equal(want) {
			t.Errorf("expires at %v, want %v", s.ExpiresAt, want)
		}
	})
}

// HUB-13: an accepted request survives a crash at any point of its
// verification; the next process verifies it.
func TestVerificationGoesOnAfterACrash_HUB13(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, w *world) {
		w.answer(cbHost, hang)
		w.accept(t, subscribe(callback))
		w.restart(Options{}) // crashed before it began
		stop := w.run(t)
		elapse(time.Second)
		if len(w.callsTo(cbHost)) != 1 {
			t.Fatal("the verification did not begin")
		}
		stop() // in the middle of it
		if rec := w.record(callback); rec.Request == nil || rec.Request.Tries != 0 {
			t.Fatalf("the shutdown counted as a failure: %+v", rec.Request)
		}
		w.answer(cbHost, answering(500))
		w.restart(Options{})
		stop = w.run(t)
		elapse(time.Second)
		stop() // between two tries
		w.answer(cbHost, nil)
		w.restart(Options{})
		defer w.run(t)()
		elapse(time.Second)
		if w.record(callback).Subscription != nil {
			t.Error("the pause after a failure ended with the process")
		}
		elapse(10 * time.Second)
		if w.record(callback).Subscription == nil {
			t.Error("it was not verified after the crash")
		}
	})
}

// One dead host with 10,000 requests delays no other.
func TestDeadHostDelaysNoOther(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, w *world) {
		const dead = "dead.example"
		w.answer(dead, hang)
		for i := range 10_000 {
			w.accept(t, subscribe(fmt.Sprintf("https://%s/%d", dead, i)))
		}
		defer w.run(t)()
		elapse(time.Second)
		for i := range 20 {
			accepted := time.Now()
			cb := fmt.Sprintf("https://%s/%d", cbHost, i)
			w.accept(t, subscribe(cb))
			elapse(0)
			if s := w.record(cb).Subscription; s == nil || !s.VerifiedAt.Equal(accepted) {
				t.Fatalf("the healthy host waited: %+v", s)
			}
			elapse(41 * time.Second)
		}
		if n := len(w.callsTo(dead)); n < 4*20*2 {
			t.Errorf("the dead host got %d tries only", n)
		}
	})
}

// Hundreds of dead hosts, in their retries, leave room for first tries.
func TestManyDeadHostsDelayNoFirstTry(t *testing.T) {
	virtual(t, Options{Workers: 64}, func(t *testing.T, w *world) {
		for i := range 1000 {
			host := fmt.Sprintf("dead%d.example", i)
			w.answer(host, hang)
			r := Request{
				ID: uuid.New(), Mode: websub.ModeSubscribe, Topic: topic, Callback: "https://" + host,
				AcceptedAt: time.Now(), Tries: 1,
			}
			w.store.records[r.SubscriptionID()] = Record{Request: &r}
		}
		defer w.run(t)()
		elapse(time.Second)
		accepted := time.Now()
		w.accept(t, subscribe(callback))
		elapse(0)
		if s := w.record(callback).Subscription; s == nil || !s.VerifiedAt.Equal(accepted) {
			t.Fatalf("the healthy host waited: %+v", s)
		}
	})
}

// A host that does not confirm gets as many requests a minute as the budget
// leaves strangers and the others wait, undropped; one that confirms is not held back.
func TestBudgetHoldsBackWhatIsNotConfirmed(t *testing.T) {
	virtual(t, Options{Budget: egress.NewBudget(40)}, func(t *testing.T, w *world) {
		const victim = "victim.example"
		w.answer(victim, answering(404))
		for i := range 100 {
			w.accept(t, subscribe(fmt.Sprintf("https://%s/%d", victim, i)))
			w.accept(t, subscribe(fmt.Sprintf("https://%s/%d", cbHost, i)))
		}
		defer w.run(t)()
		elapse(time.Second)
		if n := len(w.callsTo(cbHost)); n != 100 {
			t.Errorf("%d of 100 were verified at the host that confirms", n)
		}
		if n := len(w.callsTo(victim)); n != 20 {
			t.Errorf("%d requests at once, want 20", n)
		}
		elapse(58 * time.Second)
		if n := len(w.callsTo(victim)); n != 20 {
			t.Errorf("%d requests in the first minute, want 20", n)
		}
		elapse(2 * time.Second)
		if n := len(w.callsTo(victim)); n != 40 {
			t.Errorf("%d requests after it, want 20 more", n)
		}
		if n := w.store.size(); n != 100+60 {
			t.Errorf("%d records, want those that wait and the active ones", n)
		}
		elapse(3*time.Minute + time.Second)
		if n := len(w.callsTo(victim)); n != 100 {
			t.Errorf("%d requests in the end", n)
		}
	})
}

// An address over its budget counts as no try either.
func TestBudgetOfTheAddressWaits(t *testing.T) {
	virtual(t, Options{Budget: egress.NewBudget(40)}, func(t *testing.T, w *world) {
		spent := true
		w.answer(cbHost, func(r *http.Request) (int, string, error) {
			if spent {
				spent = false
				return 0, "", &egress.BudgetError{Target: "192.0.2.1", Wait: 40 * time.Second}
			}
			return echo(r)
		})
		defer w.run(t)()
		w.accept(t, subscribe(callback))
		elapse(39 * time.Second)
		if n := len(w.callsTo(cbHost)); n != 1 || w.record(callback).Request.Tries != 0 {
			t.Errorf("%d calls", n)
		}
		elapse(2 * time.Second)
		if w.record(callback).Subscription == nil {
			t.Error("it was not verified after the wait")
		}
	})
}

// A request that another process stored while an older one was being verified is
// taken up at once.
func TestRequestOfAnotherProcessIsTakenUp(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, w *world) {
		w.answer(cbHost, func(r *http.Request) (int, string, error) {
			time.Sleep(10 * time.Second)
			return echo(r)
		})
		defer w.run(t)()
		w.accept(t, subscribe(callback))
		elapse(time.Second)
		_, err := w.store.Update(t.Context(), ID(topic, callback), func(rec Record) (Record, error) {
			rec.Request.ID, rec.Request.Secret = uuid.New(), "of the other"
			return rec, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		elapse(20 * time.Second)
		if s := w.record(callback).Subscription; s == nil || s.Secret != "of the other" {
			t.Errorf("in force is %+v", s)
		}
	})
}

// A time to try again that a clock which jumped left behind is not waited for.
func TestDueIsNoFurtherOffThanAPause(t *testing.T) {
	for next, want := range map[time.Time]time.Time{
		{}:                   t0,
		t0.Add(-time.Minute): t0,
		t0.Add(time.Minute):  t0.Add(time.Minute),
		t0.Add(time.Hour):    t0,
	} {
		if got := due(&Request{NextAt: next}, t0, t0); !got.Equal(want) {
			t.Errorf("due at %v for %v, want %v", got, next, want)
		}
	}
	// From here on it follows the monotonic clock, which does not jump.
	now := time.Now()
	next := now.Add(time.Minute).UTC().Round(0) // as a store returns it
	if got := due(&Request{NextAt: next}, now, now); !strings.Contains(got.String(), " m=") {
		t.Errorf("due at %v, which a clock that jumps back puts off", got)
	}
}

// Delivery hears of the changes of one subscription in their order, from
// whichever goroutine they come.
func TestChangesAreToldInOrder(t *testing.T) {
	w := newWorld(Options{})
	s := aSubscription()
	w.store.records[s.ID] = Record{Subscription: s}
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for range 50 {
				_, err := w.update(t.Context(), s.ID, func(rec Record) (Record, error) {
					changed := *rec.Subscription
					changed.Cursor.Nudge++
					return Record{Subscription: &changed}, nil
				})
				if err != nil {
					t.Error(err)
				}
				runtime.Gosched()
			}
		})
	}
	wg.Wait()
	if n := len(w.told()); n != 32*50 {
		t.Errorf("told of %d changes", n)
	}
	checkRising(t, w.told())
}

// While the hub's own proxy is down nothing is a try, and nothing is lost.
func TestVerificationWaitsForTheProxy(t *testing.T) {
	client, err := egress.New(egress.Options{Proxy: &url.URL{Scheme: "http", Host: "127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, callback, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, down := client.Do(req) //nolint:bodyclose // there is no answer
	if egress.Classify(down) != egress.FailureOwn {
		t.Fatal(down)
	}
	virtual(t, Options{Budget: egress.NewBudget(2)}, func(t *testing.T, w *world) {
		w.answer(cbHost, func(*http.Request) (int, string, error) { return 0, "", down })
		defer w.run(t)()
		w.accept(t, subscribe(callback))
		elapse(time.Hour)
		if n := len(w.eventsNamed(EventFailed)); w.record(callback).Request.Tries != 0 || n < 600 || n > 900 {
			t.Errorf("%d tries, %d events in an hour of one each 5 s", w.record(callback).Request.Tries, n)
		}
		w.answer(cbHost, nil)
		elapse(10 * time.Second)
		if w.record(callback).Subscription == nil {
			t.Error("it was not verified after the proxy was back")
		}
	})
}

// Trouble with the store costs time, no request and no storm of tries.
func TestStoreTroubleLosesNothing(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, w *world) {
		for i := range 50 {
			w.accept(t, subscribe(fmt.Sprintf("https://host%d.example/", i)))
		}
		w.store.breakWith(errors.New("the network cable is out"))
		defer w.run(t)()
		elapse(time.Minute)
		if n := len(w.eventsNamed(EventTrouble)); n == 0 || n > 40 {
			t.Errorf("%d events of trouble", n)
		}
		w.store.breakWith(nil)
		elapse(10 * time.Second)
		if n := len(w.eventsNamed(EventVerified)); n != 50 {
			t.Errorf("%d were verified after it, want 50", n)
		}
	})
}

// A record that cannot be read holds up no other request.
func TestUnreadableRecordHoldsUpNobody(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, w *world) {
		for i := range 50 {
			w.accept(t, subscribe(fmt.Sprintf("https://host%d.example/", i)))
		}
		w.store.damaged = ID(topic, "https://host7.example/")
		defer w.run(t)()
		elapse(time.Second)
		if n := len(w.eventsNamed(EventVerified)); n != 49 {
			t.Errorf("%d were verified at once, want 49", n)
		}
		elapse(time.Hour)
		if n := len(w.eventsNamed(EventTrouble)); n == 0 || n > 100 {
			t.Errorf("%d events of trouble", n)
		}
	})
}

// HUB-29, invariant 10: a lease that ran out stops deliveries at once and calls
// nobody; the end is written when it can't be resumed, with one gap, and the
// ended subscription can be read for a week.
func TestLeaseRunsOut_HUB29(t *testing.T) {
	o := Options{LeaseMin: time.Second, ResumeWithin: resume}
	virtual(t, o, func(t *testing.T, w *world) {
		defer w.run(t)()
		r := subscribe(callback)
		r.Lease, r.HasLease = time.Hour, true
		w.accept(t, r)
		elapse(time.Second)
		w.publish(3)
		elapse(time.Hour)
		s := w.record(callback).Subscription
		if s.Live(time.Now()) || !s.EndedAt.IsZero() {
			t.Errorf("an hour later: %+v", s)
		}
		elapse(resume + 5*time.Minute)
		s = w.record(callback).Subscription
		if s.EndReason != EndExpired || len(s.Gaps) != 1 || s.Gaps[0].Count != 3 || s.Gaps[0].Reason != journal.GapExpired {
			t.Errorf("a day later: %+v", s)
		}
		if e := w.eventsNamed(EventEnded); len(e) != 1 || e[0].Gap != s.Gaps[0] {
			t.Errorf("the gap is not in the log: %+v", e)
		}
		if n := len(w.callsTo(cbHost)); n != 1 {
			t.Errorf("%d calls, want the verification alone", n)
		}
		if last := w.told()[len(w.told())-1]; last.EndReason != EndExpired {
			t.Error("delivery was not told")
		}
		elapse(EndedFor - time.Hour)
		if w.record(callback).Subscription == nil {
			t.Error("it can't be read any more")
		}
		elapse(time.Hour + 5*time.Minute)
		if w.store.size() != 0 {
			t.Error("it was kept for ever")
		}
	})
}

// Invariant 10: requested again in time, it goes on where it stopped, also when
// the verification takes longer than that.
func TestResumedSubscriptionHasNoGap(t *testing.T) {
	o := Options{LeaseMin: time.Second, ResumeWithin: time.Hour}
	virtual(t, o, func(t *testing.T, w *world) {
		defer w.run(t)()
		r := subscribe(callback)
		r.Lease, r.HasLease = time.Minute, true
		w.publish(1)
		w.accept(t, r)
		elapse(time.Second)
		before := w.record(callback).Subscription
		w.publish(8)
		elapse(time.Hour)
		w.answer(cbHost, answering(500))
		w.accept(t, r)
		elapse(time.Second)
		w.answer(cbHost, nil)
		elapse(20 * time.Minute) // the house-keeping comes by
		s := w.record(callback).Subscription
		want := before.Cursor
		want.Nudge++ // and no other generation, nor position
		if s.Cursor != want || len(s.Gaps) != 0 || !s.EndedAt.IsZero() || !s.VerifiedAt.After(before.VerifiedAt) {
			t.Errorf("resumed as %+v, was %+v", s, before)
		}
	})
}

// Invariant 10: what an unsubscribe leaves undelivered is told, and nothing is
// where nothing was left.
func TestGapOfAnUnsubscribeIsTold(t *testing.T) {
	for lag := range uint64(2) {
		virtual(t, Options{}, func(t *testing.T, w *world) {
			defer w.run(t)()
			w.accept(t, subscribe(callback))
			elapse(time.Second)
			w.publish(lag)
			w.accept(t, unsubscribe(callback))
			elapse(time.Second)
			if e := w.eventsNamed(EventEnded); len(e) != 1 || e[0].Gap.Count != lag {
				t.Errorf("%d behind: %+v", lag, e)
			}
		})
	}
}
