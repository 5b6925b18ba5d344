package delivery

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rshub/rshub/subscriptions"
)

// A store that lost its tail may have lost subscriptions with it. Their lanes stop, whether the
// sweep knew them or not, and the others continue.
func TestLostSubscriptionsGetNothing(t *testing.T) {
	for name, swept := range map[string]bool{"after a sweep": true, "before it": false} {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t, sweeping)
			kept, _ := b.two()
			lists := &failing{memory: b.memory, shard: shardOf(kept)}
			b.d.shards.store = lists
			b.run()
			defer b.end()
			pass(b.d.o.Sweep + time.Second)
			before := b.state()
			lists.fail.Store(true)
			lost := b.sibling(kept)
			b.d.Apply(lost)
			if swept {
				pass(2 * b.d.o.Sweep)
			}
			one := b.publish(t, topicA, []byte("one"))
			pass(time.Second)
			b.wantOrder(lost.Callback, one)
			b.lose(lost.ID, before)
			pass(3 * b.d.o.Sweep) // the first time it can't be read
			two := b.publish(t, topicA, []byte("two"))
			pass(time.Minute)
			b.wantOrder(lost.Callback, one)
			b.wantOrder(kept.Callback, one, two)
			if n := b.d.Stats().Lanes; n != 2 {
				t.Errorf("%s: %d lanes", name, n)
			}
		})
	}
}

// A store that loses a shard loses the lease on it with its subscriptions. The hub gets the lease again before the sweep
// comes, and reports what is missing then.
func TestLostWithTheirShardIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.InfoLevel)
		b := newBed(t, func(o *Options) { o.Log = zap.New(core) })
		kept, _ := b.two()
		lost := b.sibling(kept)
		b.run()
		defer b.end()
		again := func() {
			t.Helper()
			b.d.Abort(shardOf(kept))
			if err := b.d.Start(t.Context(), shardOf(kept)); err != nil {
				t.Fatal(err)
			}
		}
		again()
		wantEvents(t, logs)
		b.lose(lost.ID, b.state())
		again()
		wantEvents(t, logs, "subscriptions_lost")
		again()
		wantEvents(t, logs)
	})
}

// sibling is a subscription to topicA in the shard of another.
func (b *bed) sibling(of subscriptions.Subscription) subscriptions.Subscription {
	for n := 1; ; n++ {
		id := subscriptions.ID(topicA, cb(n))
		if b.record(id) == nil && subscriptions.Shard(id) == shardOf(of) {
			return b.subscribe(topicA, cb(n))
		}
	}
}

// failing fails one List of a shard.
type failing struct {
	*memory
	shard int
	fail  atomic.Bool
}

func (f *failing) List(ctx context.Context, shard int, after uuid.UUID, limit int) ([]subscriptions.Record, error) {
	if shard == f.shard && f.fail.CompareAndSwap(true, false) {
		return nil, errors.New("the store fails over")
	}
	return f.memory.List(ctx, shard, after, limit)
}

// state is the counter of the records.
func (m *memory) state() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clock
}

// lose has the store lose a record and the end of its counter.
func (m *memory) lose(id uuid.UUID, clock uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.records[subscriptions.Shard(id)], id)
	m.clock = clock
}
