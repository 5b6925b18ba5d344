package delivery

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/journal"
)

// A LagReport has the states of all subscriptions and how far they are behind, without a request
// for it, and follows each change.
func TestCensus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		for n := range 3 {
			b.subscribe(topicA, cb(n))
		}
		never := b.subscribe(topicB, cb(3))
		b.set(cb(1), down)
		b.set(cb(2), down)
		if got := b.d.LagReport(); got != (LagReport{}) {
			t.Errorf("before the start: %+v", got)
		}
		b.run()
		defer b.end()
		for n := range 12 {
			b.publish(t, topicA, fmt.Appendf(nil, "%d", n))
			pass(time.Minute)
		}
		expired := never
		expired.ExpiresAt = time.Now()
		b.tell(expired)
		pass(lagEvery)

		c := b.d.LagReport()
		if c.Active != 1 || c.Failing != 2 || c.Expired != 1 {
			t.Errorf("%d active, %d failing, %d expired", c.Active, c.Failing, c.Expired)
		}
		if want := [...]uint64{1, 1, 1, 3, 3, 3}; c.Lags != want || c.LagSum != 24 {
			t.Errorf("lags %v, %d in all", c.Lags, c.LagSum)
		}
		if c.Longest != 12*time.Minute+lagEvery-time.Since(c.At) || c.Oldest != c.Longest || c.SpanSum != 2*c.Oldest {
			t.Errorf("the longest failure %v, the oldest lag %v, %v in all", c.Longest, c.Oldest, c.SpanSum)
		}
		if want := [...]uint64{1, 1, 1, 3, 3, 3, 3}; c.LagSpans != want {
			t.Errorf("times %v", c.LagSpans)
		}
		b.set(cb(1), nil)
		b.set(cb(2), nil)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if b.d.lags.measure(ended); b.d.LagReport() != c {
			t.Error("a lags that was not ended is shown")
		}
		pass(time.Hour)
		if c := b.d.LagReport(); c.Active != 3 || c.Failing != 0 || c.Lags[0] != 3 || c.LagSum != 0 || c.Oldest != 0 || c.Longest != 0 {
			t.Errorf("when all got all: %+v", c)
		}
	})
}

// The lag of one that got something before is what the topic's `until` went on by
// since.
func TestLagIsCountedFromWhatWasGot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.subscribe(topicA, cb(0))
		b.run()
		defer b.end()
		one := b.publish(t, topicA, []byte("one"))
		pass(time.Second)
		b.set(cb(0), down)
		b.publish(t, topicA, []byte("two"))
		three := b.publish(t, topicA, []byte("three"))
		pass(2 * lagEvery)
		if c := b.d.LagReport(); c.Undelivered <= 0 || c.LagSum != 2 || c.Oldest != three.Until.Sub(one.Until) || c.Oldest <= 0 {
			t.Errorf("%d notifications, %v", c.LagSum, c.Oldest)
		}
	})
}

// Notifications that retention trims while their subscriptions fail do not count as lag any more, a
// moment later and without another notification.
func TestLagIsWithoutWhatRetentionTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.subscribe(topicA, cb(0))
		b.subscribe(topicB, cb(1))
		b.run()
		defer b.end()
		b.publish(t, topicA, []byte("got"))
		pass(time.Second)
		b.set(cb(0), down)
		b.set(cb(1), down)
		var entries []journal.Entry
		for range 5 {
			entries = append(entries, b.publish(t, topicA, []byte("not got")))
			pass(time.Minute)
		}
		b.publish(t, topicB, []byte("the first, not got"))
		pass(7 * time.Hour) // nothing is tried for a while
		if c := b.d.LagReport(); c.LagSum != 6 || c.Oldest < 4*time.Minute || c.Failing != 2 || c.Slowest[1].Topic == "" {
			t.Errorf("before: %+v", c)
		}
		b.trim(topicA, entries[2].Seq)
		pass(3 * lagEvery)
		c := b.d.LagReport()
		if want := entries[4].Until.Sub(entries[2].Until); c.LagSum != 3 || c.Slowest[1].Behind != 2 || c.Slowest[1].Span != want || c.Failing != 2 {
			t.Errorf("retention took three: %d notifications behind, %+v, want %v", c.LagSum, c.Slowest[:2], want)
		}
		b.trim(topicA, entries[4].Seq)
		pass(3 * lagEvery)
		if c := b.d.LagReport(); c.LagSum != 1 || c.Slowest[0].Topic != topicB || c.Slowest[1].Topic != "" {
			t.Errorf("retention took all: %d notifications behind, %+v", c.LagSum, c.Slowest[:2])
		}
	})
}

