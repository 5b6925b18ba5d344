package subscriptions

import (
	"net/http"
	"testing"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/validate"
)

// The census follows requests and ends at once, and the rest when house is kept.
func TestCounts(t *testing.T) {
	virtual(t, Options{LeaseMax: time.Hour, LeaseDefault: time.Hour}, func(t *testing.T, w *world) {
		w.answer(cbHost, answering(http.StatusInternalServerError))
		stop := w.run(t)
		want := func(when string, c Counts) {
			t.Helper()
			elapse(0)
			if got := w.Counts(); got != c {
				t.Errorf("%s: %+v, want %+v", when, got, c)
			}
		}
		want("at first", Counts{})
		w.accept(t, subscribe(callback))
		want("asked for", Counts{Pending: 1, Waiting: 1})
		w.answer(cbHost, nil)
		elapse(time.Minute)
		want("in force", Counts{Stored: 1})
		w.accept(t, unsubscribe(callback))
		elapse(time.Second)
		want("ended", Counts{Ended: 1, Stored: 1})
		w.accept(t, subscribe(callback))
		elapse(time.Second)
		want("in force again", Counts{Stored: 1})

		elapse(2 * time.Hour)
		want("run out", Counts{Ended: 1, Stored: 1})
		stop()
		w.restart(Options{LeaseMax: time.Hour})
		defer w.run(t)()
		want("after a restart", Counts{Ended: 1, Stored: 1})
		elapse(EndedFor + time.Hour)
		want("forgotten", Counts{})
	})
}

// A denial that waits to be told is of no subscription that may begin yet.
func TestDeniedCountsAsEnded_HUB21(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, w *world) {
		w.checking(func(string) error { return &validate.DeniedError{} })
		w.answer(cbHost, answering(http.StatusInternalServerError))
		defer w.run(t)()
		w.accept(t, subscribe(callback))
		elapse(time.Second)
		if rec, c := w.record(callback), w.Counts(); rec.State(time.Now()) != StateEnded || c != (Counts{Ended: 1, Waiting: 1}) {
			t.Errorf("%s, %+v", rec.State(time.Now()), c)
		}
		elapse(time.Hour)
		if c := w.Counts(); c != (Counts{}) {
			t.Errorf("told: %+v", c)
		}
	})
}

// A request to end what there is not is no subscription (HUB-18).
func TestUnsubscribeOfNothingIsNoSubscription_HUB18(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, w *world) {
		w.answer(cbHost, answering(http.StatusInternalServerError))
		defer w.run(t)()
		w.accept(t, unsubscribe(callback))
		elapse(time.Second)
		if rec, c := w.record(callback), w.Counts(); rec.Request == nil || rec.State(time.Now()) != "" || c != (Counts{Waiting: 1}) {
			t.Errorf("%q, %+v", rec.State(time.Now()), c)
		}
	})
}

// Invariant 10: a subscription that begins anew, as its lease ran out too long
// ago, tells what it missed, even where house was not kept meanwhile.
func TestBeginningAnewTellsTheGap(t *testing.T) {
	virtual(t, Options{LeaseMax: time.Hour, LeaseDefault: time.Hour}, func(t *testing.T, w *world) {
		defer w.run(t)()
		w.accept(t, subscribe(callback))
		elapse(time.Second)
		w.publish(3)
		elapse(time.Hour)
		w.accept(t, subscribe(callback))
		elapse(time.Second)
		gaps := w.record(callback).Subscription.Gaps
		if e := w.eventsNamed(EventVerified); len(e) != 2 || len(gaps) != 1 || e[0].Gap.Count != 0 || e[1].Gap != gaps[0] || gaps[0].Count != 3 {
			t.Errorf("gaps %+v, events %+v", gaps, e)
		}
		if e := w.eventsNamed(EventEnded); len(e) != 0 {
			t.Errorf("house was kept: %+v", e)
		}
	})
}

// What a second end leaves out is told without what the first one did, though the
// two are one gap where nothing came between.
func TestEndsTellTheirOwnGaps(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, w *world){
		"unsubscribed": func(t *testing.T, w *world) { w.accept(t, unsubscribe(callback)) },
		"removed": func(t *testing.T, w *world) {
			if err := w.End(t.Context(), ID(topic, callback), EndRemoved, ""); err != nil {
				t.Fatal(err)
			}
		},
		"expired": func(*testing.T, *world) { elapse(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, Options{LeaseMax: 10 * time.Minute, LeaseDefault: 10 * time.Minute, ResumeWithin: time.Minute}, func(t *testing.T, w *world) {
				defer w.run(t)()
				for _, head := range []uint64{3, 5} {
					w.accept(t, subscribe(callback))
					elapse(time.Second)
					w.publish(head)
					end(t, w)
					elapse(time.Minute)
				}
				gaps := w.record(callback).Subscription.Gaps
				if e := w.eventsNamed(EventEnded); len(e) != 2 || e[0].Gap.Count != 3 || e[1].Gap.Count != 2 || len(gaps) != 1 || gaps[0].Count != 5 {
					t.Errorf("gaps %+v, events %+v", gaps, e)
				}
			})
		})
	}
}

// A gap that is joined with the one before it is told without that.
func TestNewGap(t *testing.T) {
	a := journal.Gap{From: time.Unix(1, 0), Until: time.Unix(2, 0), Count: 2, Reason: journal.GapExpired}
	b := journal.Gap{From: time.Unix(2, 0), Until: time.Unix(5, 0), Count: 3, Reason: journal.GapExpired}
	joined := a
	joined.Until, joined.Count = b.Until, 5
	of := func(g ...journal.Gap) *Subscription { return &Subscription{Gaps: g} }
	for _, tc := range []struct {
		before, after *Subscription
		want          journal.Gap
	}{
		{nil, nil, journal.Gap{}},
		{nil, of(), journal.Gap{}},
		{of(), nil, journal.Gap{}},
		{of(a), of(a), journal.Gap{}},
		{of(), of(a), a},
		{of(a), of(a, b), b},
		{of(a), of(joined), b},
	} {
		if got := newGap(tc.before, tc.after); got != tc.want {
			t.Errorf("%+v, %+v: %+v", tc.before, tc.after, got)
		}
	}
}
