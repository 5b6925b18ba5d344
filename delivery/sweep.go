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

// sweepOn asks the store every few seconds what changed. Hints may be lost, and other hubs send
// none of their changes. The sweep finds both for certain.
func (ss *shards) sweepOn(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	lastWalk := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := ss.sweep(ctx); err != nil && ctx.Err() == nil {
			ss.log.Warn("the store could not be asked what changed; it is asked again", zap.String("event", "sweep_failed"), zap.Error(err))
		}
		ss.heads.retry()
		if time.Since(lastWalk) >= walkEvery {
			lastWalk = time.Now()
			ss.sched.walkAll()
		}
	}
}

// sweep reads the changes of this hub's shards, and of the partitions of their topics. If some
// cannot be read, it reads the others, and the next sweep tries again. It returns the first error.
func (ss *shards) sweep(ctx context.Context) error {
	var failed error
	note := func(what string, of any, err error) {
		if err != nil && failed == nil {
			failed = fmt.Errorf("%s %v: %w", what, of, err)
		}
	}
	due := ss.sweepable()
	if ss.poll != nil {
		var err error
		due, err = ss.pollStore(ctx, due)
		note("all", "partitions and shards", err)
	}
	for i := range ss.all {
		if due.partitions[i] {
			topics, next, err := ss.journal.Changes(ctx, i, ss.since[i])
			note("partition", i, err)
			if err == nil {
				ss.since[i] = next
			}
			for _, url := range topics {
				ss.heads.touch(url)
			}
		}
		if t := due.shards[i]; t != nil {
			note("shard", i, ss.sweepShard(ctx, i, t))
		}
	}
	return failed
}

// swept is what a sweep asks the store about.
type swept struct {
	partitions [journal.Partitions]bool
	shards     [journal.Partitions]*tenure // nil: not this one
}

// sweepable returns everything to ask about. From now on, subscriptions that Apply was called
// for are to be read again.
func (ss *shards) sweepable() (all swept) {
	all.partitions = ss.sched.topics.has()
	for i := range ss.all {
		s := &ss.all[i]
		s.mu.Lock()
		if t := s.tenure; t != nil && t.loaded {
			for id := range t.touched {
				t.again[id] = struct{}{}
			}
			clear(t.touched)
			all.shards[i] = t
		}
		s.mu.Unlock()
	}
	return all
}

// pollStore returns those of which something is new, or left from before.
func (ss *shards) pollStore(ctx context.Context, all swept) (due swept, err error) {
	partitions, shards := make(map[int]uint64), make(map[int]uint64)
	for i, t := range all.shards {
		if all.partitions[i] {
			partitions[i] = ss.since[i]
		}
		if t == nil {
			continue
		}
		if shards[i] = t.changed; len(t.again) > 0 {
			due.shards[i] = t
		}
	}
	moved, changed, err := ss.poll(ctx, partitions, shards)
	for _, i := range moved {
		due.partitions[i] = true
	}
	for _, i := range changed {
		due.shards[i] = all.shards[i]
	}
	return due, err
}

// sweepShard applies what changed in a shard. It reads subscriptions that Apply was called for
// once more, as the store may have lost the change.
func (ss *shards) sweepShard(ctx context.Context, n int, t *tenure) error {
	ids, next, failed := ss.store.Changed(ctx, n, t.changed)
	switch {
	case failed == nil:
		t.changed = next
		for _, id := range ids {
			t.again[id] = struct{}{}
		}
	case errors.Is(failed, subscriptions.ErrChangesLost):
		failed = ss.loadAgain(ctx, n, t)
	}
	for id := range t.again {
		rec, err := ss.store.Get(ctx, id)
		if err != nil {
			failed = fmt.Errorf("subscription %v: %w", id, err)
			if errors.Is(err, journal.ErrPacked) {
				delete(t.again, id) // it counts as changed when it is stored anew
			}
			continue
		}
		ss.foundIn(rec)
		if rec.Subscription == nil {
			rec.Subscription = &subscriptions.Subscription{ID: id, EndedAt: ss.now()}
		}
		if ss.applyRead(t, rec.Subscription) {
			delete(t.again, id)
		}
	}
	return failed
}

// loadAgain reads a shard anew, because the store does not know any more what changed. The next
// sweeps read lanes that the store does not list one by one: a store that lost its tail may have
// lost their subscriptions.
func (ss *shards) loadAgain(ctx context.Context, n int, t *tenure) error {
	unlisted := make(map[uuid.UUID]struct{})
	for i, q := range ss.sched.all {
		q.do(func(*scheduler) {
			for _, l := range t.sets[i].lanes {
				unlisted[l.id] = struct{}{}
			}
		})
	}
	since := t.changed
	if err := ss.load(ctx, n, t, unlisted); err != nil {
		t.changed = since // so that the next sweep reads all of it
		return err
	}
	ss.lost(n, unlisted)
	maps.Copy(t.again, unlisted)
	return nil
}
