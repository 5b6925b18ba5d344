package delivery

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// shard is that of a subscription.
func shardOf(s subscriptions.Subscription) int { return subscriptions.Shard(s.ID) }

// own acquires the shard of a subscription.
func (b *bed) own(s subscriptions.Subscription) {
	b.t.Helper()
	if err := b.d.Start(b.t.Context(), shardOf(s)); err != nil {
		b.t.Fatal(err)
	}
}

// two subscriptions to topicA that are in different shards.
func (b *bed) two() (one, other subscriptions.Subscription) {
	one = b.subscribe(topicA, cb(0))
	for n := 1; ; n++ {
		if subscriptions.Shard(subscriptions.ID(topicA, cb(n))) != shardOf(one) {
			return one, b.subscribe(topicA, cb(n))
		}
	}
}

// A hub delivers to the subscriptions of the shards that it acquired, whether Apply reported them
// or a sweep found them, and to no others.
func TestOnlyTakenShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, sweeping)
		mine, other := b.two()
		b.runAlone()
		defer b.end()
		b.d.Apply(mine) // ignored: no shard is acquired
		one := b.publish(t, topicA, []byte("one"))
		pass(time.Minute)
		if st := b.d.Stats(); st.Lanes != 0 {
			t.Errorf("lanes of shards that were not taken: %+v", st)
		}
		b.own(mine)
		b.d.Apply(other)
		two := b.publish(t, topicA, []byte("two"))
		pass(time.Minute)
		b.wantOrder(mine.Callback, one, two)
		b.wantOrder(other.Callback)
		// The sweep finds the changes of another hub.
		_, err := b.Update(t.Context(), mine.ID, func(rec subscriptions.Record) (subscriptions.Record, error) {
			rec.Subscription.EndedAt = time.Now()
			return rec, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		pass(2 * b.d.o.Sweep)
		b.publish(t, topicA, []byte("three"))
		pass(time.Minute)
		b.wantOrder(mine.Callback, one, two)
	})
}

// Only the counters of what a hub has are asked for.
func TestSweepAsksForItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, sweeping)
		mine, _ := b.two()
		counted := &counting{memory: b.memory, changes: map[int]int{}, changed: map[int]int{}}
		b.readFrom(counted)
		b.d.shards.store = counted
		b.runAlone()
		defer b.end()
		b.own(mine)
		counted.clear()
		pass(3*b.d.o.Sweep + time.Second)
		counted.mu.Lock()
		defer counted.mu.Unlock()
		partition := journal.Partition(journal.TopicID(topicA))
		if len(counted.changes) != 1 || counted.changes[partition] != 3 || len(counted.changed) != 1 || counted.changed[shardOf(mine)] != 3 {
			t.Errorf("asked for partitions %v and shards %v", counted.changes, counted.changed)
		}
	})
}

type counting struct {
	*memory
	mu               sync.Mutex
	changes, changed map[int]int
}

func (c *counting) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.changes)
	clear(c.changed)
}

func (c *counting) Changes(ctx context.Context, n int, since uint64) ([]string, uint64, error) {
	c.mu.Lock()
	c.changes[n]++
	c.mu.Unlock()
	return c.memory.Changes(ctx, n, since)
}

func (c *counting) Changed(ctx context.Context, n int, since uint64) ([]uuid.UUID, uint64, error) {
	c.mu.Lock()
	c.changed[n]++
	c.mu.Unlock()
	return c.memory.Changed(ctx, n, since)
}

// When a shard is yielded, deliveries in flight are finished and stored, and none begins. The next
// owner continues after them.
func TestYield(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, sweeping, func(o *Options) { o.CommitWindow = time.Hour }) // nothing is stored but by a flush
		mine, other := b.two()
		b.set(mine.Callback, takes(5*time.Second))
		b.run()
		defer b.end()
		one := b.publish(t, topicA, []byte("one"))
		two := b.publish(t, topicA, []byte("two"))
		pass(time.Second)
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		b.d.Finish(ctx, shardOf(mine))
		if took := time.Since(start); took != 4*time.Second {
			t.Errorf("it took %v, want what is left of the exchange", took)
		}
		if s, _ := b.stored(mine); s.Cursor.Seq != 1 {
			t.Errorf("stored %+v when the shard was given away", s.Cursor)
		}
		pass(time.Minute)
		b.wantOrder(mine.Callback, one)
		b.wantOrder(other.Callback, one, two)
		if n := len(b.attempts(mine.Callback)); n != 1 {
			t.Errorf("%d attempts", n)
		}
		if b.d.sched.find(&mine) != nil || b.d.Stats().Lanes != 1 {
			t.Errorf("the lane is there still: %+v", b.d.Stats())
		}
		b.own(mine)
		pass(time.Minute)
		b.wantOrder(mine.Callback, one, two)
	})
}

