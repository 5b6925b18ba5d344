package delivery

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// hurt is a journal that cannot read some of its entries.
type hurt struct {
	Journal
	mu sync.Mutex
	// entry and body are what Read says of an entry that it would return first, and Body
	// of one; nil: nothing is wrong.
	entry, body func(topic string, e journal.Entry) error
	// away is what Read and Body say instead of anything else.
	away  error
	reads int // Read and Body of topicA
}

func (h *hurt) Read(ctx context.Context, topic string, after journal.Anchor, n int, maxBytes int64) ([]journal.Entry, error) {
	h.mu.Lock()
	h.count(topic)
	away, judge := h.away, h.entry
	h.mu.Unlock()
	time.Sleep(10 * time.Millisecond) // so that others could ask meanwhile
	if away != nil {
		return nil, away
	}
	out, err := h.Journal.Read(ctx, topic, after, n, maxBytes)
	if err == nil && len(out) > 0 && judge != nil {
		if err := judge(topic, out[0]); err != nil {
			return nil, err
		}
	}
	return out, err
}

func (h *hurt) Body(ctx context.Context, topic string, e journal.Entry) ([]byte, error) {
	h.mu.Lock()
	h.count(topic)
	away, judge := h.away, h.body
	h.mu.Unlock()
	if away != nil {
		return nil, away
	}
	if judge != nil {
		if err := judge(topic, e); err != nil {
			return nil, err
		}
	}
	return h.Journal.Body(ctx, topic, e)
}

// asked is how often entries of topicA were read since the last call.
func (h *hurt) asked() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.reads
	h.reads = 0
	return n
}

// count counts what is asked of topicA.
func (h *hurt) count(topic string) {
	if topic == topicA {
		h.reads++
	}
}

func (h *hurt) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

// damagedSeq damages one entry of topicA.
func damagedSeq(seq uint64) func(string, journal.Entry) error {
	return func(topic string, e journal.Entry) error {
		if topic == topicA && e.Seq == seq {
			return e.Damaged(errors.New("it is cut short"))
		}
		return nil
	}
}

// hurtBed is a bed on a hurt journal, with what is logged from info on.
func hurtBed(t testing.TB, more ...func(*Options)) (*bed, *hurt, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zapcore.InfoLevel)
	h := &hurt{}
	b := newBed(t, append([]func(*Options){func(o *Options) {
		h.Journal = o.Journal
		o.Journal, o.Log = h, zap.New(core)
	}}, more...)...)
	return b, h, logs
}

func giveUpAfter(d time.Duration) func(*Options) {
	return func(o *Options) { o.Policy.GiveUp = d }
}

// wantEvents complains unless these were logged, and nothing else but attempts.
func wantEvents(t testing.TB, logs *observer.ObservedLogs, want ...string) {
	t.Helper()
	var got []string
	for _, line := range logs.TakeAll() {
		if event := line.ContextMap()["event"]; event != "delivery_attempt" {
			got = append(got, fmt.Sprint(event))
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("logged %v, want %v", got, want)
	}
}

// However many lanes wait for a damaged entry, the store is asked about it only at intervals, and
// it is logged once. After --give-up each lane passes it over with a gap. Lanes that are past it
// and other topics do not wait.
func TestDamagedEntryIsPassedOver(t *testing.T) {
	const giveUp = 2 * time.Hour
	for name, c := range map[string]struct {
		lanes  int
		damage func(h *hurt)
	}{
		"an entry":     {1000, func(h *hurt) { h.entry = damagedSeq(2) }},
		"a large body": {500, func(h *hurt) { h.body = damagedSeq(2) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var damaged, gaps int
				var mu sync.Mutex
				b, h, logs := hurtBed(t, func(o *Options) {
					o.Policy.GiveUp = giveUp
					o.Damaged = func() { damaged++ }
					o.Gap = func(journal.Gap) { mu.Lock(); gaps++; mu.Unlock() }
				})
				c.damage(h)
				one := b.publish(t, topicA, []byte("one"))
				var subs []subscriptions.Subscription
				for n := range c.lanes {
					subs = append(subs, b.subscribe(topicA, fmt.Sprintf("http://h%d.example/%d", n%100, n)))
				}
				back := b.subscribe(topicA, cb(9001), func(s *subscriptions.Subscription) { s.Cursor.Anchor = journal.Anchor{} })
				two := b.publish(t, topicA, make([]byte, 100<<10))
				b.subscribe(topicA, cb(9002)) // beyond it
				b.subscribe(topicB, cb(9003))
				b.run()
				defer b.end()
				pass(time.Minute)
				b.wantOrder(cb(9001), one)
				if n := h.asked(); n > 20 {
					t.Errorf("in the first minute the store was asked %d times", n)
				}
				three := b.publish(t, topicA, []byte("three"))
				other := b.publish(t, topicB, []byte("other"))
				pass(time.Minute)
				b.wantOrder(cb(9002), three)
				b.wantOrder(cb(9003), other)
				wantEvents(t, logs, "notification_damaged")
				tr := b.d.Troubles(topicA)
				if len(tr) != 1 || !tr[0].Damaged || tr[0].Seq != 2 || tr[0].NotificationID != two.ID || tr[0].PassedOver || b.d.Stats().Damaged != 1 {
					t.Errorf("troubles %+v, stats %+v", tr, b.d.Stats())
				}
				pass(giveUp - 3*time.Minute)
				if n := h.asked(); n > 40 {
					t.Errorf("in two hours the store was asked %d times", n)
				}
				if n := len(b.delivered()); n != 3 {
					t.Errorf("%d deliveries before it was given up", n)
				}
				wantEvents(t, logs)
				pass(2 * time.Minute)
				wantEvents(t, logs, "damage_passed_over")
				gap := journal.Gap{From: one.Until, Until: two.Until, Count: 1, Reason: journal.GapDamaged}
				for n, s := range subs {
					b.wantOrder(fmt.Sprintf("http://h%d.example/%d", n%100, n), three)
					b.wantGaps(s, gap)
				}
				b.wantGaps(back, gap)
				if damaged != 1 || gaps != c.lanes+1 || b.d.Stats().Damaged != 0 {
					t.Errorf("damage was told %d times, and %d gaps; stats %+v", damaged, gaps, b.d.Stats())
				}
				// One that comes later passes over at once.
				late := b.subscribe(topicA, cb(9004), func(s *subscriptions.Subscription) { s.Cursor.Anchor = one.Anchor() })
				b.d.Apply(late)
				pass(time.Minute)
				b.wantOrder(cb(9004), three)
				b.wantGaps(late, gap)
				wantEvents(t, logs)
			})
		})
	}
}

