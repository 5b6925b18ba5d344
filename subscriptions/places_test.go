package subscriptions

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/journal"
)

func TestSites(t *testing.T) {
	for callback, want := range map[string]string{
		"https://a.b.example.co.uk/cb":        "example.co.uk",
		"http://example.co.uk:8080/":          "example.co.uk",
		"https://EXAMPLE.org./x":              "example.org",
		"https://one.github.io/":              "one.github.io",
		"https://x.one.github.io/":            "one.github.io",
		"https://subscriber.example/":         "subscriber.example",
		"https://deep.subscriber.example/":    "subscriber.example",
		"http://localhost:9/":                 "localhost",
		"http://192.0.2.7:81/":                "192.0.2.7",
		"http://[::ffff:192.0.2.7]/":          "192.0.2.7",
		"http://[2001:db8:1:2:3:4:5:6]:8443/": "2001:db8:1:2::/64",
		"http://co.uk/":                       "co.uk",
		"not a URL":                           "",
	} {
		if got := siteOf(callback); got != want {
			t.Errorf("%s: %q, want %q", callback, got, want)
		}
	}
	if egress.RequesterID("") != 0 || egress.RequesterID("192.0.2.1") == 0 || egress.RequesterID("192.0.2.1") == egress.RequesterID("192.0.2.2") {
		t.Error("requesters are not told apart")
	}
}

// from is the i-th callback, at a site of its own.
func from(i int) string { return fmt.Sprintf("https://cb.site%d.example/%d", i, i) }

// ask has a request accepted, and returns whether it came to a subscription. One
// that did not was denied, and never verified.
func (w *world) ask(t *testing.T, callback, requester string) bool {
	t.Helper()
	before := len(w.callsTo(""))
	if err := w.Accept(t.Context(), subscribe(callback), requester); err != nil {
		t.Fatalf("%s: %v", callback, err)
	}
	elapse(2 * sweepPause)
	for _, c := range w.callsTo("")[before:] {
		if q := c.req.URL.Query(); q.Get("hub.mode") == "denied" && q.Get("hub.reason") != "" {
			if len(w.callsTo("")) != before+1 || w.record(callback).Request != nil {
				t.Errorf("%s: there were other calls, or there is more to do", callback)
			}
			return false
		}
	}
	s := w.record(callback).Subscription
	if s == nil || !s.Live(time.Now()) {
		t.Errorf("%s: neither denied nor in force", callback)
	}
	return true
}

// The total holds, for what is stored from before too, and for what has ended as
// long as that is kept. Renewals pass, and so does who comes back (HUB-12). The
// answer to a request is always the same (HUB-18).
func TestSubscriptionsInAllAreBounded(t *testing.T) {
	const most = 8
	o := Options{MaxTotal: most, LeaseMax: time.Hour, LeaseDefault: time.Hour}
	virtual(t, o, func(t *testing.T, w *world) {
		stop := w.run(t)
		for i := range most {
			if !w.ask(t, from(i), "") {
				t.Errorf("number %d was denied", i)
			}
		}
		full := func(when string) {
			t.Helper()
			if w.ask(t, from(100), "") {
				t.Errorf("%s: one more than may be", when)
			}
			if c := w.Counts(); c.Stored != most || c.Most != most {
				t.Errorf("%s: %d of %d are counted", when, c.Stored, c.Most)
			}
		}
		full("with all in force")
		if !w.ask(t, from(3), "") {
			t.Error("a renewal was denied")
		}
		w.accept(t, unsubscribe(from(0)))
		elapse(time.Second)
		full("with one that ended")
		if !w.ask(t, from(0), "") {
			t.Error("one that came back was denied")
		}
		stop()
		w.restart(o)
		defer w.run(t)()
		full("after a restart")
		elapse(EndedFor + 2*time.Hour) // all expire, and are forgotten
		if !w.ask(t, from(100), "") {
			t.Error("denied although there is room")
		}
	})
}

