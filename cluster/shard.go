package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rshub/rshub/internal/base/clock"
)

// begin has the Worker start a shard that has a lease. Asked is when the store was asked for it.
// The lease is in until before that, so Owns is true when the Worker starts.
func (k *Keeper) begin(ctx context.Context, shard int, asked int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	sh := &k.shards[shard]
	if sh.state != free {
		return
	}
	leased, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	wanted, unwanted := context.WithCancel(leased)
	sh.state, sh.cancel, sh.unwanted = starting, cancel, unwanted
	k.until[shard].Store(k.end(asked))
	k.work.Go(func() { k.start(leased, wanted, shard) })
}

// start calls Worker.Start until it succeeds, the lease is lost, or the shard is no longer
// wanted.
func (k *Keeper) start(leased, wanted context.Context, shard int) {
	for failed := false; ; failed = true {
		if failed {
			k.events.shard(EventTakeFailed, shard)
			clock.Sleep(wanted, longestTick)
		}
		err := k.tryStart(leased, wanted, shard)
		if wanted.Err() == nil && err != nil {
			continue
		}
		if k.started(shard) {
			k.events.shard(EventTaken, shard)
			return
		}
		if err == nil {
			if drained, ok := k.unwanted(leased, shard); ok { // let the Worker finish what it began
				k.finish(drained, shard)
				return
			}
		}
		// The shard is lost, or was not started.
		k.o.Worker.Abort(shard)
		k.release(leased, shard)
		k.done(shard)
		return
	}
}

// unwanted reports whether a shard that was just started has to be handed back, and returns
// the context for finishing it.
func (k *Keeper) unwanted(ctx context.Context, shard int) (context.Context, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	sh := &k.shards[shard]
	if sh.state != finishing {
		return nil, false
	}
	drained, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	sh.cancel = cancel
	return drained, true
}

// unwantedGrace is how long a Start may go on when its shard is no longer wanted. It has begun
// exchanges: they are finished if the Start returns by then, and aborted otherwise.
const unwantedGrace = 2 * time.Second

// tryStart calls Worker.Start when there is a slot.
func (k *Keeper) tryStart(leased, wanted context.Context, shard int) error {
	select {
	case k.slots <- struct{}{}:
	case <-wanted.Done():
		return wanted.Err()
	}
	defer func() { <-k.slots }()
	if wanted.Err() != nil {
		return wanted.Err()
	}
	ctx, cancel := context.WithCancelCause(leased)
	defer cancel(nil)
	defer context.AfterFunc(wanted, func() {
		clock.Sleep(ctx, min(unwantedGrace, k.o.Drain))
		cancel(errUnwanted)
	})()
	return k.o.Worker.Start(ctx, shard)
}

// started records that a shard was started, unless its context has ended.
func (k *Keeper) started(shard int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	sh := &k.shards[shard]
	if sh.state != starting {
		return false
	}
	sh.state, sh.cancel = working, nil
	k.checkBegun()
	return true
}

// handBack begins to hand back a shard, if it is owned. If its Start is running, the shard
// is finished afterwards; if that has not begun, it does not begin.
func (k *Keeper) handBack(ctx context.Context, shard int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	sh := &k.shards[shard]
	switch sh.state {
	case starting:
		sh.state = finishing
		sh.unwanted()
	case working:
		drained, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		sh.state, sh.cancel = finishing, cancel
		k.work.Go(func() { k.finish(drained, shard) })
	case free, finishing, lost:
	}
}

// finish has the Worker finish with a shard, and releases it.
func (k *Keeper) finish(ctx context.Context, shard int) {
	defer k.done(shard)
	limited, cancel := context.WithTimeout(ctx, k.left(k.o.Drain))
	defer cancel()
	k.o.Worker.Finish(limited, shard)
	if ctx.Err() != nil {
		k.o.Worker.Abort(shard) // it was lost meanwhile
		return
	}
	if k.release(ctx, shard) {
		k.events.shard(EventYielded, shard)
	}
}

// release ends the lease on a shard, first here and then in the store. False: the store did
// not confirm that, so the lease may last until its end.
func (k *Keeper) release(ctx context.Context, shard int) bool {
	k.mu.Lock()
	k.until[shard].Store(0)
	sh := &k.shards[shard]
	sh.state, sh.releasing = lost, true // so that a renewal under way does not bring it back
	k.mu.Unlock()
	limit := releaseTime
	if k.ended.Load() != 0 {
		limit = k.left(k.o.Drain + farewell)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	err := k.o.Store.Release(ctx, k.o.Self.ID, []int{shard})
	for err != nil && clock.Sleep(ctx, k.tick) {
		err = k.o.Store.Release(ctx, k.o.Self.ID, []int{shard})
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	sh.releasing = false
	if err != nil {
		k.events.shard(EventKept, shard)
	}
	return err == nil
}

// done ends a Finish, or a Start that failed.
func (k *Keeper) done(shard int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.shards[shard].cancel = nil
	k.free(shard)
}

// free makes a shard free again, once no call of the Worker for it is running.
func (k *Keeper) free(shard int) {
	sh := &k.shards[shard]
	if sh.cancel != nil || sh.aborting {
		return
	}
	k.until[shard].Store(0)
	sh.state, k.balanced = free, false
	k.checkBegun()
}

// checkBegun records when the start is over (Starting).
func (k *Keeper) checkBegun() {
	if k.placed == 0 || k.begun.Load() {
		return
	}
	var is [states]int
	for shard := range k.shards {
		is[k.shards[shard].state]++
	}
	started := is[starting] == 0 && (is[working] > 0 || k.due == 0)
	if started || k.o.Lease > 0 && k.now()-k.placed >= int64(StartLimit(k.o.Lease)) {
		k.begun.Store(true)
		close(k.ready)
	}
}

// Starting returns nil once the Worker works on the shards that this hub got first: at least
// one, unless no shard is due to it. Other hubs may still own shards that are due; the start
// waits for them no longer than the lease and startGrace. Before that, the error says what
// the start waits for.
func (k *Keeper) Starting() error {
	if k.begun.Load() {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.placed == 0:
		return errors.New("the store has not answered yet which shards are this hub's")
	case slices.ContainsFunc(k.shards[:], func(s shard) bool { return s.state.owned() }):
		return errors.New("the subscriptions are being read from the store")
	default:
		return fmt.Errorf("%d shards are due to this hub and still belong to other hubs, which hand them back or whose leases end", k.due)
	}
}
