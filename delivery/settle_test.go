package delivery

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// Invariant 7: after a crash at any moment no more is delivered again than was in
// flight, plus two groups. The store stands still while deliveries go on; what
// was delivered by then and not stored is what a crash would repeat.
func TestDuplicatesOfACrashAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const inFlight, group = 50, 100
		b := newBed(t, func(o *Options) { o.MaxInflight, o.CommitEvery = inFlight, group })
		for n := range 40 {
			b.subscribe(topicA, cb(n))
			b.set(cb(n), takes(time.Millisecond))
		}
		var crashed atomic.Bool
		b.failCommit = func() error {
			if crashed.Load() {
				return errStore
			}
			return nil
		}
		b.run()
		for range 100 {
			b.publish(t, topicA, []byte("x"))
		}
		pass(20 * time.Millisecond)
		crashed.Store(true)
		pass(10 * time.Second)
		delivered := len(b.delivered())
		stored := 0
		b.memory.mu.Lock()
		for r := range b.memory.all() {
			stored += int(r.Subscription.Cursor.Seq)
		}
		b.memory.mu.Unlock()
		if d := delivered - stored; d > inFlight+2*group {
			t.Errorf("%d deliveries not stored, over %d in flight and two groups of %d", d, inFlight, group)
		} else if d < 2*group {
			t.Errorf("%d deliveries not stored: the test does not reach the bound", d)
		}
		if delivered == 4000 {
			t.Error("delivery did not wait for the store")
		}
		// When the store is back, delivery goes on.
		crashed.Store(false)
		pass(time.Minute)
		if got := len(b.delivered()); got != 4000 {
			t.Errorf("%d delivered", got)
		}
		b.end()
		for r := range b.memory.all() {
			if r.Subscription.Cursor.Seq != 100 {
				t.Errorf("stored %+v", r.Subscription.Cursor)
			}
		}
	})
}

// A result is stored within the window, and many of one subscription are one
// commit.
func TestGroupCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		sub := b.subscribe(topicA, cb(0))
		b.run()
		defer b.end()
		synctest.Wait()
		for range 50 {
			b.publish(t, topicA, []byte("x"))
			pass(time.Millisecond)
		}
		pass(40 * time.Millisecond)
		if _, commits := b.asked(); commits != 0 {
			t.Errorf("%d groups were written after 90 ms", commits)
		}
		pass(20 * time.Millisecond)
		if s, _ := b.stored(sub); b.commits != 1 || s.Cursor.Seq != 50 || len(b.history[0]) != 1 {
			t.Errorf("%d groups after 110 ms, stored up to %d", b.commits, s.Cursor.Seq)
		}
	})
}

// The store is given the same commits again until it takes them.
func TestCommitIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		sub := b.subscribe(topicA, cb(0))
		failures := 5
		b.failCommit = func() error {
			if failures--; failures >= 0 {
				return errStore
			}
			return nil
		}
		b.run()
		defer b.end()
		one := b.publish(t, topicA, []byte("one"))
		pass(b.d.o.Sweep + time.Second) // also where the hint came before anybody listened
		two := b.publish(t, topicA, []byte("two"))
		pass(time.Minute)
		b.wantOrder(cb(0), one, two)
		if s, _ := b.stored(sub); s.Cursor.Seq != 2 || b.commits != 2 {
			t.Errorf("stored %+v in %d commits", s.Cursor, b.commits)
		}
	})
}