// A lags of many lanes in many chunks counts each once, while others come and go.
func TestCensusOfManyLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		for n := range 5 * chunk {
			b.subscribe(fmt.Sprintf("https://source.example/%d", n%7), cb(n))
		}
		b.run()
		defer b.end()
		pass(time.Second)
		if c := b.d.LagReport(); c.Active != 5*chunk || c.Lags[0] != 5*chunk {
			t.Errorf("%+v", c)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for n := range 200 {
				s := b.subscribe(topicA, cb(n))
				b.d.Apply(s)
				s.EndedAt = time.Now()
				b.d.Apply(s)
			}
		}()
		for range 20 {
			b.d.lags.measure(t.Context())
			if c := b.d.LagReport(); c.Active < 5*chunk || c.Active > 5*chunk+200 {
				t.Errorf("%d active", c.Active)
			}
		}
		<-done
	})
}

// A LagReport is finished even if the lanes of a topic are removed during the walk.
func TestCensusWhileLanesGo(t *testing.T) {
	for range 20 {
		b := newBed(t, single)
		for n := range 6 * chunk {
			b.subscribe(topicA, cb(n))
		}
		b.take()
		var both sync.WaitGroup
		b.d.only().mu.Lock()
		both.Go(func() { b.d.lags.measure(t.Context()) })
		both.Go(func() {
			b.d.only().mu.Lock()
			defer b.d.only().mu.Unlock()
			b.removeAll()
		})
		b.d.only().mu.Unlock()
		both.Wait()
		if c := b.d.LagReport(); c.Active > 6*chunk || c.At.IsZero() {
			t.Errorf("%+v", c)
		}
	}
}

// How far a lane is behind, also where the head of its topic is not known yet, or
// was lost.
func TestLag(t *testing.T) {
	at := func(seq uint64, until int64) anchor {
		return anchor{position: journal.Position(seq), seq: seq, until: until}
	}
	for _, tc := range []struct {
		name   string
		topic  *topicLanes
		cursor cursor
		n      uint64
		span   time.Duration
	}{
		{"the head is not known", &topicLanes{}, cursor{}.at(at(5, 50)), 0, 0},
		{"the head was lost", &topicLanes{known: true, head: at(3, 30)}, cursor{}.at(at(5, 50)), 0, 0},
		{"at the head", &topicLanes{known: true, head: at(5, 50)}, cursor{}.at(at(5, 50)), 0, 0},
		{"behind", &topicLanes{known: true, head: at(7, 80)}, cursor{}.at(at(5, 50)), 2, 30 * time.Second},
		{"nothing was got", &topicLanes{known: true, head: at(7, 80)}, cursor{}, 7, 0},
		{"nothing was got, and one failed", &topicLanes{known: true, head: at(7, 80)}, cursor{first: 40}, 7, 60},
		{"time went back", &topicLanes{known: true, head: at(7, 20)}, cursor{}.at(at(5, 50)), 2, 0},
		{"retention took some", &topicLanes{known: true, head: at(7, 80), trimmed: at(6, 60)}, cursor{}.at(at(2, 20)), 1, 20 * time.Second},
	} {
		l := lane{topic: tc.topic, cursor: tc.cursor}
		if n, span := l.lag(100); n != tc.n || span != tc.span {
			t.Errorf("%s: %d, %v", tc.name, n, span)
		}
	}
}