// No callback site has over a quarter, whatever names and topics it uses, and no
// requester, whatever sites; also after a restart. Others go on.
func TestNobodyHasOverAQuarter(t *testing.T) {
	const most = 40
	o := Options{MaxTotal: most}
	virtual(t, o, func(t *testing.T, w *world) {
		stop := w.run(t)
		granted := func(n int, callback func(int) string, requester func(int) string) (granted int) {
			for i := range n {
				if w.ask(t, callback(i), requester(i)) {
					granted++
				}
			}
			return granted
		}
		oneSite := func(i int) string { return fmt.Sprintf("https://h%d.greedy.example/%d", i, i) }
		anybody := func(i int) string { return fmt.Sprintf("192.0.2.%d", i) }
		if n := granted(most/4+5, oneSite, anybody); n != most/4 {
			t.Errorf("one site has %d of %d", n, most)
		}
		if n := granted(most/4+5, from, func(int) string { return "198.51.100.1" }); n != most/4 {
			t.Errorf("one requester has %d of %d", n, most)
		}
		stop()
		w.restart(o)
		defer w.run(t)()
		if w.ask(t, oneSite(100), "192.0.2.100") || w.ask(t, from(100), "198.51.100.1") {
			t.Error("after a restart they get more")
		}
		if !w.ask(t, oneSite(0), "198.51.100.1") {
			t.Error("a renewal was denied")
		}
		if !w.ask(t, from(101), "203.0.113.1") {
			t.Error("somebody else was denied")
		}
	})
}

// Many that are verified at the same moment do not pass the total together. Those
// that find no place after they confirmed are denied.
func TestTotalHoldsForManyAtOnce(t *testing.T) {
	const most, asked = 8, 50
	virtual(t, Options{MaxTotal: most}, func(t *testing.T, w *world) {
		for i := range asked {
			w.answer(fmt.Sprintf("cb.site%d.example", i), func(r *http.Request) (int, string, error) {
				time.Sleep(5 * time.Second)
				return echo(r)
			})
		}
		defer w.run(t)()
		for i := range asked {
			w.accept(t, subscribe(from(i)))
		}
		elapse(time.Minute)
		if w.store.size() != most || len(w.eventsNamed(EventVerified)) != most || len(w.eventsNamed(EventDenied)) != asked-most {
			t.Errorf("%d are stored, %d were verified, %d denied", w.store.size(), len(w.eventsNamed(EventVerified)), len(w.eventsNamed(EventDenied)))
		}
	})
}

// Of several hubs each has the part of the total that it has of the shards, and
// judges nobody before it has counted them.
func TestTotalIsDividedByShards(t *testing.T) {
	const most = 64
	var mine atomic.Int32 // shards below this are the hub's
	mine.Store(journal.Partitions / 2)
	o := Options{MaxTotal: most, Owns: func(shard int) bool { return shard < int(mine.Load()) }}
	virtual(t, o, func(t *testing.T, w *world) {
		defer w.run(t)()
		granted := func(i int) (n int) {
			for end := i + 300; i < end; i++ {
				if id := ID(topic, from(i)); w.o.owns(id) && w.ask(t, from(i), "") {
					n++
				}
			}
			return n
		}
		if n := granted(0); n != most/2 {
			t.Errorf("%d were granted by the owner of half of the shards, of %d", n, most)
		}
		// The other hub died, and had as many.
		stored := 0
		for i := 1000; stored < most/2; i++ {
			s := aSubscription()
			s.Callback = from(i)
			if s.ID = ID(topic, from(i)); !w.o.owns(s.ID) {
				w.store.records[s.ID] = Record{Subscription: s}
				stored++
			}
		}
		mine.Store(journal.Partitions)
		if n := granted(2000); n != 0 {
			t.Errorf("%d more were granted after a take-over", n)
		}
	})
}

