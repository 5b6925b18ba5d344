package delivery

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/journal"
)

// Invariants 5 and 10: if the store lost its tail, the hub finds that once per topic, however many
// lanes it has, and records it once. Then all lanes go back.
func TestRollbackIsFoundOnce_Invariant5(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lanes, kept, gone = 500, 10, 40
		var gaps []journal.Gap
		var mu sync.Mutex
		b := newBed(t, func(o *Options) {
			o.Gap = func(g journal.Gap) {
				mu.Lock()
				defer mu.Unlock()
				gaps = append(gaps, g)
			}
		})
		for n := range lanes {
			b.subscribe(topicA, cb(n))
		}
		b.set(cb(0), answers(503)) // it waits before the fork
		b.run()
		defer b.end()
		var entries []journal.Entry
		for n := range kept + gone {
			entries = append(entries, b.publish(t, topicA, fmt.Append(nil, n)))
			pass(200 * time.Millisecond)
		}
		b.rollback(topicA, gone)
		reads, _ := b.asked()
		next := b.publish(t, topicA, []byte("next"))
		pass(3 * time.Second)
		if after, _ := b.asked(); after-reads > remembered+lanes/2 { // those in flight read once each
			t.Errorf("%d reads for %d lanes", after-reads, lanes)
		}
		want := journal.Gap{
			From: entries[kept-1].Until, Until: entries[kept+gone-1].Until, Count: gone, Reason: journal.GapRolledBack,
			Position: entries[kept+gone-1].Position, Seq: kept + gone, After: entries[kept-1].Anchor(),
		}
		mu.Lock()
		defer mu.Unlock()
		if b.recorded != 1 || len(gaps) != 1 || len(b.topic(topicA).gaps) != 1 {
			t.Fatalf("%d gaps were recorded, %v told, %v kept", b.recorded, gaps, b.topic(topicA).gaps)
		}
		if got := b.topic(topicA).gaps[0]; got.At.IsZero() {
			t.Error("no time")
		} else if got.At = (time.Time{}); got != want {
			t.Errorf("recorded\n%+v, want\n%+v", got, want)
		}
		for n := 1; n < lanes; n++ {
			if got := b.at(cb(n)); len(got) != kept+gone+1 || got[kept+gone].id != next.ID.String() {
				t.Fatalf("callback %d got %d", n, len(got))
			}
		}
		for r := range b.memory.all() {
			if c := r.Subscription.Cursor; c.Anchor != next.Anchor() && r.Subscription.Callback != cb(0) {
				t.Fatalf("stored %+v", c)
			}
		}
	})
}

// Invariant 10: if the store lost all of a topic, and the Source sends the last notification again, no
// subscription has a gap, wherever it was. The loss is the topic's gap.
func TestVanishedTopicLeavesNoEmptyGap_Invariant10(t *testing.T) {
	for name, restarts := range map[string]bool{"at the end": false, "one behind, at a hub that has seen nothing": true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t)
			sub := b.subscribe(topicA, cb(0))
			b.run()
			var entries []journal.Entry
			for n := range 3 {
				if restarts && n == 2 {
					b.end()
				}
				entries = append(entries, b.publish(t, topicA, fmt.Append(nil, n)))
				pass(time.Second)
			}
			b.vanish(topicA, entries[2])
			if restarts {
				a := b
				b = newBed(t)
				b.goOn(a.memory)
				b.run()
			}
			defer b.end()
			again := b.publish(t, topicA, []byte("again"))
			pass(10 * time.Second)
			if got := b.at(cb(0)); len(got) == 0 || got[len(got)-1].id != again.ID.String() {
				t.Errorf("%s: %d were sent, the last is not what the Source sent again", name, len(got))
			}
			b.wantGaps(sub)
			if got := b.topic(topicA).gaps; len(got) != 1 || got[0].Reason != journal.GapRolledBack || got[0].Count != 1 || !got[0].From.Equal(entries[1].Until) || !got[0].Until.Equal(entries[2].Until) {
				t.Errorf("%s: the topic's gaps are %v", name, got)
			}
		})
	}
}

