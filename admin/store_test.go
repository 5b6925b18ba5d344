package admin

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// memory is the read side of a store. It answers a batch at a time, and never
// more than 7, as a store may.
type memory struct {
	heads   [journal.Partitions][]journal.Head
	records [journal.Partitions][]subscriptions.Record
	calls   atomic.Int64
	// failAfter, where not zero, is how many calls succeed.
	failAfter int64
}

var errBroken = errors.New("the disk is on fire")

func (m *memory) addTopic(h journal.Head) {
	p := journal.Partition(journal.TopicID(h.Topic))
	m.heads[p] = append(m.heads[p], h)
	slices.SortFunc(m.heads[p], func(a, b journal.Head) int { return compare(headID(a), headID(b)) })
}

func (m *memory) addRecord(r subscriptions.Record) {
	p := subscriptions.Shard(recordID(r))
	m.records[p] = append(m.records[p], r)
	slices.SortFunc(m.records[p], func(a, b subscriptions.Record) int { return compare(recordID(a), recordID(b)) })
}

func headID(h journal.Head) uuid.UUID { return journal.TopicID(h.Topic) }

func compare(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }

func (m *memory) call() error {
	if n := m.calls.Add(1); m.failAfter > 0 && n > m.failAfter {
		return errBroken
	}
	return nil
}

func (m *memory) Head(_ context.Context, topic string) (journal.Head, error) {
	for _, h := range m.heads[journal.Partition(journal.TopicID(topic))] {
		if h.Topic == topic {
			return h, m.call()
		}
	}
	return journal.Head{Topic: topic}, m.call()
}

func (m *memory) Topics(_ context.Context, p int, after uuid.UUID, limit int) ([]journal.Head, error) {
	return list(m.heads[p], after, limit, headID), m.call()
}

func (m *memory) Get(_ context.Context, id uuid.UUID) (subscriptions.Record, error) {
	for _, r := range m.records[subscriptions.Shard(id)] {
		if recordID(r) == id {
			return r, m.call()
		}
	}
	return subscriptions.Record{}, m.call()
}

func (m *memory) List(_ context.Context, p int, after uuid.UUID, limit int) ([]subscriptions.Record, error) {
	return list(m.records[p], after, limit, recordID), m.call()
}

func list[T any](all []T, after uuid.UUID, limit int, id func(T) uuid.UUID) []T {
	var out []T
	for _, v := range all {
		if compare(id(v), after) > 0 && len(out) < min(limit, 7) {
			out = append(out, v)
		}
	}
	return out
}