// An exchange that does not end in time is cut off, which is no failure.
func TestYieldCutsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []Event
		var mu sync.Mutex
		b := newBed(t, sweeping, func(o *Options) {
			o.Event = func(e Event) {
				mu.Lock()
				defer mu.Unlock()
				events = append(events, e)
			}
		})
		mine, _ := b.two()
		b.set(mine.Callback, hangs)
		b.run()
		defer b.end()
		b.publish(t, topicA, []byte("one"))
		pass(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		b.d.Finish(ctx, shardOf(mine))
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("it took %v", took)
		}
		if s, attempts := b.stored(mine); s.Cursor.Attempt != 0 || attempts != nil {
			t.Errorf("it counts as a failure: %+v %+v", s.Cursor, attempts)
		}
		mu.Lock()
		defer mu.Unlock()
		if e := events[len(events)-1]; e.Outcome != OutcomeCutOff || e.SubscriptionID != mine.ID {
			t.Errorf("%+v", e)
		}
	})
}

// An exchange is cancelled when its shard is lost, and nothing is begun any more:
// at once, and although the store stands still.
func TestCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, sweeping)
		mine, other := b.two()
		var cause atomic.Value
		b.set(mine.Callback, func(r *http.Request, body []byte) (*http.Response, error) {
			_, err := hangs(r, body)
			cause.Store(fmt.Sprint(context.Cause(r.Context())))
			return nil, err
		})
		b.failCommit = func() error { return errStore }
		b.run()
		one := b.publish(t, topicA, []byte("one"))
		pass(time.Second)
		start := time.Now()
		b.d.Abort(shardOf(mine))
		synctest.Wait()
		if time.Since(start) != 0 || cause.Load() != errLost.Error() {
			t.Errorf("the exchange was cancelled after %v with the cause %v", time.Since(start), cause.Load())
		}
		b.publish(t, topicA, []byte("two"))
		pass(time.Minute)
		if n := len(b.attempts(mine.Callback)); n != 1 {
			t.Errorf("%d attempts", n)
		}
		if got := b.at(other.Callback); len(got) != 2 || got[0].id != one.ID.String() {
			t.Errorf("the other shard got %v", got)
		}
		if s, attempts := b.stored(mine); s.Cursor.Attempt != 0 || attempts != nil {
			t.Errorf("it counts as a failure: %+v %+v", s.Cursor, attempts)
		}
		b.memory.mu.Lock()
		b.failCommit = nil
		b.memory.mu.Unlock()
		b.end()
	})
}

// A shard that is revoked while it is read is not acquired. A shard that cannot be read keeps the
// hub from being ready until it is given up.
func TestTakeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, sweeping)
		mine, other := b.two()
		broken := &slowList{memory: b.memory}
		b.d.shards.store = broken
		b.runAlone()
		defer b.end()
		broken.err = errStore
		if err := b.d.Start(t.Context(), shardOf(mine)); !errors.Is(err, errStore) {
			t.Errorf("Start returned %v", err)
		}
		broken.err = nil
		b.own(other)
		broken.wait = time.Minute
		taken := make(chan error, 1)
		go func() { taken <- b.d.Start(t.Context(), shardOf(mine)) }()
		pass(time.Second)
		b.d.Abort(shardOf(mine))
		synctest.Wait()
		select {
		case err := <-taken:
			if !errors.Is(err, errLost) {
				t.Errorf("Start of a shard that was cut returned %v", err)
			}
		default:
			t.Error("Start goes on though the shard was cut")
		}
		if b.d.sched.find(&mine) != nil {
			t.Error("the shard that was cut counts")
		}
	})
}

// slowList lists slowly, or fails.
type slowList struct {
	*memory
	err  error
	wait time.Duration
}