func TestResultsAreJoined(t *testing.T) {
	sub := subscriptions.ID("t", "c")
	at := func(gen uint64, seq uint64, attempt uint32) journal.Cursor {
		return journal.Cursor{Generation: gen, Anchor: journal.Anchor{Position: journal.Position(seq), Seq: seq}, Attempt: attempt}
	}
	gap := func(n int) journal.Gap {
		return journal.Gap{From: time.Unix(int64(n), 0), Until: time.Unix(int64(n)+1, 0), Count: 1, Reason: journal.GapGaveUp}
	}
	var r results
	r.add(subscriptions.Commit{ID: sub, Cursor: at(1, 5, 1), Attempts: []subscriptions.Attempt{{Number: 1}}})
	r.add(subscriptions.Commit{ID: sub, Cursor: at(1, 6, 0), Gaps: []journal.Gap{gap(6)}})
	r.add(subscriptions.Commit{ID: sub, Cursor: at(1, 7, 0), Gaps: []journal.Gap{gap(7)}})
	r.add(subscriptions.Commit{ID: sub, Cursor: at(2, 3, 0)})
	r.add(subscriptions.Commit{ID: sub, Cursor: at(2, 4, 0), End: subscriptions.EndGone})
	r.add(subscriptions.Commit{ID: sub, Cursor: at(3, 4, 0)})
	want := []subscriptions.Commit{
		{
			ID: sub, Cursor: at(1, 7, 0), Attempts: []subscriptions.Attempt{{Number: 1}},
			Gaps: []journal.Gap{{From: time.Unix(6, 0), Until: time.Unix(8, 0), Count: 2, Reason: journal.GapGaveUp}},
		},
		{ID: sub, Cursor: at(2, 4, 0), End: subscriptions.EndGone},
		{ID: sub, Cursor: at(3, 4, 0)},
	}
	if d := cmp.Diff(want, r.commits); d != "" || r.n != 6 {
		t.Errorf("%d results:\n%s", r.n, d)
	}
	for n := range 2 * subscriptions.MaxAttempts {
		r.add(subscriptions.Commit{ID: sub, Cursor: at(3, 4, uint32(n+1)), Attempts: []subscriptions.Attempt{{Number: uint32(n + 1)}}})
	}
	if last := r.commits[len(r.commits)-1].Attempts; len(last) != subscriptions.MaxAttempts || last[len(last)-1].Number != 2*subscriptions.MaxAttempts {
		t.Errorf("%d attempts are kept", len(last))
	}
}

// At the end what is in flight gets up to Drain; what takes longer is cut off,
// which is no failed attempt; the cursors are stored.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, func(o *Options) { o.Drain = 5 * time.Second })
		quick := b.subscribe(topicA, cb(0))
		slow := b.subscribe(topicA, cb(1))
		b.set(cb(0), takes(3*time.Second))
		b.set(cb(1), takes(10*time.Second))
		b.run()
		one := b.publish(t, topicA, []byte("one"))
		b.publish(t, topicA, []byte("two"))
		pass(time.Second)
		start := time.Now()
		b.end()
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("draining took %v", took)
		}
		b.wantOrder(cb(0), one)
		if n := len(b.attempts(cb(0))); n != 1 {
			t.Errorf("%d attempts: a new one was made while draining", n)
		}
		if s, _ := b.stored(quick); s.Cursor.Seq != 1 {
			t.Errorf("stored %+v", s.Cursor)
		}
		if s, attempts := b.stored(slow); s.Cursor.Seq != 0 || s.Cursor.Attempt != 0 || len(attempts) != 0 {
			t.Errorf("what was cut off was stored: %+v %+v", s.Cursor, attempts)
		}
	})
}

// With nothing in flight the end takes no time.
func TestDrainOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.subscribe(topicA, cb(0))
		b.set(cb(0), answers(500))
		b.run()
		b.publish(t, topicA, []byte("one"))
		pass(time.Second)
		start := time.Now()
		b.end()
		if took := time.Since(start); took != 0 {
			t.Errorf("it took %v", took)
		}
	})
}

// A store that is down at the end is tried for a while, and the loss is said.
func TestDrainWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, func(o *Options) { o.MaxInflight, o.CommitEvery = 10, 10 })
		for n := range 100 {
			b.subscribe(topicA, cb(n), served)
		}
		b.failCommit = func() error { return errStore }
		b.run()
		b.publish(t, topicA, []byte("one"))
		pass(time.Minute)
		if st := b.d.Stats(); st.InFlight != 10 || st.Uncommitted != 20 {
			t.Errorf("%+v", st)
		}
		start := time.Now()
		err := b.stop()
		if !errors.Is(err, errStore) || !strings.Contains(fmt.Sprint(err), "30 deliveries") {
			t.Errorf("Run returned %v", err)
		}
		if took := time.Since(start); took != b.d.o.Drain+flushTimeout {
			t.Errorf("it took %v", took)
		}
	})
}

func TestOptions(t *testing.T) {
	m := newMemory()
	for name, o := range map[string]Options{
		"no journal":       {Subscriptions: m, Client: newWire(), HubURL: "http://hub/"},
		"no subscriptions": {Journal: m, Client: newWire(), HubURL: "http://hub/"},
		"no client":        {Journal: m, Subscriptions: m, HubURL: "http://hub/"},
		"no hub":           {Journal: m, Subscriptions: m, Client: newWire()},
		"bad signature":    {Journal: m, Subscriptions: m, Client: newWire(), HubURL: "http://hub/", Signature: "md5"},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := New(Options{Journal: m, Subscriptions: m, Client: newWire(), HubURL: "http://hub/", Log: zap.NewNop()}); err != nil {
		t.Error(err)
	}
}
