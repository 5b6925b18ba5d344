package delivery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// sweepOn asks the store every few seconds what changed. Hints may be lost, and
// what another hub did comes with none; this is the guarantee behind them.
func (d *Dispatcher) sweepOn(ctx context.Context) {
	tick := time.NewTicker(d.o.Sweep)
	defer tick.Stop()
	lastWalk := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := d.sweep(ctx); err != nil && ctx.Err() == nil {
			d.log.Warn("the store could not be asked what changed; it is asked again", zap.String("event", "sweep_failed"), zap.Error(err))
		}
		d.retryHeads()
		if time.Since(lastWalk) >= walkEvery {
			lastWalk = time.Now()
			d.walkAll()
		}
	}
}

// sweep goes through the shards that this hub has, and the partitions of their
// topics. What cannot be read is asked for again the next time, and hides nothing
// else; the first error comes back.
func (d *Dispatcher) sweep(ctx context.Context) error {
	var failed error
	note := func(what string, of any, err error) {
		if err != nil && failed == nil {
			failed = fmt.Errorf("%s %v: %w", what, of, err)
		}
	}
	select {
	case <-d.moves.begun:
	default:
		return nil // nothing was taken yet
	}
	due := d.sweepable()
	if d.o.Poll != nil {
		var err error
		due, err = d.poll(ctx, due)
		note("all", "partitions and shards", err)
	}
	for i := range d.shards {
		if due.partitions[i] {
			topics, next, err := d.o.Journal.Changes(ctx, i, d.moves.since[i])
			note("partition", i, err)
			if err == nil {
				d.moves.since[i] = next
			}
			for _, url := range topics {
				d.touch(url)
			}
		}
		if t := due.shards[i]; t != nil {
			note("shard", i, d.sweepShard(ctx, i, t))
		}
	}
	return failed
}

// swept is what a sweep asks the store about.
type swept struct {
	partitions [journal.Partitions]bool
	shards     [journal.Partitions]*tenure // nil: not this one
}

// sweepable is all that there is to ask about.
func (d *Dispatcher) sweepable() (all swept) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.shards {
		all.partitions[i] = d.partitions[i] > 0
		if t := d.shards[i].tenure; t != nil && t.loaded {
			all.shards[i] = t
		}
	}
	return all
}

// poll returns what there is something new of, or something left from before.
func (d *Dispatcher) poll(ctx context.Context, all swept) (due swept, err error) {
	partitions, shards := make(map[int]uint64), make(map[int]uint64)
	d.mu.Lock()
	for i, t := range all.shards {
		if all.partitions[i] {
			partitions[i] = d.moves.since[i]
		}
		if t == nil {
			continue
		}
		if shards[i] = t.changed; len(t.again)+len(t.touched) > 0 {
			due.shards[i] = t
		}
	}
	d.mu.Unlock()
	moved, changed, err := d.o.Poll(ctx, partitions, shards)
	for _, i := range moved {
		due.partitions[i] = true
	}
	for _, i := range changed {
		due.shards[i] = all.shards[i]
	}
	return due, err
}

// sweepShard takes over what changed in a shard. What Apply told of it is read
// once more: the store may lose it before its counter was asked for.
func (d *Dispatcher) sweepShard(ctx context.Context, n int, t *tenure) error {
	d.takeTouched(t)
	ids, next, failed := d.o.Subscriptions.Changed(ctx, n, t.changed)
	switch {
	case failed == nil:
		t.changed = next
		for _, id := range ids {
			t.again[id] = struct{}{}
		}
	case errors.Is(failed, subscriptions.ErrChangesLost):
		failed = d.loadAgain(ctx, n, t)
	}
	for id := range t.again {
		rec, err := d.o.Subscriptions.Get(ctx, id)
		if err != nil {
			failed = fmt.Errorf("subscription %v: %w", id, err)
			if errors.Is(err, journal.ErrPacked) {
				delete(t.again, id) // whoever stores it anew has it told again
			}
			continue
		}
		d.found(rec)
		if rec.Subscription == nil {
			rec.Subscription = &subscriptions.Subscription{ID: id, EndedAt: d.o.Clock.Now()}
		}
		if d.applyRead(t, rec.Subscription) {
			delete(t.again, id)
		}
	}
	return failed
}

// loadAgain reads a shard anew, since the store can't tell what changed. Lanes that
// it does not list are to be read one by one: a store that lost its tail may have
// lost their subscriptions.
func (d *Dispatcher) loadAgain(ctx context.Context, n int, t *tenure) error {
	unlisted := make(map[uuid.UUID]struct{})
	d.mu.Lock()
	if s := &d.shards[n]; s.tenure == t {
		for id := range s.lanes {
			unlisted[id] = struct{}{}
		}
	}
	d.mu.Unlock()
	since := t.changed
	if err := d.load(ctx, n, t, unlisted); err != nil {
		t.changed = since // so that the next sweep reads all of it
		return err
	}
	if len(unlisted) > 0 {
		d.log.Warn("the store lost subscriptions, so nothing is sent to them any more until they subscribe again",
			zap.String("event", "subscriptions_lost"), zap.Int("shard", n), zap.Int("subscriptions", len(unlisted)))
	}
	maps.Copy(t.again, unlisted)
	return nil
}

// walkAll looks at every lane. A clock that jumped ahead and came back left
// some idle that have their lease after all.
func (d *Dispatcher) walkAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range d.topics {
		d.walk(t, false)
	}
}
