package delivery

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// Invariant 7: after a crash at any moment no more is delivered again than was in
// flight, plus two groups. The store stands still while deliveries go on; what
// was delivered by then and not stored is what a crash would repeat.
func TestDuplicatesOfACrashAreBounded(t *testing.T) {
	t.Run("one group commit", func(t *testing.T) { duplicatesOfACrashAreBounded(t, 1) })
	t.Run("three", func(t *testing.T) { duplicatesOfACrashAreBounded(t, 3*schedulersOfGroup) })
}

func duplicatesOfACrashAreBounded(t *testing.T, schedulers int) {
	synctest.Test(t, func(t *testing.T) {
		const inFlight, group = 50, 99
		b := newBed(t, func(o *Options) { o.Schedulers, o.MaxInflight, o.CommitEvery = schedulers, inFlight, group })
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
		// When the store is back, delivery continues.
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

// A record that the store refuses delays no other subscription. No result is lost or overtaken by a
// later one: the results of the subscription are stored when the store accepts them.
func TestRefusedCommitHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, func(o *Options) { o.CommitEvery = 4 })
		failing, ended := b.subscribe(topicA, cb(0)), b.subscribe(topicA, cb(1))
		b.set(cb(0), answers(500))
		b.set(cb(1), answers(410))
		for n := range 20 {
			b.subscribe(topicA, cb(n+2))
		}
		b.refuse = func(id uuid.UUID) error {
			if id == failing.ID || id == ended.ID {
				return errStore
			}
			return nil
		}
		b.run()
		for n := range 5 {
			b.publish(t, topicA, fmt.Append(nil, n))
			pass(time.Minute)
		}
		for n := range 20 {
			if got := len(b.at(cb(n + 2))); got != 5 {
				t.Errorf("callback %d got %d", n+2, got)
			}
		}
		if n := len(b.attempts(cb(0))); n != 1 {
			t.Errorf("%d attempts while the first of them is not stored", n)
		}
		if st := b.d.Stats(); st.Uncommitted != 2 {
			t.Errorf("%+v", st)
		}
		b.set(cb(0), nil)
		b.memory.mu.Lock()
		b.refuse = nil
		b.memory.mu.Unlock()
		pass(10 * time.Minute)
		if got := b.at(cb(0)); len(got) != 5 || string(got[0].body) != "0" {
			t.Errorf("%d delivered when the store takes it again", len(got))
		}
		b.end()
		if s, attempts := b.stored(failing); s.Cursor.Seq != 5 || len(attempts) != 2 || attempts[0].Status != 500 {
			t.Errorf("stored %+v, %+v", s.Cursor, attempts)
		}
		if s, attempts := b.stored(ended); s.EndReason != subscriptions.EndGone || len(s.Gaps) != 1 || len(attempts) != 1 {
			t.Errorf("stored %+v, %+v", s, attempts)
		}
	})
}

// Invariant 7 with a store that refuses half of the subscriptions: the refused results count among
// the two groups.
func TestDuplicatesAreBoundedWhereSomeAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const inFlight, group, lanes = 20, 50, 200
		b := newBed(t, func(o *Options) { o.MaxInflight, o.CommitEvery = inFlight, group })
		refused := make(map[uuid.UUID]bool)
		for n := range lanes {
			refused[b.subscribe(topicA, cb(n), served).ID] = n%2 == 0
		}
		b.refuse = func(id uuid.UUID) error {
			if refused[id] {
				return errStore
			}
			return nil
		}
		b.run()
		for range 10 {
			b.publish(t, topicA, []byte("x"))
		}
		for range 1000 {
			pass(100 * time.Millisecond)
			delivered, stored := len(b.delivered()), 0
			b.memory.mu.Lock()
			for r := range b.memory.all() {
				stored += int(r.Subscription.Cursor.Seq)
			}
			b.memory.mu.Unlock()
			if d := delivered - stored; d > inFlight+2*group {
				t.Fatalf("%d deliveries not stored, over %d in flight and two groups of %d", d, inFlight, group)
			}
		}
		b.memory.mu.Lock()
		b.refuse = nil
		b.memory.mu.Unlock()
		pass(time.Minute)
		if got := len(b.delivered()); got != 10*lanes {
			t.Errorf("%d delivered", got)
		}
		b.end()
	})
}