// A store that does not answer never counts as damage, however long that lasts: nothing is passed
// over. The store is asked once per wait of a topic, wherever its lanes are, and all continue when
// it is back.
func TestStoreThatIsAwayIsNoDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, h, logs := hurtBed(t, giveUpAfter(time.Hour))
		var entries []journal.Entry
		var subs []subscriptions.Subscription
		for n := range 4 { // each lane stands elsewhere
			subs = append(subs, b.subscribe(topicA, cb(n)))
			entries = append(entries, b.publish(t, topicA, []byte("x")))
		}
		h.away = errStore
		b.run()
		defer b.end()
		pass(time.Second / 2)
		h.asked()
		pass(time.Minute)
		if n := h.asked(); n > 15 {
			t.Errorf("in a minute the store was asked %d times", n)
		}
		if tr := b.d.Troubles(topicA); len(tr) != 1 || tr[0].Damaged || !errors.Is(tr[0].Err, errStore) || b.d.Stats().Away != 1 {
			t.Errorf("troubles %+v, stats %+v", tr, b.d.Stats())
		}
		pass(10 * time.Hour)
		wantEvents(t, logs, "read_failed")
		h.set(func() { h.away = nil })
		pass(2 * storeBackoffMost)
		for n, s := range subs {
			b.wantOrder(cb(n), entries[n:]...)
			b.wantGaps(s)
		}
		wantEvents(t, logs, "read_recovered")
		if tr := b.d.Troubles(topicA); tr != nil || b.d.Stats().Away != 0 {
			t.Errorf("troubles when it was back: %+v", tr)
		}
	})
}

// 5,000 lanes of a topic that cannot be read make one line, and no more reads than one.
func TestPausesAreTheTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, h, logs := hurtBed(t)
		for n := range 5000 {
			b.subscribe(topicA, fmt.Sprintf("http://h%d.example/%d", n%100, n))
		}
		b.subscribe(topicB, cb(9000))
		b.publish(t, topicA, []byte("x"))
		h.entry = func(topic string, _ journal.Entry) error {
			if topic == topicA {
				return errStore
			}
			return nil
		}
		b.run()
		defer b.end()
		other := b.publish(t, topicB, []byte("y"))
		pass(time.Minute)
		if n := h.asked(); n > 15 {
			t.Errorf("in a minute the store was asked %d times", n)
		}
		b.wantOrder(cb(9000), other)
		wantEvents(t, logs, "read_failed")
		h.set(func() { h.entry = nil })
		pass(2 * storeBackoffMost)
		if n := len(b.delivered()); n != 5001 {
			t.Errorf("%d deliveries when it was back", n)
		}
		wantEvents(t, logs, "read_recovered")
	})
}

