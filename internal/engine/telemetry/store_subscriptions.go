package telemetry

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/subscriptions"
)

type timedSubscriptions struct {
	next subscriptions.Store
	m    *Metrics
}

func (t timedSubscriptions) Get(ctx context.Context, id uuid.UUID) (rec subscriptions.Record, err error) {
	defer t.m.done(opGet, time.Now(), &err)
	return t.next.Get(ctx, id)
}

// Update does not count an error of change as a failure of the store.
func (t timedSubscriptions) Update(ctx context.Context, id uuid.UUID, change func(subscriptions.Record) (subscriptions.Record, error)) (subscriptions.Record, error) {
	var declined, failure error
	defer t.m.done(opUpdate, time.Now(), &failure)
	rec, err := t.next.Update(ctx, id, func(rec subscriptions.Record) (subscriptions.Record, error) {
		rec, declined = change(rec)
		return rec, declined
	})
	if declined == nil {
		failure = err
	}
	return rec, err
}

func (t timedSubscriptions) List(ctx context.Context, shard int, after uuid.UUID, limit int) (records []subscriptions.Record, err error) {
	defer t.m.done(opList, time.Now(), &err)
	return t.next.List(ctx, shard, after, limit)
}

func (t timedSubscriptions) Changed(ctx context.Context, shard int, since uint64) (ids []uuid.UUID, next uint64, err error) {
	defer t.m.done(opChanged, time.Now(), &err)
	return t.next.Changed(ctx, shard, since)
}

func (t timedSubscriptions) Attempts(ctx context.Context, id uuid.UUID) (attempts []subscriptions.Attempt, err error) {
	defer t.m.done(opAttempts, time.Now(), &err)
	return t.next.Attempts(ctx, id)
}

func (t timedSubscriptions) Commit(ctx context.Context, commits []subscriptions.Commit) (err error) {
	defer t.m.done(opCommit, time.Now(), &err)
	return t.next.Commit(ctx, commits)
}

// Room is not timed, because it needs no time.
func (t timedSubscriptions) Room(ctx context.Context) error { return t.next.Room(ctx) }
