package storetest

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// copyRecord returns a record that shares nothing with rec.
func copyRecord(rec subscriptions.Record) subscriptions.Record {
	if rec.Subscription != nil {
		s := *rec.Subscription
		s.Gaps = slices.Clone(s.Gaps)
		rec.Subscription = &s
	}
	if rec.Request != nil {
		r := *rec.Request
		rec.Request = &r
	}
	return rec
}

func (m *Memory) touch(id uuid.UUID) {
	m.clock++
	m.changed[id] = m.clock
}

// Room implements subscriptions.Space: memory is never full.
func (*Memory) Room(ctx context.Context) error { return ctx.Err() }

// Get implements subscriptions.Registry.
func (m *Memory) Get(ctx context.Context, id uuid.UUID) (subscriptions.Record, error) {
	defer m.lock()()
	return copyRecord(m.records[id]), ctx.Err()
}

// Update implements subscriptions.Registry.
func (m *Memory) Update(ctx context.Context, id uuid.UUID, change func(subscriptions.Record) (subscriptions.Record, error)) (subscriptions.Record, error) {
	defer m.lock()()
	if ctx.Err() != nil {
		return subscriptions.Record{}, ctx.Err()
	}
	old := m.records[id]
	rec, err := change(copyRecord(old))
	if err != nil {
		return subscriptions.Record{}, err
	}
	rec = copyRecord(rec)
	if rec.Subscription != nil {
		rec.Subscription.ID = id
		if old.Subscription != nil {
			rec.Subscription.Cursor = journal.Merge(old.Subscription.Cursor, rec.Subscription.Cursor)
		}
	} else {
		delete(m.attempts, id)
	}
	m.records[id] = rec
	if rec.Subscription == nil && rec.Request == nil {
		delete(m.records, id)
	}
	m.touch(id)
	return copyRecord(rec), nil
}

// List implements subscriptions.Registry.
func (m *Memory) List(ctx context.Context, shard int, after uuid.UUID, limit int) (out []subscriptions.Record, err error) {
	if err := journal.CheckPartition(shard); err != nil {
		return nil, err
	}
	defer m.lock()()
	for _, id := range page(m.records, shard, after, limit) {
		out = append(out, copyRecord(m.records[id]))
	}
	return out, ctx.Err()
}

// Changed implements subscriptions.Registry.
func (m *Memory) Changed(ctx context.Context, shard int, since uint64) (ids []uuid.UUID, next uint64, err error) {
	if err := journal.CheckPartition(shard); err != nil {
		return nil, 0, err
	}
	defer m.lock()()
	for id, n := range m.changed {
		if subscriptions.Shard(id) == shard && n > since {
			ids = append(ids, id)
		}
	}
	return ids, m.clock, ctx.Err()
}

// Attempts implements subscriptions.History.
func (m *Memory) Attempts(ctx context.Context, id uuid.UUID) ([]subscriptions.Attempt, error) {
	defer m.lock()()
	return slices.Clone(m.attempts[id]), ctx.Err()
}

// Commit implements subscriptions.Committer.
func (m *Memory) Commit(ctx context.Context, commits []subscriptions.Commit) error {
	defer m.lock()()
	for _, c := range commits {
		s := m.records[c.ID].Subscription
		if ctx.Err() != nil || s == nil {
			continue
		}
		won, ended := s.Apply(&c)
		if !won {
			continue
		}
		if ended {
			m.touch(c.ID)
		}
		m.attempts[c.ID] = subscriptions.AddAttempts(m.attempts[c.ID], c.Attempts...)
	}
	return ctx.Err()
}