// Whatever the store does with groups, each result is stored once and in order:
// also where it stores what it says it did not.
func TestResultsAreStoredOnceAndInOrder(t *testing.T) {
	const subs, each = 5, 40
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 0))
			store := &fickle{rnd: rand.New(rand.NewPCG(seed, 1)), cursors: map[uuid.UUID]journal.Cursor{}, attempts: map[uuid.UUID][]uint32{}}
			s := newGroupCommit(store, 100*time.Millisecond, 8, zap.NewNop())
			var ids [subs]uuid.UUID
			for i := range ids {
				ids[i] = subscriptions.ID("t", cb(i))
				store.cursors[ids[i]] = journal.Cursor{Generation: 1}
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				s.run(t.Context())
			}()
			for n := range subs * each {
				c := journal.Cursor{Generation: 1 + uint64(n)/70, Anchor: journal.Anchor{Position: journal.Position(n + 1)}}
				s.add(subscriptions.Commit{ID: ids[n%subs], Cursor: c, Attempts: []subscriptions.Attempt{{Number: uint32(n / subs)}}})
				if d := s.uncommitted(); d > 2*8 {
					t.Errorf("seed %d: %d results are not stored", seed, d)
				}
				pass(time.Duration(rnd.IntN(50)) * time.Millisecond)
			}
			store.kind.Store(true)
			s.close()
			<-done
			for _, id := range ids {
				for n, number := range store.attempts[id] {
					if int(number) != n {
						t.Fatalf("seed %d: stored are %v", seed, store.attempts[id])
					}
				}
				if len(store.attempts[id]) != each || len(s.blocked) > 0 {
					t.Errorf("seed %d: %d stored, %d blocked", seed, len(store.attempts[id]), len(s.blocked))
				}
			}
		})
	}
}

// fickle is a store of cursors and of the numbers of attempts. Until it is kind, it
// names some subscriptions as not stored, of which it may have stored all, or says
// that it is away, before or after it stored all.
type fickle struct {
	rnd      *rand.Rand
	kind     atomic.Bool
	cursors  map[uuid.UUID]journal.Cursor
	attempts map[uuid.UUID][]uint32
}

func (f *fickle) Commit(_ context.Context, commits []subscriptions.Commit) error {
	failed, lost := map[uuid.UUID]error{}, map[uuid.UUID]bool{}
	mood := f.rnd.IntN(6)
	if f.kind.Load() {
		mood = 5
	}
	for _, c := range commits {
		if mood < 3 && failed[c.ID] == nil && f.rnd.IntN(3) == 0 {
			failed[c.ID], lost[c.ID] = errStore, f.rnd.IntN(2) == 0
		}
		if mood == 3 || lost[c.ID] || c.Cursor.Compare(f.cursors[c.ID]) <= 0 {
			continue
		}
		f.cursors[c.ID] = c.Cursor
		for _, a := range c.Attempts {
			f.attempts[c.ID] = append(f.attempts[c.ID], a.Number)
		}
	}
	switch {
	case mood == 3, mood == 4:
		return errStore
	case len(failed) > 0:
		return fmt.Errorf("storing: %w", &subscriptions.CommitError{Failed: failed})
	default:
		return nil
	}
}

// A group is written when its first result is a window old, or when it is full, and
// not before: whatever the store refused of the groups before it, and whenever that is
// given to it again.
func TestGroupWaitsForItsWindow(t *testing.T) {
	const window, size = 100 * time.Millisecond, 8
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 2))
			w := &windows{fickle: fickle{rnd: rand.New(rand.NewPCG(seed, 3)), cursors: map[uuid.UUID]journal.Cursor{}, attempts: map[uuid.UUID][]uint32{}}, waits: map[uint32]time.Time{}}
			w.check = func(results int, age time.Duration) {
				if age < window && results < size {
					t.Errorf("seed %d: a group of %d was written when its first result was %v old", seed, results, age)
				}
			}
			s := newGroupCommit(w, window, size, zap.NewNop())
			done := make(chan struct{})
			go func() {
				defer close(done)
				s.run(t.Context())
			}()
			for n := range uint32(200) {
				w.kind.Store(n%50 > 25)
				s.add(subscriptions.Commit{
					ID: subscriptions.ID("t", cb(int(n))), Cursor: journal.Cursor{Generation: 1}, Attempts: []subscriptions.Attempt{{Number: n}},
				})
				w.added(n)
				most := 60 * time.Millisecond // of a group that fills, or does not
				if n%40 < 20 {
					most = 20 * time.Millisecond
				}
				time.Sleep(time.Duration(rnd.Int64N(int64(most))))
			}
			w.kind.Store(true)
			time.Sleep(time.Minute)
			if n := s.uncommitted(); n != 0 {
				t.Errorf("seed %d: %d results are not stored", seed, n)
			}
			s.close()
			<-done
		})
	}
}

// windows is a fickle store that checks when groups come.
type windows struct {
	fickle
	mu    sync.Mutex
	waits map[uint32]time.Time // results that the store was not given yet, and since when
	check func(results int, age time.Duration)
}

func (w *windows) added(n uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waits[n] = time.Now()
}

func (w *windows) Commit(ctx context.Context, commits []subscriptions.Commit) error {
	synctest.Wait() // what was added is noted
	w.mu.Lock()
	results, age := 0, time.Duration(0)
	for _, c := range commits {
		for _, a := range c.Attempts {
			if since, isNew := w.waits[a.Number]; isNew {
				results, age = results+1, max(age, time.Since(since))
			}
			delete(w.waits, a.Number)
		}
	}
	if results > 0 { // else it is given again
		w.check(results, age)
	}
	w.mu.Unlock()
	time.Sleep(time.Duration(w.rnd.Int64N(int64(150 * time.Millisecond)))) // in which the next group fills
	return w.fickle.Commit(ctx, commits)
}

