package delivery

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// Everything published is delivered to everyone in the order of publishing,
// whether subscribed before or after the Dispatcher started, and committed.
func TestDeliversInOrder_HUB41(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		var subs []subscriptions.Subscription
		for n := range 20 {
			subs = append(subs, b.subscribe(topicA, cb(n)))
		}
		var all []journal.Entry
		for n := range 3 {
			all = append(all, b.publish(t, topicA, fmt.Append(nil, "before ", n)))
		}
		b.run()
		for n := range 30 {
			all = append(all, b.publish(t, topicA, fmt.Append(nil, "after ", n)))
			pass(time.Duration(n) * time.Millisecond)
		}
		late := b.subscribe(topicA, cb(20))
		b.d.Apply(late)
		next := b.publish(t, topicA, []byte("next"))
		pass(time.Second)
		for n := range 20 {
			b.wantOrder(cb(n), append(slices.Clone(all), next)...)
		}
		b.wantOrder(cb(20), next)
		if got := b.at(cb(0))[0].body; got != "before 0" {
			t.Errorf("body %q", got)
		}
		b.end()
		for _, sub := range subs {
			if s, attempts := b.stored(sub); s.Cursor.Seq != 34 || s.Cursor.LastStatus != 200 || attempts != nil {
				t.Errorf("stored: %+v, attempts %+v", s.Cursor, attempts)
			}
		}
	})
}

// Ten callbacks that hang and ten that drip, among a thousand. They do not delay the healthy ones
// at all, neither at first nor when the slow ones are tried again. Virtual time passes only while
// everything waits, so a delivery that nothing delayed begins in the instant of the publish.
func TestSlowCallbacksDoNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		for n := range 1000 {
			b.subscribe(topicA, cb(n))
			switch n % 100 {
			case 7:
				b.set(cb(n), hangs)
			case 57:
				b.set(cb(n), drips)
			}
		}
		b.run()
		defer b.end()
		synctest.Wait()
		var published []time.Time
		for range 40 {
			published = append(published, time.Now())
			b.publish(t, topicA, []byte("x"))
			pass(7 * time.Second)
		}
		for n := range 1000 {
			if n%50 == 7 {
				continue
			}
			for i, r := range b.at(cb(n)) {
				if late := r.at.Sub(published[i]); late != 0 {
					t.Fatalf("delivery %d to %s came %v late", i, cb(n), late)
				}
			}
			if got := len(b.at(cb(n))); got != len(published) {
				t.Fatalf("%s got %d", cb(n), got)
			}
		}
		if got := len(b.attempts(cb(7))); got < 4 {
			t.Errorf("%d attempts at a callback that hangs", got)
		}
	})
}

// A topic with 30,000 lanes does not delay a topic with one lane. That one has its turn as soon as
// a sender is free.
func TestLargeTopicDoesNotDelaySmallOne(t *testing.T) {
	const large = 30_000
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.quiet = true
		for n := range large {
			b.d.Apply(b.subscribe(topicA, fmt.Sprintf("http://h%d.example/%d", n%1000, n)))
		}
		b.d.Apply(b.subscribe(topicB, "http://small.example/cb"))
		var published, small time.Time
		b.d.sender.client.poster = over(&hook{b.wire, func(r *http.Request) {
			if r.URL.Host == "small.example" {
				small = time.Now()
			}
			time.Sleep(time.Millisecond)
		}})
		b.run()
		defer b.end()
		synctest.Wait()
		b.publish(t, topicA, []byte("large"))
		pass(10 * time.Millisecond) // it is in full swing
		published = time.Now()
		b.publish(t, topicB, []byte("small"))
		pass(10 * time.Millisecond)
		if d := b.d.Stats().Delivered; d > large*2/3 {
			t.Fatalf("%d deliveries: the large topic is done already", d)
		}
		if late := small.Sub(published); small.IsZero() || late > 2*time.Millisecond {
			t.Errorf("the small topic's delivery began %v late", late)
		}
		pass(time.Second)
		if d := b.d.Stats().Delivered; d != large+1 {
			t.Errorf("%d deliveries", d)
		}
	})
}

