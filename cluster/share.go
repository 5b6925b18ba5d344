package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// begin has the Part take a shard on which there is a lease, asked for at a time.
// The Part may begin when the lease stands in until, so that Owns is true by then.
func (k *Keeper) begin(ctx context.Context, shard int, asked int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	sh := &k.shares[shard]
	if sh.state != free {
		return
	}
	leased, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	wanted, leave := context.WithCancel(leased)
	sh.state, sh.cancel, sh.leave = taking, cancel, leave
	k.until[shard].Store(k.end(asked))
	k.work.Go(func() { k.take(leased, wanted, shard) })
}

// take calls Part.Take until it succeeds or the shard is not to be taken any more, as
// its lease is lost, or it is not wanted.
func (k *Keeper) take(leased, wanted context.Context, shard int) {
	for failed := false; ; failed = true {
		if failed {
			k.hear(EventTakeFailed, shard)
			pause(wanted, longestTick)
		}
		err := k.tryTake(leased, wanted, shard)
		if wanted.Err() == nil && err != nil {
			continue
		}
		if k.hold(shard) {
			k.hear(EventTaken, shard)
			return
		}
		if err == nil {
			if drained, ok := k.unwanted(leased, shard); ok { // what the Part began is not cut off for that
				k.yield(drained, shard)
				return
			}
		}
		// It is lost, or was not taken.
		k.o.Part.Cut(shard)
		k.release(leased, shard)
		k.done(shard)
		return
	}
}

// unwanted tells whether a shard that was just taken is to be handed back, and until
// when there is time for that.
func (k *Keeper) unwanted(ctx context.Context, shard int) (context.Context, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	sh := &k.shares[shard]
	if sh.state != yielding {
		return nil, false
	}
	drained, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	sh.cancel = cancel
	return drained, true
}

// takeGrace is how long a Take may go on whose shard is not wanted any more: it has
// begun exchanges, which are finished where it ends by then, and cut off else.
const takeGrace = 2 * time.Second

// tryTake calls Part.Take when it is its turn.
func (k *Keeper) tryTake(leased, wanted context.Context, shard int) error {
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
		pause(ctx, min(takeGrace, k.o.Drain))
		cancel(errUnwanted)
	})()
	return k.o.Part.Take(ctx, shard)
}

// hold says that a shard was taken, unless its context was ended meanwhile.
func (k *Keeper) hold(shard int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	sh := &k.shares[shard]
	if sh.state != taking {
		return false
	}
	sh.state, sh.cancel = held, nil
	k.countBegun()
	return true
}

// give begins to hand back a shard, if it is owned. A Take that goes on is yielded
// when it ends, and one that has not begun does not begin.
func (k *Keeper) give(ctx context.Context, shard int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	sh := &k.shares[shard]
	switch sh.state {
	case taking:
		sh.state = yielding
		sh.leave()
	case held:
		drained, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		sh.state, sh.cancel = yielding, cancel
		k.work.Go(func() { k.yield(drained, shard) })
	case free, yielding, lost:
	}
}

// yield has the Part finish with a shard, and hands it back.
func (k *Keeper) yield(ctx context.Context, shard int) {
	defer k.done(shard)
	limited, cancel := context.WithTimeout(ctx, k.left(k.o.Drain))
	defer cancel()
	k.o.Part.Yield(limited, shard)
	if ctx.Err() != nil {
		k.o.Part.Cut(shard) // it was lost meanwhile
		return
	}
	if k.release(ctx, shard) {
		k.hear(EventYielded, shard)
	}
}

// release ends the lease on a shard, first here and then in the store. False: the
// store did not confirm that, and the lease may last for its time.
func (k *Keeper) release(ctx context.Context, shard int) bool {
	k.mu.Lock()
	k.until[shard].Store(0)
	sh := &k.shares[shard]
	sh.state, sh.releasing = lost, true // a renewal under way does not bring it back
	k.mu.Unlock()
	limit := releaseTime
	if k.ended.Load() != 0 {
		limit = k.left(k.o.Drain + farewell)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	err := k.o.Store.Release(ctx, k.o.Self.ID, []int{shard})
	k.mu.Lock()
	defer k.mu.Unlock()
	sh.releasing = false
	if err != nil {
		k.hearLocked(EventKept, shard)
	}
	return err == nil
}

// done is the end of a Take that came to nothing, and of a Yield.
func (k *Keeper) done(shard int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.shares[shard].cancel = nil
	k.free(shard)
}

// free makes a shard free to be taken again, once nobody calls the Part for it.
func (k *Keeper) free(shard int) {
	sh := &k.shares[shard]
	if sh.cancel != nil || sh.cutting {
		return
	}
	k.until[shard].Store(0)
	sh.state, k.settled = free, false
	k.countBegun()
}

// countBegun looks whether the start is over (Starting).
func (k *Keeper) countBegun() {
	if k.placed == 0 || k.begun.Load() {
		return
	}
	var is [states]int
	for shard := range k.shares {
		is[k.shares[shard].state]++
	}
	took := is[taking] == 0 && (is[held] > 0 || k.due == 0)
	if took || k.o.Lease > 0 && k.now()-k.placed >= int64(StartLimit(k.o.Lease)) {
		k.begun.Store(true)
		close(k.ready)
	}
}

// Starting returns nil once the Part works on the shards that this hub got at first:
// at least one, unless no shard is due to it. Shards that are due may still be with
// others, whose leases have to end; that is waited for no longer than the lease and
// startGrace. Before, the error says what the start waits for.
func (k *Keeper) Starting() error {
	if k.begun.Load() {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.placed == 0:
		return errors.New("the store has not told yet which shards are this hub's")
	case slices.ContainsFunc(k.shares[:], func(s share) bool { return s.state.owned() }):
		return errors.New("the subscriptions are being read from the store")
	default:
		return fmt.Errorf("the %d shards that are due to this hub are still other hubs': these hand them back, or their leases end", k.due)
	}
}

// pause waits, at most until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