// A damaged entry that can be read again is delivered, to all at once, and --give-up counts from
// the first attempt.
func TestDamageIsRepaired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, h, logs := hurtBed(t, giveUpAfter(8*time.Hour))
		h.body = damagedSeq(1)
		var subs []subscriptions.Subscription
		for n := range 20 {
			subs = append(subs, b.subscribe(topicA, cb(n)))
		}
		b.set(cb(0), answers(http.StatusInternalServerError))
		one := b.publish(t, topicA, make([]byte, 100<<10))
		b.run()
		defer b.end()
		pass(7 * time.Hour)
		wantEvents(t, logs, "notification_damaged")
		h.set(func() { h.body = nil })
		// A "retry now" has the store asked at once.
		asks, _ := b.stored(subs[1])
		rec, err := subscriptions.Retry(subscriptions.Record{Subscription: &asks}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		b.tell(*rec.Subscription)
		pass(time.Second)
		for n := 1; n < 20; n++ {
			b.wantOrder(cb(n), one)
			b.wantGaps(subs[n])
		}
		wantEvents(t, logs, "damage_repaired")
		pass(7 * time.Hour)
		b.wantGaps(subs[0])
		b.set(cb(0), nil)
		pass(8 * time.Hour)
		if s, _ := b.stored(subs[0]); len(s.Gaps) == 0 && len(b.at(cb(0))) == 0 {
			t.Error("the one that failed was neither delivered nor given up")
		}
	})
}

// When damage was first seen is known after a restart.
func TestDamageIsKnownAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, h, _ := hurtBed(t, giveUpAfter(12*time.Hour))
		h.entry = damagedSeq(1)
		sub := b.subscribe(topicA, cb(0))
		one := b.publish(t, topicA, []byte("one"))
		two := b.publish(t, topicA, []byte("two"))
		b.run()
		pass(7 * time.Hour)
		b.end()
		if s, _ := b.stored(sub); s.Cursor.FirstAttemptAt.IsZero() || s.Cursor.Attempt != 0 {
			t.Errorf("stored is %+v", s.Cursor)
		}
		h2 := &hurt{Journal: b.memory, entry: damagedSeq(1)}
		again := &bed{memory: b.memory, wire: b.wire, t: t}
		o := b.d.o
		o.Journal = h2
		var err error
		if again.d, err = New(o); err != nil {
			t.Fatal(err)
		}
		again.run()
		defer again.end()
		pass(4 * time.Hour)
		again.wantOrder(cb(0))
		pass(2 * time.Hour)
		again.wantOrder(cb(0), two)
		again.wantGaps(sub, journal.Gap{From: sub.Cursor.Until, Until: one.Until, Count: 1, Reason: journal.GapDamaged})
	})
}

// If retention trims a damaged entry before --give-up, one gap says what was wrong with it, and
// another one says what was trimmed after it.
func TestDamagedEntryIsTrimmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, h, logs := hurtBed(t)
		h.entry = damagedSeq(2)
		one := b.publish(t, topicA, []byte("one"))
		sub := b.subscribe(topicA, cb(0))
		two := b.publish(t, topicA, []byte("two"))
		three := b.publish(t, topicA, []byte("three"))
		four := b.publish(t, topicA, []byte("four"))
		b.run()
		defer b.end()
		pass(time.Hour)
		b.trim(topicA, three.Seq)
		pass(time.Hour)
		b.wantOrder(cb(0), four)
		b.wantGaps(sub, journal.Gap{From: one.Until, Until: two.Until, Count: 1, Reason: journal.GapDamaged},
			journal.Gap{From: two.Until, Until: three.Until, Count: 1, Reason: journal.GapRetention})
		wantEvents(t, logs, "notification_damaged", "damage_passed_over", "delivery_gap")
	})
}

// Invariant 12: the memory of damage is bounded.
func TestDamageIsBounded(t *testing.T) {
	b := newBed(t)
	tp := &topic{url: topicA}
	tp.troubles.gone = true // it has no lanes
	for n := range journal.Position(3 * maxDamaged) {
		b.d.troubles.damageSeen(bodyKey{topic: tp, place: place{position: n}}, &journal.DamagedError{At: journal.Anchor{Position: n + 1}, Why: errStore})
	}
	if len(tp.troubles.all) != maxDamaged || len(b.d.troubles.pending) != 0 {
		t.Errorf("%d are remembered, of %d topics", len(tp.troubles.all), len(b.d.troubles.pending))
	}
	for at := range tp.troubles.all {
		if at.position < 2*maxDamaged {
			t.Fatalf("the one at %d is, and a newer one is not", at.position)
		}
	}
}

// A head that cannot be read is logged once, and once when it can be read again.
func TestHeadThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _, logs := hurtBed(t)
		b.subscribe(topicA, cb(0))
		b.failRead = func() error { return errStore }
		b.run()
		defer b.end()
		pass(time.Hour)
		wantEvents(t, logs, "head_failed")
		b.memory.mu.Lock()
		b.failRead = nil
		b.memory.mu.Unlock()
		pass(time.Minute)
		wantEvents(t, logs, "head_recovered")
		one := b.publish(t, topicA, []byte("one"))
		pass(time.Second)
		b.wantOrder(cb(0), one)
	})
}