func TestUndelivered(t *testing.T) {
	at := func(seq, second uint64) anchor {
		return anchor{position: journal.Position(second * 1e9), seq: seq, until: int64(second)}
	}
	heard := &topicLanes{known: true, head: at(7, 80)}
	second := int64(time.Second)
	for name, tc := range map[string]struct {
		cursor cursor
		want   time.Duration
	}{
		"got all":                       {cursor{}.at(at(7, 80)), 0},
		"all but the newest":            {cursor{}.at(at(6, 10)), 20 * time.Second},
		"all but some":                  {cursor{}.at(at(5, 50)), 50 * time.Second},
		"the next one failed":           {cursor{first: 70 * second}.at(at(5, 50)), 30 * time.Second},
		"nothing, and none was tried":   {cursor{}, 20 * time.Second},
		"nothing, and the first failed": {cursor{first: 60 * second}, 40 * time.Second},
		"the newest, by a clock ahead":  {cursor{}.at(at(6, 110)), 20 * time.Second},
		"some, by a clock ahead":        {cursor{}.at(at(5, 110)), 0},
	} {
		l := lane{topic: heard, cursor: tc.cursor}
		if got := l.waits(100 * second); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
	some := &topicLanes{known: true, head: at(7, 80), trimmed: at(5, 50)}
	for _, c := range []cursor{cursor{}.at(at(2, 20)), cursor{first: 30 * second}.at(at(2, 20)), {}, {first: 30 * second}} {
		l := lane{topic: some, cursor: c}
		if got := l.waits(100 * second); got != 50*time.Second {
			t.Errorf("retention took what %+v waits for: %v", c, got)
		}
	}
}

// The subscribers of a topic with a lease in force are counted, also while others leave.
func TestSubscribers(t *testing.T) {
	b := newBed(t, single)
	b.take()
	for n := range 6 * chunk {
		s := b.subscribe(topicA, cb(n))
		if n%2 == 0 {
			s.ExpiresAt = time.Now()
		}
		b.d.Apply(s)
	}
	if n := b.d.Subscribers(topicA); n != 3*chunk {
		t.Errorf("%d subscribers, want %d", n, 3*chunk)
	}
	if n := b.d.Subscribers(topicB); n != 0 {
		t.Errorf("%d subscribers of a topic without any", n)
	}
	var both sync.WaitGroup
	counting := make(chan struct{}, 20)
	for range cap(counting) {
		both.Go(func() {
			for b.d.Subscribers(topicA) > 0 {
				select {
				case counting <- struct{}{}:
				default:
				}
			}
		})
	}
	<-counting
	b.d.only().mu.Lock()
	b.removeAll()
	b.d.only().mu.Unlock()
	both.Wait()
}

// The lists of the worst are bounded, in order, and name those that are the worst.
func TestWorstAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		for n := range Worst + 5 {
			b.subscribe(topicA, cb(n))
			b.set(cb(n), down)
		}
		slow := b.subscribe(topicB, cb(99))
		b.run()
		defer b.end()
		b.publish(t, topicB, []byte("got"))
		pass(time.Minute)
		b.set(cb(99), down)
		first := time.Now()
		b.publish(t, topicB, []byte("not got"))
		pass(time.Hour)
		b.publish(t, topicA, []byte("x"))
		pass(2 * lagEvery)
		c := b.d.LagReport()
		worst := c.Failed[0]
		if worst.ID != slow.ID || worst.Topic != topicB || worst.Callback != cb(99) || worst.Behind != 1 || worst.Status != journal.StatusTimeout ||
			worst.Since.Sub(first) > time.Second || !worst.NextAt.After(time.Now()) || worst.Attempt < 5 || !worst.Suspect {
			t.Errorf("the one that failed the longest: %+v", worst)
		}
		for i := range Worst {
			if f, s := c.Failed[i], c.Slowest[i]; f.Topic == "" || s.Topic == "" || i > 0 && (f.Since.Before(c.Failed[i-1].Since) || s.Span > c.Slowest[i-1].Span) {
				t.Errorf("%d: %+v, %+v", i, f, s)
			}
		}
		// Each callback is at a host of its own: the one that failed first is ahead of the others.
		for i, h := range c.Hosts {
			if h.Failing != 1 || (h.Name == "h99.example:80") != (i == 0) || i == 0 && (!h.Since.Equal(worst.Since) || h.Status != journal.StatusTimeout || !h.Suspect) {
				t.Errorf("host %d: %+v", i, h)
			}
		}
		b.set(cb(99), nil)
		pass(time.Hour)
		if c := b.d.LagReport(); c.Failed[0].Topic == topicB || c.Slowest[0].Topic == topicB {
			t.Errorf("one that got all: %+v", c.Failed[0])
		}
	})
}

// The next walk leaves the hub time for other things. It comes soon even after a walk during which
// the machine slept: the alert RshubStuck fires after two minutes without one.
func TestWalksGoOn(t *testing.T) {
	for walk, want := range map[time.Duration]time.Duration{
		0: 5 * time.Second, 100 * time.Millisecond: 5 * time.Second, 200 * time.Millisecond: 10 * time.Second, time.Second: 50 * time.Second,
		2 * time.Second: time.Minute, 1 << 62: time.Minute,
	} {
		if got := lagWait(walk); got != want {
			t.Errorf("after %v: %v, want %v", walk, got, want)
		}
	}
}
