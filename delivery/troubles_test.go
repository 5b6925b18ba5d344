package delivery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// A record that the store cannot read delays no other subscription.
func TestUnreadableRecordStallsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, func(o *Options) { o.CommitEvery = 4 })
		for n := range 20 {
			b.subscribe(topicA, cb(n))
		}
		b.refuse = func(uuid.UUID) error { return fmt.Errorf("its cursor: %w", journal.ErrPacked) }
		b.run()
		for n := range 5 {
			b.publish(t, topicA, fmt.Append(nil, n))
			pass(time.Minute)
		}
		for n := range 20 {
			if got := len(b.at(cb(n))); got != 5 {
				t.Errorf("callback %d got %d", n, got)
			}
		}
		b.end()
	})
}

// A change that cannot be read hides no other, and is not asked for every few
// seconds.
func TestUnreadableChangeIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.run()
		var asked int
		damaged := b.subscribe(topicA, cb(0))
		b.failGet = func(id uuid.UUID) error {
			if id != damaged.ID {
				return nil
			}
			asked++
			return fmt.Errorf("its cursor: %w", journal.ErrPacked)
		}
		for n := range 20 {
			b.subscribe(topicA, cb(n+1))
		}
		pass(time.Hour)
		b.publish(t, topicA, []byte("one"))
		pass(time.Second)
		for n := range 20 {
			if got := len(b.at(cb(n + 1))); got != 1 {
				t.Errorf("callback %d got %d", n+1, got)
			}
		}
		if asked != 1 {
			t.Errorf("it was asked for %d times", asked)
		}
		b.end()
	})
}

// A time to try again that a clock that jumped left in the store is waited for no
// longer than the step of the ladder that it came from, or where the callback may
// have asked for it, than the longest wait.
func TestWaitLeftByAClock(t *testing.T) {
	for name, tc := range map[string]struct {
		step   uint32
		status int
		want   time.Duration
	}{
		"the first step":   {1, 500, 6 * time.Second},
		"the third":        {3, 500, 144 * time.Second},
		"the last":         {8, 500, 6 * time.Hour},
		"a Retry-After":    {1, 503, 6 * time.Hour},
		"no step is known": {0, 500, 6 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t)
				b.subscribe(topicA, cb(0), func(s *subscriptions.Subscription) {
					s.ExpiresAt = time.Now().Add(1000 * time.Hour)
					s.Cursor.Attempt, s.Cursor.Step, s.Cursor.LastStatus, s.Cursor.NextAttemptAt = 1, tc.step, tc.status, time.Now().Add(200*time.Hour)
				})
				b.publish(t, topicA, []byte("one"))
				b.run()
				defer b.end()
				pass(tc.want - time.Second)
				if got := len(b.at(cb(0))); got != 0 {
					t.Errorf("tried %d times too early", got)
				}
				pass(2 * time.Second)
				if got := len(b.at(cb(0))); got != 1 {
					t.Errorf("tried %d times in its time", got)
				}
			})
		})
	}
}

// One subscription that cannot be read does not hide what else changed.
func TestSweepGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		var subs []subscriptions.Subscription
		for n := range 20 {
			subs = append(subs, b.subscribe(topicA, cb(n)))
		}
		bad := &badGet{memory: b.memory, bad: subs[0].ID}
		b.d.shards.store = bad
		b.run()
		defer b.end()
		pass(time.Second)
		for _, s := range subs {
			_, err := b.Update(t.Context(), s.ID, func(rec subscriptions.Record) (subscriptions.Record, error) {
				rec.Subscription.EndedAt = time.Now()
				return rec, nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		pass(time.Minute)
		if n := b.d.Stats().Lanes; n > 1 {
			t.Errorf("%d lanes of ended subscriptions", n)
		}
	})
}

type badGet struct {
	*memory
	bad uuid.UUID
}

func (b *badGet) Get(ctx context.Context, id uuid.UUID) (subscriptions.Record, error) {
	if id == b.bad {
		return subscriptions.Record{}, errors.New("cannot be read")
	}
	return b.memory.Get(ctx, id)
}