// The store gets the same commits again until it accepts them.
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
	var r group
	r.add(subscriptions.Commit{ID: sub, Cursor: at(1, 5, 1), Attempts: []subscriptions.Attempt{{Number: 1}}})
	r.add(subscriptions.Commit{ID: sub, Cursor: at(1, 6, 0), Gaps: []journal.Gap{gap(6)}})
	r.add(subscriptions.Commit{ID: sub, Cursor: at(1, 7, 0), Gaps: []journal.Gap{gap(7)}})
	r.add(subscriptions.Commit{ID: sub, Cursor: at(2, 3, 0)})
	r.add(subscriptions.Commit{ID: sub, Cursor: at(2, 4, 0)})
	r.add(subscriptions.Commit{ID: sub, Cursor: at(2, 4, 1), End: subscriptions.EndGone})
	r.add(subscriptions.Commit{ID: sub, Cursor: at(2, 5, 0)})
	r.add(subscriptions.Commit{ID: sub, Cursor: at(3, 4, 0)})
	want := []subscriptions.Commit{
		{
			ID: sub, Cursor: at(1, 7, 0), Attempts: []subscriptions.Attempt{{Number: 1}},
			Gaps: []journal.Gap{{From: time.Unix(6, 0), Until: time.Unix(8, 0), Count: 2, Reason: journal.GapGaveUp}},
		},
		{ID: sub, Cursor: at(2, 4, 0)},
		{ID: sub, Cursor: at(2, 4, 1), End: subscriptions.EndGone},
		{ID: sub, Cursor: at(2, 5, 0)},
		{ID: sub, Cursor: at(3, 4, 0)},
	}
	if d := cmp.Diff(want, r.commits); d != "" || r.n != 8 {
		t.Errorf("%d results:\n%s", r.n, d)
	}
	for n := range 2 * subscriptions.MaxAttempts {
		r.add(subscriptions.Commit{ID: sub, Cursor: at(3, 4, uint32(n+1)), Attempts: []subscriptions.Attempt{{Number: uint32(n + 1)}}})
	}
	if last := r.commits[len(r.commits)-1].Attempts; len(last) != subscriptions.MaxAttempts || last[len(last)-1].Number != 2*subscriptions.MaxAttempts {
		t.Errorf("%d attempts are kept", len(last))
	}
}

// At the end, deliveries in flight have up to Drain. Longer ones are cut off, which does not count
// as a failed attempt. The cursors are stored.
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

// With nothing in flight the end is immediate.
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

// A store that fails or hangs at the end is tried until the time is up, and no longer
// is waited before the log says how much comes again. That is the last that it says.
func TestDrainWithoutStore(t *testing.T) {
	for name, hang := range map[string]time.Duration{"fails": 0, "hangs": 1500 * time.Millisecond, "hangs for long": 30 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { drainWithoutStore(t, hang) })
		})
	}
}

// hanging is a store that fails each commit after a time, whatever the context does.
type hanging struct {
	Subscriptions
	time.Duration
}

func (h hanging) Commit(context.Context, []subscriptions.Commit) error {
	time.Sleep(h.Duration)
	return errStore
}

func drainWithoutStore(t *testing.T, hang time.Duration) {
	core, logged := observer.New(zap.WarnLevel)
	b := newBed(t, func(o *Options) {
		o.MaxInflight, o.CommitEvery, o.Log = 10, 10, zap.New(core)
		o.Subscriptions = hanging{o.Subscriptions, hang}
	})
	for n := range 100 {
		b.subscribe(topicA, cb(n), served)
	}
	b.run()
	b.publish(t, topicA, []byte("one"))
	pass(time.Minute)
	if st := b.d.Stats(); st.InFlight != 10 || st.Uncommitted != 20 {
		t.Errorf("%+v", st)
	}
	start := time.Now()
	b.end()
	lines := logged.FilterField(zap.Int("results", 30)).FilterMessageSnippet("delivered again").All()
	if len(lines) != 1 {
		t.Fatalf("logged of what is lost: %v", lines)
	}
	if took := lines[0].Time.Sub(start); took != b.d.o.Drain+flushTimeout {
		t.Errorf("it was logged after %v", took)
	}
	if all := logged.All(); all[len(all)-1].Message != lines[0].Message {
		t.Errorf("the last line is %v", all[len(all)-1])
	}
}

func TestOptions(t *testing.T) {
	m := newMemory()
	for name, o := range map[string]Options{
		"no journal":       {Subscriptions: m, Client: over(newWire()), HubURL: "http://hub/"},
		"no subscriptions": {Journal: m, Client: over(newWire()), HubURL: "http://hub/"},
		"no client":        {Journal: m, Subscriptions: m, HubURL: "http://hub/"},
		"no hub":           {Journal: m, Subscriptions: m, Client: over(newWire())},
		"bad signature":    {Journal: m, Subscriptions: m, Client: over(newWire()), HubURL: "http://hub/", Signature: "md5"},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := New(Options{Journal: m, Subscriptions: m, Client: over(newWire()), HubURL: "http://hub/", Log: zap.NewNop()}); err != nil {
		t.Error(err)
	}
}
