package cluster

import (
	"context"
	"math"
	"time"

	"github.com/rshub/rshub/internal/base/clock"
)

// end returns when a lease is over, from the time when the store was asked for it.
func (k *Keeper) end(asked int64) int64 {
	if k.o.Lease == 0 {
		return math.MaxInt64
	}
	return asked + int64(k.o.Lease-k.o.Lease/10)
}

// renewLeases renews all leases when it is time. Those that could not be renewed are tried
// again at the next tick.
func (k *Keeper) renewLeases(ctx context.Context) error {
	asked := k.now()
	if asked-k.renewed < int64(k.renew) {
		return nil
	}
	shards := k.in(state.owned)
	if len(shards) == 0 {
		return nil
	}
	limited, cancel := k.limit(ctx)
	defer cancel()
	kept, gone, err := k.o.Store.Renew(limited, k.o.Self.ID, shards, k.o.Lease)
	k.mu.Lock()
	for _, shard := range kept {
		if k.shards[shard].state.owned() {
			k.until[shard].Store(k.end(asked))
		}
	}
	k.mu.Unlock()
	if err == nil {
		k.renewed = asked
	}
	for _, shard := range gone {
		k.lose(shard, math.MaxInt64)
	}
	return err
}

// wakeGuard makes guard check the leases again.
func (k *Keeper) wakeGuard() {
	select {
	case k.poke <- struct{}{}:
	default:
	}
}

// guard aborts work when a lease is over, even if the store does not answer.
func (k *Keeper) guard(ctx context.Context) {
	if k.o.Lease == 0 {
		return
	}
	for wait := k.o.Lease; clock.Wait(ctx, wait, k.poke); {
		now, next := k.now(), k.now()+int64(k.o.Lease)
		for _, shard := range k.in(state.owned) {
			if end := k.until[shard].Load(); end > now {
				next = min(next, end)
			} else {
				k.lose(shard, now)
			}
		}
		wait = time.Duration(next - now)
	}
}

// lose aborts the work on a shard whose lease ended at a time, unless it was renewed just now.
func (k *Keeper) lose(shard int, at int64) {
	k.mu.Lock()
	sh := &k.shards[shard]
	if !sh.state.owned() || k.until[shard].Load() > at {
		k.mu.Unlock()
		return
	}
	k.until[shard].Store(0)
	sh.state, sh.aborting = lost, true
	if sh.cancel != nil { // the Start or Finish that runs then calls Abort once more
		sh.cancel(errLost)
	}
	k.mu.Unlock()
	k.events.shard(EventLost, shard)
	k.o.Worker.Abort(shard)
	k.mu.Lock()
	defer k.mu.Unlock()
	sh.aborting = false
	k.free(shard)
}