// Invariant 12: a topic's anchors are bounded.
func TestAnchorsAreBounded(t *testing.T) {
	tp := &topic{}
	for n := range journal.Position(10 * remembered) {
		tp.tail.saw(anchor{position: n + 1})
	}
	if len(tp.tail.seen) != remembered || tp.tail.seen[remembered-1].position != 10*remembered {
		t.Errorf("%d are kept, the newest is %v", len(tp.tail.seen), tp.tail.seen[remembered-1].position)
	}
}

// A result that is added right before the end is stored.
func TestLastResultsAreStored(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t)
			sub := b.subscribe(topicA, cb(0))
			s := newGroupCommit(b.memory, time.Second, 10, b.d.o.Log)
			sub.Cursor.Attempt = 1
			s.add(subscriptions.Commit{ID: sub.ID, Cursor: sub.Cursor})
			s.close()
			s.run(t.Context())
			if got, _ := b.stored(sub); got.Cursor != sub.Cursor {
				t.Fatal("the last result was not stored")
			}
		})
	}
}

// Large bodies that do not fit into memory together are delivered even if turns last longer than a
// body is kept, and are not read over and over.
func TestLargeBodiesUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, func(o *Options) { o.MaxInflight, o.MaxInflightBytes = 4, 100<<10 })
		const large, small = 10, 60
		for n := range large {
			topic := fmt.Sprint(topicA, n)
			b.subscribe(topic, cb(n))
			b.publish(t, topic, bytes.Repeat([]byte("x"), 60<<10))
		}
		for n := range small {
			topic, url := fmt.Sprint(topicB, n), fmt.Sprintf("http://s%d.example/cb", n)
			b.subscribe(topic, url)
			b.set(url, takes(10*time.Second)) // so that a round lasts 150 s
			for k := range 100 {
				b.publish(t, topic, fmt.Append(nil, k))
			}
		}
		b.run()
		defer b.end()
		pass(30 * time.Minute)
		for n := range large {
			if got := len(b.at(cb(n))); got != 1 {
				t.Errorf("callback %d got %d", n, got)
			}
		}
		b.memory.mu.Lock()
		defer b.memory.mu.Unlock()
		if n := b.memory.bodies; n > 6*large { // a sender may come free too late now and then
			t.Errorf("%d large bodies were read %d times", large, n)
		}
	})
}

func TestRingPushFront(t *testing.T) {
	var r ring[int]
	var want []int
	for n := range 1000 {
		switch n * 7 % 5 {
		case 0, 1:
			r.push(n)
			want = append(want, n)
		case 2, 3:
			r.pushFront(n)
			want = slices.Insert(want, 0, n)
		default:
			if v, ok := r.pop(); !ok || v != want[0] {
				t.Fatalf("got %d %t, want %d", v, ok, want[0])
			}
			want = want[1:]
		}
	}
	for _, w := range want {
		if v, ok := r.pop(); !ok || v != w {
			t.Fatalf("got %d %t, want %d", v, ok, w)
		}
	}
	if r.len() != 0 {
		t.Errorf("%d are left", r.len())
	}
}

// Once the store answers again, all lanes of the topic go on at once, also those whose next entries are in memory: what
// the hub remembers says nothing of the store.
func TestLanesGoOnFromMemoryWhenTheStoreAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, func(o *Options) { o.Policy.Max = time.Second })
		b.subscribe(topicA, cb(0))
		b.subscribe(topicA, cb(1))
		b.set(cb(1), answers(503)) // it lags, and its entries stay in memory
		var away atomic.Bool
		b.failRead = func() error {
			if away.Load() {
				return errStore
			}
			return nil
		}
		b.run()
		defer b.end()
		const entries = 51 // of an odd one the hint says that it is there, and a large one has to be read
		for n := range entries {
			last := n == entries-1
			away.Store(last)
			body := fmt.Append(nil, n)
			if last {
				body = make([]byte, smallBody+1)
			}
			b.publish(t, topicA, body)
			pass(10 * time.Millisecond)
		}
		pass(5 * time.Second)
		if b.d.Stats().Away != 1 {
			t.Fatalf("%+v", b.d.Stats())
		}
		b.set(cb(1), answers(200))
		away.Store(false)
		pass(12 * time.Second)
		for n := range 2 {
			if got := len(b.at(cb(n))); got != entries {
				t.Errorf("callback %d got %d of %d", n, got, entries)
			}
		}
	})
}