// A small topic has its callback at a host that large topics share. It has its turn there in time,
// even while all senders are busy with the other hosts of the large topics.
func TestSmallTopicAtSharedHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, single, func(o *Options) { o.MaxInflight = 128 })
		const large, fanOut = 16, 300
		for topic := range large {
			for n := range fanOut {
				host := fmt.Sprintf("h%d.example", n)
				b.subscribe(fmt.Sprint(topicA, topic), fmt.Sprintf("http://%s/%d", host, topic), served)
				b.set(host, takes(100*time.Millisecond))
			}
			b.subscribe(fmt.Sprint(topicA, topic), fmt.Sprintf("http://shared.example/%d", topic), served)
		}
		small := b.subscribe(topicB, "http://shared.example/small", served)
		b.set("shared.example", takes(100*time.Millisecond))
		b.run()
		defer b.end()
		synctest.Wait()
		for topic := range large {
			b.publish(t, fmt.Sprint(topicA, topic), []byte("large"))
		}
		pass(150 * time.Millisecond) // they are in full swing
		published := time.Now()
		b.publish(t, topicB, []byte("small"))
		pass(10 * time.Second)
		got := b.attempts(small.Callback)
		// 17 topics share eight places.
		if len(got) != 1 || got[0].at.Sub(published) > 4*100*time.Millisecond {
			t.Errorf("it was sent %d times, first after %v", len(got), got[0].at.Sub(published))
		}
		if last := b.everything()[large*(fanOut+1)]; last.at.Sub(published) < 3*time.Second {
			t.Errorf("the large topics were done after %v", last.at.Sub(published))
		}
	})
}

// hook is called for each request on its way to a transport.
type hook struct {
	Doer
	before func(*http.Request)
}

func (h *hook) Do(r *http.Request) (*http.Response, error) {
	h.before(r)
	return h.Doer.Do(r)
}

// At the head of a topic 10,000 lanes read the store once, and not at all where this hub has stored the entry.
func TestHeadIsReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		for n := range 10_000 {
			b.subscribe(topicA, fmt.Sprintf("http://h%d.example/%d", n%100, n))
		}
		b.quiet = true
		b.run()
		defer b.end()
		synctest.Wait()
		for range 3 {
			b.publish(t, topicA, []byte("x"))
			pass(time.Second)
		}
		if st := b.d.Stats(); st.Delivered != 30_000 || b.reads != 1 { // of the second, of another hub
			t.Errorf("%d delivered, %d reads of the store", st.Delivered, b.reads)
		}
	})
}

// Without a single hint the sweep finds what is new, of topics and of
// subscriptions.
func TestSweepIsTheGuarantee(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, sweeping)
		b.mute = true
		sub := b.subscribe(topicA, cb(0))
		b.run()
		defer b.end()
		synctest.Wait()
		one := b.publish(t, topicA, []byte("one"))
		b.subscribe(topicA, cb(1)) // through another hub
		pass(6 * time.Second)
		b.wantOrder(cb(0), one)
		two := b.publish(t, topicA, []byte("two"))
		pass(6 * time.Second)
		b.wantOrder(cb(0), one, two)
		b.wantOrder(cb(1), two)

		sub.EndedAt = time.Now()
		b.memory.mu.Lock()
		b.store(subscriptions.Record{Subscription: &sub})
		b.memory.mu.Unlock()
		pass(6 * time.Second)
		b.publish(t, topicA, []byte("three"))
		pass(6 * time.Second)
		b.wantOrder(cb(0), one, two)
	})
}

// The limits are kept: one exchange at a time for a subscription, and so many for a host and for
// the hub.
func TestLimits(t *testing.T) {
	for _, tc := range []struct{ inFlight, all, host int }{{20, 20, 8}, {100, 33, 8}, {1, 1, 1}} {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t, func(o *Options) { o.MaxInflight = tc.inFlight })
			for n := range 100 {
				host := fmt.Sprintf("h%d.example", n%4)
				b.subscribe(topicA, fmt.Sprintf("http://%s/%d", host, n))
				b.subscribe(topicB, fmt.Sprintf("http://%s/%d", host, n))
				b.set(host, takes(time.Second))
			}
			b.subscribe(topicA, "http://one.example/")
			b.set("one.example", takes(time.Second))
			b.run()
			defer b.end()
			for range 3 {
				b.publish(t, topicA, []byte("a"))
				b.publish(t, topicB, []byte("b"))
			}
			pass(11 * time.Minute)
			if st := b.d.Stats(); st.Delivered != 603 || st.InFlight != 0 || st.Ready != 0 {
				t.Errorf("%+v", st)
			}
			if b.most[""] != tc.all || b.most["h0.example"] > tc.host || b.most["one.example"] != 1 {
				t.Errorf("at once: %v, want %d and no more than %d for a host", b.most, tc.all, tc.host)
			}
		})
	}
}