// A lane goes back to the newest entry that was trimmed, if this hub remembers only older ones: what
// it got before that is no gap.
func TestRollbackBehindTheTrimmed_Invariant5(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		sub := b.subscribe(topicA, cb(0))
		b.run()
		defer b.end()
		var entries []journal.Entry
		for n := range 5 {
			entries = append(entries, b.publish(t, topicA, fmt.Append(nil, n)))
			pass(time.Second)
		}
		seen := &b.d.sched.topics.get(topicA).tail.seen
		*seen = slices.DeleteFunc(*seen, func(a anchor) bool { return a.seq == 3 || a.seq == 4 })
		b.trim(topicA, 4)
		b.rollback(topicA, 1)
		b.publish(t, topicA, []byte("again"))
		pass(10 * time.Second)
		if got := len(b.at(cb(0))); got != 6 {
			t.Errorf("%d were sent, want 6", got)
		}
		b.wantGaps(sub)
		if got := b.topic(topicA).gaps; len(got) != 1 || got[0].Count != 1 || !got[0].From.Equal(entries[3].Until) {
			t.Errorf("the topic's gaps are %v", got)
		}
	})
}

// A loss that cannot be recorded is recorded again before any lane goes back.
func TestRollbackThatCannotBeRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.subscribe(topicB, cb(0))
		refuse := &noRecorder{memory: b.memory}
		b.readFrom(refuse)
		b.run()
		defer b.end()
		for range 3 {
			b.publish(t, topicB, []byte("x"))
		}
		pass(time.Second)
		b.rollback(topicB, 1)
		refuse.err.Store(true)
		again := b.publish(t, topicB, []byte("again"))
		pass(10 * time.Second)
		if n := len(b.at(cb(0))); n != 3 {
			t.Errorf("%d delivered before the gap was recorded", n)
		}
		refuse.err.Store(false)
		pass(10 * time.Second)
		if got := b.at(cb(0)); len(got) != 4 || got[3].id != again.ID.String() || len(b.topic(topicB).gaps) != 1 {
			t.Errorf("%d delivered, gaps %v", len(got), b.topic(topicB).gaps)
		}
	})
}

// A hub that has not seen the lost entries, as after a restart, goes back as far as the hub that
// saw them recorded, and sends no more again than that one did.
func TestRollbackThatAnotherHubSaw_Invariant5(t *testing.T) {
	const kept, gone = 6, 4
	for _, tc := range []struct {
		name  string
		after func(entries []journal.Entry) journal.Anchor // what the other hub recorded
		again int
	}{
		{"it is recorded", func(e []journal.Entry) journal.Anchor { return e[kept-1].Anchor() }, 0},
		{"an older one is recorded", func(e []journal.Entry) journal.Anchor { return e[kept-3].Anchor() }, 2},
		{"that one is lost too", func(e []journal.Entry) journal.Anchor { return e[kept].Anchor() }, kept},
		{"the version that recorded it did not say", func([]journal.Entry) journal.Anchor { return journal.Anchor{} }, kept},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := newBed(t)
			a.subscribe(topicA, cb(0))
			a.run()
			var entries []journal.Entry
			for n := range kept + gone {
				entries = append(entries, a.publish(t, topicA, fmt.Append(nil, n)))
				pass(time.Second)
			}
			a.end()
			a.rollback(topicA, gone)
			last := entries[len(entries)-1]
			err := a.RecordGap(t.Context(), topicA, journal.Gap{
				From: entries[kept-1].Until, Until: last.Until, Count: gone, Reason: journal.GapRolledBack,
				Position: last.Position, Seq: last.Seq, After: tc.after(entries),
			})
			if err != nil {
				t.Fatal(err)
			}
			b := newBed(t)
			b.goOn(a.memory)
			b.run()
			defer b.end()
			next := b.publish(t, topicA, []byte("next"))
			pass(10 * time.Second)
			if got := b.at(cb(0)); len(got) != tc.again+1 || got[tc.again].id != next.ID.String() {
				t.Errorf("%s: %d were sent, want %d", tc.name, len(got), tc.again+1)
			}
		})
	}
}

