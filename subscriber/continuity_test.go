package subscriber

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/test/draws"
)

// Whatever is dropped, doubled, delayed and reordered: every change is handed on
// once, and in order (DST-16).
func TestAnyOrder_DST16(t *testing.T) {
	for seed := range draws.Seeds(12) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		subscribed(t, func(l *lab) { l.o.MaxHeld = 1 + rnd.IntN(20) }, func(l *lab) {
			type interval struct {
				from, until float64
				in          []float64
			}
			var sent []interval
			var all []string
			at := 0.0
			for range 60 {
				i := interval{from: at, until: at + float64(rnd.IntN(4))}
				for s := i.from; s < i.until; s += 0.5 {
					if rnd.IntN(2) == 0 {
						i.in = append(i.in, s)
						all = append(all, fmt.Sprint(s))
					}
				}
				at = i.until
				l.listed(i.in...)
				if rnd.IntN(8) > 0 {
					sent = append(sent, i)
				}
				if rnd.IntN(6) == 0 {
					sent = append(sent, i)
				}
			}
			for i := range sent { // each may be overtaken by a few
				j := min(len(sent)-1, i+rnd.IntN(5))
				sent[i], sent[j] = sent[j], sent[i]
			}
			var got []string
			for _, i := range sent {
				for l.push(i.from, i.until, i.in...) == 503 {
					l.after(time.Minute)
				}
				l.after(time.Duration(rnd.IntN(3)) * time.Second)
				if rnd.IntN(4) == 0 {
					got = append(got, strings.Fields(l.waiting())...)
				}
				if rnd.IntN(15) == 0 {
					l.restart()
				}
			}
			l.after(time.Hour)
			if err := l.sub.CatchUp(l.Context()); err != nil { // the last may never have come
				l.Fatal(err)
			}
			got = append(got, strings.Fields(l.waiting())...)
			if !slices.Equal(got, all) {
				l.Errorf("seed %d: handed on\n%v, want\n%v", seed, got, all)
			}
			if st := l.status(); st.Counts.Held != 0 || st.Counts.Batches != 0 || st.Counts.Backlog != 0 || st.Trouble != "" || !st.Behind.IsZero() {
				l.Errorf("seed %d: %+v", seed, st)
			}
			if open := l.gaps(); strings.Contains(open, GapOpen) || strings.Contains(open, GapBaseline) {
				l.Errorf("seed %d: %s", seed, open)
			}
		})
	}
}

// A change at the instant at which two intervals meet may be in either, or in both,
// and is handed on once (DOC-13).
func TestEdges_DOC13(t *testing.T) {
	subscribed(t, nil, func(l *lab) {
		l.pushed(0, 2, 1, 2)
		l.pushed(2, 4, 2, 3)
		l.want("1 2 3")
		at4 := l.change(4)
		other := at4
		other.Loc += "b"
		l.post("application/xml", l.notification(3, 5, at4, l.change(5))) // overlaps
		l.post("application/xml", l.notification(4, 5, at4, other, l.change(5)))
		l.want("4 5")
		l.pushed(5, 7, 5)
		l.want("")
	})
	subscribed(t, nil, func(l *lab) {
		at2 := l.change(2)
		other, third := at2, at2
		other.Loc += "b"
		third.Loc += "c"
		l.post("application/xml", l.notification(0, 2, at2))
		l.post("application/xml", l.notification(2, 2, other)) // of length zero
		l.post("application/xml", l.notification(2, 2, other))
		l.post("application/xml", l.notification(0, 2, at2))
		l.post("application/xml", l.notification(2, 3, at2, other, third))
		l.want("2 2b 2c")
		if st := l.status(); st.Counts.Duplicates != 2 {
			l.Errorf("%+v", st.Counts)
		}
	})
	subscribed(t, nil, func(l *lab) { // overlaps, and has nothing new
		at2 := l.change(2)
		l.post("application/xml", l.notification(0, 2, at2))
		l.want("2")
		l.post("application/xml", l.notification(1, 4, l.change(1), at2))
		l.want("")
		if st := l.status(); st.Counts.Batches != 0 || !st.Behind.IsZero() || !st.Until.Equal(l.change(4).Datetime) {
			l.Errorf("%+v", st)
		}
		l.pushed(4, 5, 5)
		l.want("5")
	})
	subscribed(t, nil, func(l *lab) { // the same resource twice at one instant
		at2 := l.change(2)
		gone := at2
		gone.Change = resourcesync.Deleted
		l.post("application/xml", l.notification(0, 2, at2))
		l.post("application/xml", l.notification(2, 3, at2, gone))
		l.want("2 2")
	})
	subscribed(t, nil, func(l *lab) { // and changed in the same way
		at2 := l.change(2)
		other := at2
		other.Hash = "sha-256:0a"
		l.post("application/xml", l.notification(0, 2, at2))
		l.post("application/xml", l.notification(2, 3, at2, at2, at2, other))
		l.want("2 2 2 2")
	})
	subscribed(t, nil, func(l *lab) { // without a time, of length zero
		untimed := resourcesync.Entry{Loc: "https://source.example/r/x", Change: resourcesync.Created}
		for range 2 {
			l.post("application/xml", l.notification(0, 0, untimed))
		}
		l.want("x")
	})
}

