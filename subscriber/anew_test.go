package subscriber

import (
	"testing"
	"time"
)

// Where an application lost what it did with what was received, the subscription stays, and is renewed with its callback and
// its secret. What the hub delivered is read again, after the new baseline.
func TestBeginAnew(t *testing.T) {
	h, with := withStream(func(l *lab) { l.o.Callback, l.o.Via = "https://me.example/cb", ViaCallback })
	subscribed(t, with, func(l *lab) {
		l.page(labList, gone)
		l.pushed(0, 1, 1)
		l.pushed(1, 3, 2, 3)
		l.want("1 2 3")
		l.pushed(3, 4, 4) // it waits
		l.pushed(8, 9, 9) // it is early
		l.end()
		if err := BeginAnew(l.o.Dir); err != nil {
			t.Fatal(err)
		}
		if st, err := ReadStatus(l.o.Dir); err != nil || !st.Until.IsZero() || st.Counts.Received > 0 || len(st.Subscriptions) != 1 {
			t.Errorf("the status is %+v, %v", st, err)
		}
		h.locked(func() { h.sinceXML = l.changeList(1, 2, 3, 4) })
		l.o.Start = l.second(1.5)
		l.start()
		l.after(5 * time.Second)
		l.want("2 3 4")
		if l.requests() != 2 || key(l, -1) != key(l, 0) {
			t.Errorf("%d requests, and the callbacks are %s and %s", l.requests(), key(l, 0), key(l, -1))
		}
		l.pushed(4, 5, 5)
		l.want("5")
		l.restart()
		l.after(time.Minute)
		if st := l.status(); l.requests() != 2 || len(st.Subscriptions) != 1 || st.Subscriptions[0].State != "active" {
			t.Errorf("%d requests, %+v", l.requests(), st)
		}
	})
}

// A folder in which nothing was received can begin anew as well.
func TestBeginAnewWithoutAnything(t *testing.T) {
	if err := BeginAnew(t.TempDir()); err != nil {
		t.Error(err)
	}
}