// A journal that loses its tail twice has a fork each time. A lane that is behind the first one goes back to the second,
// and gets nothing from the hub's memory that the journal lost.
func TestJournalLosesItsTailTwice_Invariant5(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const kept, gone = 8, 4
		a := newBed(t)
		a.subscribe(topicA, cb(0))
		a.run()
		for n := range kept + gone {
			a.publish(t, topicA, fmt.Append(nil, n))
			pass(time.Second)
		}
		a.end()
		a.rollback(topicA, gone)
		b := newBed(t) // it has seen nothing, and goes back to the beginning
		b.goOn(a.memory)
		b.set(cb(0), takes(time.Millisecond))
		b.run()
		defer b.end()
		pass(10 * time.Second)
		if got := len(b.at(cb(0))); got != kept {
			t.Fatalf("%d were sent after the first loss, want %d", got, kept)
		}
		b.rollback(topicA, gone)
		next := b.publish(t, topicA, []byte("next"))
		pass(10 * time.Second)
		if got := b.at(cb(0)); len(got) != kept+1 || got[kept].id != next.ID.String() {
			t.Errorf("%d were sent after the second, want %d", len(got), kept+1)
		}
		if got := b.topic(topicA).gaps; b.recorded != 2 {
			t.Errorf("%d losses were recorded: %v", b.recorded, got)
		}
	})
}

// The journal loses an entry before this hub's hint of it is heard. Who gets it from memory goes back for what the journal
// has in its place. A hint that comes after that brings nothing of what was lost.
func TestHintOfALostEntry_Invariant5(t *testing.T) {
	for name, late := range map[string]bool{"before the next entry": false, "after the next entry": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t)
				sub := b.subscribe(topicA, cb(0))
				b.run()
				defer b.end()
				synctest.Wait()
				one, two := b.publish(t, topicA, []byte("one")), b.publish(t, topicA, []byte("two"))
				pass(time.Second)
				b.memory.mute = true
				lost := b.publish(t, topicA, []byte("lost"))
				b.memory.mute = false
				b.rollback(topicA, 1)
				hear := func() {
					b.d.heads.hint(journal.Hint{Topic: topicA, After: two.Anchor(), Entry: &lost})
					pass(time.Second)
				}
				if !late {
					hear()
				}
				next := b.publish(t, topicA, []byte("next"))
				pass(time.Minute)
				if late {
					hear()
					b.wantOrder(cb(0), one, two, next)
					b.wantGaps(sub)
					return
				}
				b.wantOrder(cb(0), one, two, lost, next)
				if b.recorded != 1 {
					t.Errorf("%d losses were recorded", b.recorded)
				}
			})
		})
	}
}

// A damaged entry that lanes pass over may be lost, too. They read on where the journal does, and not behind it.
func TestPassedOverEntryIsLost_Invariant5(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, h, _ := hurtBed(t, giveUpAfter(time.Hour))
		h.entry = damagedSeq(4)
		b.subscribe(topicA, cb(0))
		b.run()
		defer b.end()
		for n := range 4 {
			b.publish(t, topicA, fmt.Append(nil, n))
			pass(time.Second)
		}
		pass(2 * time.Hour)
		b.rollback(topicA, 1)
		h.set(func() { h.entry = nil })
		next := b.publish(t, topicA, []byte("next"))
		pass(time.Minute)
		if got := b.at(cb(0)); len(got) != 4 || got[3].id != next.ID.String() {
			t.Errorf("%d were sent, want 4", len(got))
		}
		if b.recorded != 1 {
			t.Errorf("%d losses were recorded", b.recorded)
		}
	})
}