// Where nothing is known of a topic the first notification may have overtaken
// another; and it may begin anywhere.
func TestBegins_DST16(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.after(3 * time.Second)
		l.pushed(10, 20, 15)
		l.want("")
		l.pushed(5, 10, 7)
		l.after(beginAfter)
		l.want("7 15")
		if c := l.status().Counts; c.Received != 2 || c.Early != 0 || c.LastReceived.IsZero() {
			l.Errorf("nothing was early yet: %+v", c)
		}
		l.pushed(20, 30, 25)
		l.want("25")
	})
}

// Notifications without changes leave nothing behind that nobody could commit.
func TestEmptyNotifications(t *testing.T) {
	subscribed(t, nil, func(l *lab) {
		for i := range 50 {
			l.pushed(float64(i), float64(i+1))
		}
		if st := l.status(); st.Counts.Received != 50 || st.Counts.Batches != 0 || st.Counts.Backlog != 0 || !st.Until.Equal(l.second(50)) {
			l.Errorf("%+v", st)
		}
	})
}

// What waits for others is bounded, and never in the way of the one that it waits for.
func TestHeldIsBounded(t *testing.T) {
	subscribed(t, func(l *lab) { l.o.MaxHeld, l.o.HoldFor, l.head.Links = 3, time.Hour, nil }, func(l *lab) {
		l.page(labList, nil) // can't be had
		for i := range 5 {
			want := 204
			if i >= 3 {
				want = 503
			}
			if got := l.push(float64(i+1), float64(i+2), float64(i+1)); got != want {
				l.Errorf("%d: %d, want %d", i, got, want)
			}
		}
		l.after(time.Minute)
		if got := l.gaps(); got != "missed open 0-1:0" {
			l.Error(got)
		}
		if waits := time.Since(l.status().Behind); waits < time.Minute || waits > 2*time.Minute {
			l.Errorf("it is behind for %v", waits)
		}
		l.pushed(0, 1, 0)
		l.want("0 1 2 3")
		l.after(repairMax)
		if got := l.gaps(); got != "missed repaired 0-1:0" || l.status().Trouble != "" {
			l.Errorf("%s, trouble %q", got, l.status().Trouble)
		}
		if st := l.status(); st.Counts.Postponed != 2 || st.Counts.Early != 3 {
			l.Errorf("%+v", st.Counts)
		}
	})
	subscribed(t, func(l *lab) { l.o.MaxBacklog = 5000 }, func(l *lab) {
		l.page(labList, nil)
		for i := range 20 {
			l.push(float64(i+1), float64(i+2), float64(i+1))
		}
		if st := l.status(); st.Counts.Backlog > 5000 || st.Counts.Held < 2 {
			l.Errorf("%+v", st.Counts)
		}
		l.pushed(0, 1, 0)
	})
}

// With a backlog that is full the hub is told to come again, gaps wait too, and both
// go on once the application has committed.
func TestBacklogFull(t *testing.T) {
	subscribed(t, func(l *lab) { l.o.MaxBacklog = 3000 }, func(l *lab) {
		n := 0
		for ; l.push(float64(n), float64(n+1), float64(n)) == 204; n++ {
			l.listed(float64(n))
		}
		if n < 3 || l.status().Counts.Postponed != 1 {
			l.Errorf("%d fit, %+v", n, l.status().Counts)
		}
		l.pushed(float64(n-1), float64(n), float64(n-1)) // a duplicate takes no room
		if got := strings.Fields(l.waiting()); len(got) != n {
			l.Errorf("%v", got)
		}
		l.pushed(float64(n), float64(n+1), float64(n))
		l.want(fmt.Sprint(n))
	})
}

// Plain content, of any type, passes in the order in which it came, each once by
// its Webhook-Id, also if the same comes twice at once.
func TestContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.after(3 * time.Second)
		for i, c := range []struct{ media, body, id string }{
			{"text/plain", "one", "a"},
			{"application/atom+xml", "<feed/>", "b"},
			{"text/plain", "one", "a"},
			{"application/json", "{}", ""},
			{"application/json", "{}", ""},
			{"", "none", "c"},
			{"application/xml", "<urlset", "d"},
		} {
			if w := l.post(c.media, []byte(c.body), "Webhook-Id", c.id); w.Code != 204 {
				t.Errorf("%d: %d %s", i, w.Code, w.Body)
			}
		}
		long := strings.Repeat("x", 300)
		for _, id := range []string{long + "1", long + "2", long + "1"} { // told apart however long they are
			l.post("text/plain", []byte(id[300:]), "Webhook-Id", id)
		}
		for range 8 {
			go l.post("text/plain", []byte("many"), "Webhook-Id", "e")
		}
		l.want("one <feed/> {} {} none <urlset 1 2 many")
		for i := range keptIDs + 10 {
			l.post("text/plain", []byte("x"), "Webhook-Id", fmt.Sprint(i))
		}
		n := 0
		_ = l.sub.inbox.db.View(func(tx *tx) error { n = tx.Bucket(idsBucket).Len(); return nil })
		if n != 2*keptIDs {
			t.Errorf("%d ids are kept", n/2)
		}
	})
}
