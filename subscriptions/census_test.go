package subscriptions

import (
	"net/http"
	"testing"
	"time"
)

// The census follows requests and ends at once, and the rest when house is kept.
func TestCensus(t *testing.T) {
	virtual(t, Options{LeaseMax: time.Hour, LeaseDefault: time.Hour}, func(t *testing.T, w *world) {
		w.answer(cbHost, answering(http.StatusInternalServerError))
		stop := w.run(t)
		want := func(when string, c Census) {
			t.Helper()
			settle(0)
			if got := w.Census(); got != c {
				t.Errorf("%s: %+v, want %+v", when, got, c)
			}
		}
		want("at first", Census{})
		w.accept(t, subscribe(callback))
		want("asked for", Census{Pending: 1, Waiting: 1})
		w.answer(cbHost, nil)
		settle(time.Minute)
		want("in force", Census{})
		w.accept(t, unsubscribe(callback))
		settle(time.Second)
		want("ended", Census{Ended: 1})
		w.accept(t, subscribe(callback))
		settle(time.Second)
		want("in force again", Census{})

		settle(2 * time.Hour)
		want("run out", Census{Ended: 1})
		stop()
		w.restart(Options{LeaseMax: time.Hour})
		defer w.run(t)()
		want("after a restart", Census{Ended: 1})
		settle(EndedFor + time.Hour)
		want("forgotten", Census{})
	})
}