// A hub that has not seen what was lost finds its lanes behind many lost entries. It records one loss.
func TestLanesBehindManyLostEntries_Invariant5(t *testing.T) {
	for name, next := range map[string]bool{"at the end": false, "before the next": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const all, kept = 60, 10
				b := newBed(t)
				var entries []journal.Entry
				for n := range all {
					entries = append(entries, b.publish(t, topicA, fmt.Append(nil, n)))
					b.subscribe(topicA, cb(n))
					pass(time.Millisecond)
				}
				b.rollback(topicA, all-kept)
				last := entries[all-1] // another hub records it
				err := b.RecordGap(t.Context(), topicA, journal.Gap{
					From: entries[kept-1].Until, Until: last.Until, Count: all - kept, Reason: journal.GapRolledBack,
					Position: last.Position, Seq: last.Seq, After: entries[kept-1].Anchor(),
				})
				if err != nil {
					t.Fatal(err)
				}
				if next {
					b.publish(t, topicA, []byte("next"))
				}
				b.subscribe(topicA, cb(all)) // at the newest, and lost is nothing
				b.run()
				defer b.end()
				pass(time.Minute)
				if got := b.at(cb(all)); len(got) != 0 {
					t.Errorf("a lane that has all got %d", len(got))
				}
				if !next {
					b.publish(t, topicA, []byte("next"))
					pass(time.Minute)
				}
				for n := range all {
					if got, want := len(b.at(cb(n))), max(kept-n, 1); got != want {
						t.Errorf("the lane at %d got %d, want %d", n, got, want)
					}
				}
				if got := b.topic(topicA).gaps; b.recorded != 2 || len(got) != 1 || got[0].Count != all-kept || !got[0].Until.Equal(entries[all-1].Until) {
					t.Errorf("%d losses were recorded: %v", b.recorded, got)
				}
			})
		})
	}
}

// An entry that failed may be lost. The one in its place has all the time and attempts that the policy gives.
func TestFailedEntryIsLost_Invariant5(t *testing.T) {
	for name, fails := range map[string]int{"overloaded": 503, "refused": 400} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const attempts = 4 // of the lost one
				a := newBed(t, giveUpAfter(12*time.Minute))
				sub := a.subscribe(topicA, cb(0))
				a.set(cb(0), answers(fails))
				a.run()
				a.publish(t, topicA, []byte("lost"))
				pass(11 * time.Minute)
				if n := len(a.attempts(cb(0))); n != attempts {
					t.Errorf("%d attempts", n)
				}
				a.end()
				a.rollback(topicA, 1)
				b := newBed(t, giveUpAfter(12*time.Minute)) // a hub that has not seen it
				b.goOn(a.memory)
				b.set(cb(0), answers(fails))
				b.run()
				defer b.end()
				next := b.publish(t, topicA, []byte("next"))
				pass(8 * time.Minute)
				got := b.attempts(cb(0))
				if len(got) == 0 || got[0].attempt != 1 {
					t.Fatalf("of the next, there were first: %+v", got)
				}
				b.wantGaps(sub)
				s, kept := b.stored(sub)
				if n := int(s.Cursor.Attempt); n != len(got) || n == 0 || !s.Cursor.FirstAttemptAt.Equal(got[0].at) || kept[attempts].Number != 1 {
					t.Errorf("after %d attempts, stored %+v and %+v", len(got), s.Cursor, kept)
				}
				b.set(cb(0), nil)
				pass(time.Hour)
				b.wantOrder(cb(0), next)
			})
		})
	}
}

// lateAnswers answers the first read as the journal was a moment ago.
type lateAnswers struct {
	*memory
	was atomic.Pointer[error]
}

func (l *lateAnswers) Read(ctx context.Context, url string, after journal.Anchor, limit int, maxBytes int64) ([]journal.Entry, error) {
	if was := l.was.Swap(nil); was != nil {
		return nil, *was
	}
	return l.memory.Read(ctx, url, after, limit, maxBytes)
}

