package delivery

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/subscriptions"
)

// polled is a store that is asked about everything at once, and counts what it is
// asked one by one.
type polled struct {
	*memory
	polls, changes, changed atomic.Int64
	fail                    atomic.Int64 // 1 more than the shard that cannot be asked about; 0: all can
}

func (p *polled) Changes(ctx context.Context, partition int, since uint64) ([]string, uint64, error) {
	p.changes.Add(1)
	return p.memory.Changes(ctx, partition, since)
}

func (p *polled) Changed(ctx context.Context, shard int, since uint64) ([]uuid.UUID, uint64, error) {
	p.changed.Add(1)
	return p.memory.Changed(ctx, shard, since)
}

func (p *polled) poll(ctx context.Context, partitions, shards map[int]uint64) (moved, changed []int, err error) {
	p.polls.Add(1)
	for n, since := range partitions {
		if topics, _, _ := p.memory.Changes(ctx, n, since); len(topics) > 0 {
			moved = append(moved, n)
		}
	}
	for n, since := range shards {
		if p.fail.Load() == int64(n)+1 {
			err = errors.New("away")
		} else if ids, _, lost := p.memory.Changed(ctx, n, since); len(ids) > 0 || lost != nil {
			changed = append(changed, n)
		}
	}
	return moved, changed, err
}

// A sweep over a store that can be asked about everything at once asks about each
// partition and shard only where there is something new or left, and misses
// nothing.
func TestSweepAsksAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &polled{}
		b := newBed(t, sweeping, func(o *Options) {
			m, ok := o.Journal.(*memory)
			if !ok {
				t.Fatal("another store")
			}
			store.memory = m
			o.Journal, o.Subscriptions, o.Poll = store, store, store.poll
		})
		b.mute = true
		mine, other := b.two()
		b.run()
		defer b.end()
		pass(2 * b.d.o.Sweep)
		calm := func(what string) {
			t.Helper()
			store.polls.Store(0)
			store.changes.Store(0)
			store.changed.Store(0)
			pass(10 * b.d.o.Sweep)
			if store.polls.Load() < 9 || store.changes.Load()+store.changed.Load() > 0 {
				t.Errorf("%s: %d polls, %d questions about partitions and %d about shards", what, store.polls.Load(), store.changes.Load(), store.changed.Load())
			}
		}
		calm("idle")
		one := b.publish(t, topicA, []byte("one")) // without a hint
		pass(2 * b.d.o.Sweep)
		b.wantOrder(mine.Callback, one)
		b.wantOrder(other.Callback, one)
		calm("after a notification")

		// Another hub ends one, while the shard of the other cannot be asked about.
		store.fail.Store(int64(shardOf(mine)) + 1)
		for _, s := range []subscriptions.Subscription{mine, other} {
			end := func(rec subscriptions.Record) (subscriptions.Record, error) {
				rec.Subscription.EndedAt = time.Now()
				return rec, nil
			}
			if _, err := b.Update(t.Context(), s.ID, end); err != nil {
				t.Fatal(err)
			}
		}
		pass(2 * b.d.o.Sweep)
		if n := b.d.Stats().Lanes; n != 1 {
			t.Errorf("%d lanes with one end seen", n)
		}
		store.fail.Store(0)
		pass(2 * b.d.o.Sweep)
		if n := b.d.Stats().Lanes; n != 0 {
			t.Errorf("%d lanes with both ends seen", n)
		}

		// A change that Apply reported is read once more, whether the store counted it or not.
		back := b.sibling(mine)
		pass(2 * b.d.o.Sweep)
		store.changed.Store(0)
		b.d.Apply(back)
		pass(2 * b.d.o.Sweep)
		if store.changed.Load() == 0 {
			t.Error("what Apply told was not read once more")
		}
		calm("in the end")
	})
}