// Topics take turns, however many lanes each has.
func TestTopicsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, single, func(o *Options) { o.MaxInflight = 1 })
		for n := range 50 {
			b.subscribe(topicA, cb(n))
			b.set(cb(n), takes(time.Second))
			if n < 5 {
				b.subscribe(topicB, cb(n)+"/b")
				b.set(cb(n)+"/b", takes(time.Second))
			}
		}
		b.run()
		defer b.end()
		synctest.Wait()
		b.publish(t, topicA, []byte("a"))
		b.publish(t, topicB, []byte("b"))
		pass(12 * time.Second)
		if st := b.d.Stats(); st.Lanes-st.Ready-st.InFlight < 10 {
			t.Errorf("%+v", st)
		}
		for n := range 5 {
			if len(b.attempts(cb(n)+"/b")) != 1 {
				t.Errorf("lane %d of the small topic did not get its turn", n)
			}
		}
	})
}

// Of a host's slots, lanes that try again get no more than half, rounded up.
func TestRetriesGetHalfOfAHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, func(o *Options) { o.PerHost = 5 })
		const host = "h.example"
		retries, most := 0, 0
		b.set(host, answers(500))
		slow := func(r *http.Request, _ []byte) (*http.Response, error) {
			again := attemptOf(r) > 1
			count := func(by int) {
				b.wire.mu.Lock()
				defer b.wire.mu.Unlock()
				if again {
					retries += by
					most = max(most, retries)
				}
			}
			count(1)
			defer count(-1)
			return takes(time.Second)(r, nil)
		}
		for n := range 30 {
			b.subscribe(topicA, fmt.Sprintf("http://%s/%d", host, n))
		}
		b.run()
		defer b.end()
		b.publish(t, topicA, []byte("a"))
		pass(time.Second)
		b.set(host, slow)
		fresh := fmt.Sprintf("http://%s/fresh", host)
		b.d.Apply(b.subscribe(topicB, fresh))
		pass(4500 * time.Millisecond) // the retries are under way
		b.publish(t, topicB, []byte("b"))
		synctest.Wait()
		if len(b.attempts(fresh)) != 1 {
			t.Error("a first attempt had to wait for retries")
		}
		pass(time.Minute)
		if most != 3 {
			t.Errorf("%d retries at once at a host of 5 slots, want 3", most)
		}
		if st := b.d.Stats(); st.Delivered != 31 {
			t.Errorf("%+v", st)
		}
	})
}

// A hint that says which entry came after which one is as good as a read of the head. One that does not follow what is
// known, because it was overtaken or something was lost, only has the head read.
func TestHintsHaveTheHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.subscribe(topicA, cb(0))
		b.run()
		synctest.Wait()
		reads := func() int {
			b.memory.mu.Lock()
			defer b.memory.mu.Unlock()
			return b.memory.heads
		}
		before := reads()
		one := b.publish(t, topicA, []byte("one"))
		synctest.Wait()
		if n := reads() - before; n > 0 {
			t.Errorf("the head was read %d times", n)
		}
		b.memory.mute = true
		two, three := b.publish(t, topicA, []byte("two")), b.publish(t, topicA, []byte("three"))
		third := journal.Hint{Topic: topicA, After: two.Anchor(), Entry: &three}
		for _, h := range []journal.Hint{third, {Topic: topicA, After: one.Anchor(), Entry: &two}, third} {
			b.d.heads.hint(h)
			synctest.Wait()
			b.d.sched.ofTopic(b.d.sched.topics.get(topicA), func(_ *scheduler, lanes *topicLanes) {
				if !lanes.head.same(packAnchor(three.Anchor())) {
					t.Errorf("after the hint of seq %d the head is seq %d", h.Entry.Seq, lanes.head.seq)
				}
			})
		}
		if n := reads() - before; n != 2 { // the third hint says what is known
			t.Errorf("the head was read %d times, and not 2 times", n)
		}
		if b.reads != 2 { // the first entry came with its hint; the others did not follow what was known
			t.Errorf("%d entries were read, and not 2", b.reads)
		}
		b.wantOrder(cb(0), one, two, three)
		b.end()
	})
}

// deaf is a journal with late hints: they begin only when the Dispatcher has done all that it does
// without them, and something has been published since.
type deaf struct {
	*memory
	publish func()
}

func (j *deaf) Hints(ctx context.Context, f func(journal.Hint)) {
	synctest.Wait()
	j.publish()
	j.memory.Hints(ctx, f)
}

// A notification that is published while Run starts is delivered at once: Run subscribes to hints
// before it reads a head.
func TestPublishWhileItStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var entry journal.Entry
		var store *deaf
		b := newBed(t, func(o *Options) {
			store = &deaf{}
			o.Journal = store
		})
		store.memory = b.memory
		store.publish = func() { entry = b.publish(t, topicA, []byte("one")) }
		b.subscribe(topicA, cb(0))
		b.run()
		synctest.Wait()
		b.wantOrder(cb(0), entry)
		b.end()
	})
}