func (l *lateAnswers) RecordGap(ctx context.Context, url string, g journal.Gap) error {
	if err := l.memory.RecordGap(ctx, url, g); err != nil || l.recorded < 10 {
		return err
	}
	return errStore // else the same could happen again without end
}

// A topic that vanished may come back at the entry of the lane that found that: nothing of it is lost then.
func TestLostEntryIsBack_Invariant10(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		l := &lateAnswers{memory: b.memory}
		l.was.Store(&journal.ErrRolledBack)
		b.readFrom(l)
		b.publish(t, topicA, []byte("one"))
		sub := b.subscribe(topicA, cb(0))
		b.trim(topicA, 1)
		next := b.publish(t, topicA, []byte("next"))
		b.run()
		defer b.end()
		pass(time.Minute)
		b.wantOrder(cb(0), next)
		b.wantGaps(sub)
		if b.recorded != 0 {
			t.Errorf("%d losses were recorded: %v", b.recorded, b.topic(topicA).gaps)
		}
	})
}

// An entry that is read while lanes go back may be lost after that, as one that is read later. From then on the hub
// has it in memory, and lanes that go back to the same fork would get it again and again.
func TestReadWhileLanesGoBack_Invariant5(t *testing.T) {
	for name, reads := range map[string]bool{"nothing is read": false, "an entry is read": true} {
		var tail journalTail
		find := func(f *fork) {
			f.to, f.last = anchor{position: 1, nonce: 1}, anchor{position: 9, nonce: 9}
			if reads {
				tail.wentOn()
			}
		}
		lost := anchor{position: 5, nonce: 5}
		first := tail.forkAt(lost, find)
		first.find()
		if stays := tail.forkAt(lost, find) == first; stays == reads {
			t.Errorf("%s: the fork stays: %t", name, stays)
		}
	}
}

type noRecorder struct {
	*memory
	err atomic.Bool
}

func (n *noRecorder) RecordGap(ctx context.Context, url string, g journal.Gap) error {
	if n.err.Load() {
		return errStore
	}
	return n.memory.RecordGap(ctx, url, g)
}

// Invariants 3 and 5: a hub was frozen past its lease while it read, and that read reports that the
// store lost its tail. It moves no lane back: the new owner did that, and continues storing where
// it is.
func TestFormerOwnerTakesNobodyBack_Invariant5(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var owns atomic.Bool
		owns.Store(true)
		a := newBed(t, func(o *Options) { o.Owns = func(int) bool { return owns.Load() } })
		sub := a.subscribe(topicA, cb(0))
		held := &heldReads{memory: a.memory, free: make(chan struct{})}
		a.readFrom(held)
		a.run()
		defer a.end()
		for n := range 5 {
			a.publish(t, topicA, fmt.Append(nil, n))
			pass(time.Second)
		}
		held.on.Store(true)
		owns.Store(false)
		a.rollback(topicA, 2)
		b := newBed(t)
		b.goOn(a.memory)
		b.run()
		b.publish(t, topicA, []byte("next"))
		pass(40 * time.Second)
		before, _ := b.stored(sub)
		close(held.free)
		pass(time.Second)
		if after, _ := b.stored(sub); after.Cursor != before.Cursor || after.Cursor.Seq != 4 {
			t.Errorf("the former owner stored %+v, and there was %+v", after.Cursor, before.Cursor)
		}
		last := b.publish(t, topicA, []byte("last"))
		pass(10 * time.Second)
		if s, _ := b.stored(sub); s.Cursor.Anchor != last.Anchor() {
			t.Errorf("the owner's commits are dropped: %+v", s.Cursor)
		}
		b.end()
	})
}

// heldReads delays reads while it is on.
type heldReads struct {
	*memory
	on   atomic.Bool
	free chan struct{}
}

func (h *heldReads) Read(ctx context.Context, url string, after journal.Anchor, limit int, maxBytes int64) ([]journal.Entry, error) {
	if h.on.Load() {
		<-h.free
	}
	return h.memory.Read(ctx, url, after, limit, maxBytes)
}