func (s *slowList) List(ctx context.Context, shard int, after uuid.UUID, limit int) ([]subscriptions.Record, error) {
	if s.err != nil {
		return nil, s.err
	}
	select {
	case <-time.After(s.wait):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return s.memory.List(ctx, shard, after, limit)
}

// A change that Apply reports while a shard is read wins over what was read (HUB-49).
func TestTakeDoesNotReviveEnded_HUB49(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, sweeping)
		sub := b.subscribe(topicA, cb(0))
		stale := &staleList{memory: b.memory, then: func() {
			ended := sub
			ended.EndedAt = time.Now()
			b.d.Apply(ended)
		}}
		b.d.shards.store = stale
		b.runAlone()
		defer b.end()
		b.own(sub)
		b.publish(t, topicA, []byte("one"))
		pass(3 * time.Second)
		if n := len(b.everything()); n != 0 {
			t.Errorf("%d attempts at a subscription that had ended", n)
		}
	})
}

type staleList struct {
	*memory
	then func()
}

func (s *staleList) List(ctx context.Context, shard int, after uuid.UUID, limit int) ([]subscriptions.Record, error) {
	page, err := s.memory.List(ctx, shard, after, limit)
	s.then()
	return page, err
}

// The requests of a shard are handed on when the shard is acquired. Those that another hub accepted
// are handed on within a sweep.
func TestRequestsAreFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var found atomic.Int64
		b := newBed(t, sweeping, func(o *Options) {
			o.Found = func(rec subscriptions.Record) {
				if rec.Request.Topic == topicA {
					found.Add(1)
				}
			}
		})
		mine, other := b.two()
		request := func(s subscriptions.Subscription) {
			_, err := b.Update(t.Context(), s.ID, func(rec subscriptions.Record) (subscriptions.Record, error) {
				rec.Request = &subscriptions.Request{ID: uuid.New(), Topic: topicA, Callback: s.Callback}
				return rec, nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		request(mine)
		request(other)
		b.runAlone()
		defer b.end()
		b.own(mine)
		if n := found.Load(); n != 1 {
			t.Errorf("%d requests were found in the shard that was taken", n)
		}
		request(mine)
		request(other)
		pass(b.d.o.Sweep + time.Second)
		if n := found.Load(); n != 2 {
			t.Errorf("%d requests after a sweep, want 2", n)
		}
	})
}

// A hub that was frozen past its lease sends nothing when it wakes up, even before it learns that
// its shards are lost.
func TestNothingIsSentWithoutTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lease atomic.Bool
		lease.Store(true)
		b := newBed(t, sweeping, func(o *Options) { o.Owns = func(int) bool { return lease.Load() } })
		b.subscribe(topicA, cb(0))
		b.run()
		defer b.end()
		one := b.publish(t, topicA, []byte("one"))
		pass(time.Second)
		lease.Store(false)
		two := b.publish(t, topicA, []byte("two"))
		pass(time.Minute)
		b.wantOrder(cb(0), one)
		if reads, _ := b.asked(); reads > 10 {
			t.Errorf("%d reads while nothing may be sent", reads)
		}
		lease.Store(true)
		pass(5 * time.Second)
		b.wantOrder(cb(0), one, two)
	})
}

// The results of a shard's exchanges right before ctx ends are stored as well.
func TestYieldStoresWhenCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, sweeping, func(o *Options) { o.CommitWindow = time.Hour })
		mine, _ := b.two()
		n := shardOf(mine)
		b.runAlone()
		defer b.end()
		b.own(mine)
		b.set(mine.Callback, func(r *http.Request, body []byte) (*http.Response, error) {
			if string(body) == "two" {
				return hangs(r, body)
			}
			return nil, nil
		})
		b.publish(t, topicA, []byte("one"))
		b.publish(t, topicA, []byte("two"))
		pass(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		b.d.Finish(ctx, n)
		if s, _ := b.stored(mine); s.Cursor.Seq != 1 || s.Cursor.Attempt != 0 {
			t.Errorf("stored %+v", s.Cursor)
		}
	})
}

// A shard that a hub loses and acquires again continues where it was, though the results before
// were not stored yet.
func TestTakenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, sweeping, func(o *Options) { o.CommitWindow = time.Hour })
		mine, _ := b.two()
		b.runAlone()
		defer b.end()
		b.own(mine)
		one := b.publish(t, topicA, []byte("one"))
		pass(time.Second)
		b.d.Abort(shardOf(mine))
		b.own(mine)
		b.own(mine) // which changes nothing
		two := b.publish(t, topicA, []byte("two"))
		pass(time.Second)
		b.wantOrder(mine.Callback, one, two)
	})
}
