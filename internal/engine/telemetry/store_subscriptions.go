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

func (t timedSubscriptions) Get(ctx context.Context, id uuid.UUID) (subscriptions.Record, error) {
	start := time.Now()
	rec, err := t.next.Get(ctx, id)
	t.m.done(opGet, start, err)
	return rec, err
}

// Update counts no error that change returned: it is not the store's.
func (t timedSubscriptions) Update(ctx context.Context, id uuid.UUID, change func(subscriptions.Record) (subscriptions.Record, error)) (subscriptions.Record, error) {
	start := time.Now()
	var declined error
	rec, err := t.next.Update(ctx, id, func(rec subscriptions.Record) (subscriptions.Record, error) {
		rec, declined = change(rec)
		return rec, declined
	})
	failure := err
	if declined != nil {
		failure = nil
	}
	t.m.done(opUpdate, start, failure)
	return rec, err
}

func (t timedSubscriptions) List(ctx context.Context, shard int, after uuid.UUID, limit int) ([]subscriptions.Record, error) {
	start := time.Now()
	records, err := t.next.List(ctx, shard, after, limit)
	t.m.done(opList, start, err)
	return records, err
}

func (t timedSubscriptions) Changed(ctx context.Context, shard int, since uint64) ([]uuid.UUID, uint64, error) {
	start := time.Now()
	ids, next, err := t.next.Changed(ctx, shard, since)
	t.m.done(opChanged, start, err)
	return ids, next, err
}

func (t timedSubscriptions) Attempts(ctx context.Context, id uuid.UUID) ([]subscriptions.Attempt, error) {
	start := time.Now()
	attempts, err := t.next.Attempts(ctx, id)
	t.m.done(opAttempts, start, err)
	return attempts, err
}

func (t timedSubscriptions) Commit(ctx context.Context, commits []subscriptions.Commit) error {
	start := time.Now()
	err := t.next.Commit(ctx, commits)
	t.m.done(opCommit, start, err)
	return err
}

// Room asks nothing of the store that takes time, so it is not timed.
func (t timedSubscriptions) Room(ctx context.Context) error { return t.next.Room(ctx) }