// A hub whose store does not answer counts nothing, and denies nobody either.
func TestNobodyIsDeniedUncounted(t *testing.T) {
	virtual(t, Options{MaxTotal: 1}, func(t *testing.T, w *world) {
		w.accept(t, subscribe(callback))
		w.store.breakWith(errors.New("away"))
		defer w.run(t)()
		elapse(time.Minute)
		if len(w.callsTo("")) > 0 {
			t.Error("somebody was called")
		}
		w.store.breakWith(nil)
		elapse(time.Minute)
		if rec := w.record(callback); rec.Subscription == nil || rec.Request != nil {
			t.Errorf("%+v", rec)
		}
	})
}

// However many sites there are, few are remembered, and those that have a quarter
// are. Invariant 12
func TestPlacesAreBounded_Invariant12(t *testing.T) {
	p := newCounts(1000, false, func(int) bool { return true })
	greedy := p.tenant("https://greedy.example/", 1)
	for shard := range journal.Partitions {
		have := shardCounts{swept: true}
		for i := range 3000 {
			have.add(counted{stored: true, tenant: tenant{uint64(i + 2), uint64(i + 2)}}, 1)
		}
		for range 1000 {
			have.add(counted{stored: true, tenant: greedy}, 1)
		}
		p.set(shard, have)
		if n := len(p.shards[shard].sites) + len(p.shards[shard].requesters); n > 2*faintDivisor {
			t.Fatalf("%d are remembered of a shard", n)
		}
	}
	p.most = 256 * 4000
	if reason := p.refusal(greedy); reason != noPlace {
		t.Errorf("at the total: %q", reason)
	}
	p.most *= 2
	if reason := p.refusal(p.tenant("https://new.example/", 5)); reason != "" {
		t.Errorf("somebody new: %q", reason)
	}
	p.most = 256*4000 + 1
	if reason := p.refusal(greedy); reason != noQuota {
		t.Errorf("who has a quarter: %q", reason)
	}
}

// A place is reserved while a new subscription is being stored: others at the same moment
// do not get it, and after a release they do.
func TestReservedPlaces(t *testing.T) {
	c := newCounts(8, false, func(int) bool { return true })
	id := func(i int) uuid.UUID { return ID(topic, from(i)) }
	one := func(i int) tenant { return c.tenant(from(i), uint64(i)+1) }
	for i := range 8 {
		if reason := c.reserve(id(i), one(i)); reason != "" {
			t.Fatalf("number %d: %q", i, reason)
		}
	}
	if reason := c.reserve(id(8), one(8)); reason != noPlace {
		t.Errorf("one more than may be: %q", reason)
	}
	c.release(id(0))
	if reason := c.reserve(id(8), one(8)); reason != "" {
		t.Errorf("after a release: %q", reason)
	}
	for i := range 7 {
		c.release(id(i))
	}
	if reason := c.reserve(id(9), one(9)); reason != "" {
		t.Errorf("one of the same site: %q", reason)
	}
	if reason := c.reserve(id(10), tenant{one(9).site, 11}); reason != "" {
		t.Errorf("the second of a site: %q", reason)
	}
	if reason := c.refusal(tenant{one(9).site, 12}); reason != noQuota {
		t.Errorf("the third of a site: %q", reason)
	}
}

// A subscription has one place at every moment, also between its storing and the end of its
// reservation. Else somebody is denied though there is a place.
func TestReservationIsCountedOnce(t *testing.T) {
	c, now := newCounts(2, false, func(int) bool { return true }), time.Now()
	callbacks := []string{"https://a.example/", "https://b.example/"}
	for i, callback := range callbacks {
		id := ID(topic, callback)
		if reason := c.reserve(id, c.tenant(callback, 0)); reason != "" {
			t.Fatalf("subscription %d is denied: %s", i, reason)
		}
		c.changed(id, Record{}, Record{Subscription: &Subscription{ID: id, Topic: topic, Callback: callback, ExpiresAt: now.Add(time.Hour)}}, now)
		defer c.release(id)
	}
	if reason := c.reserve(ID(topic, "https://c.example/"), c.tenant("https://c.example/", 0)); reason != noPlace {
		t.Errorf("a third one: %q", reason)
	}
}
