package admin

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// memory is the read side of a store. It answers a batch at a time, and never
// more than 7, as a store may.
type memory struct {
	heads    [journal.Partitions][]journal.Head
	pings    [journal.Partitions][]journal.PingRecord
	records  [journal.Partitions][]subscriptions.Record
	entries  map[string][]journal.Entry
	attempts []subscriptions.Attempt // of every subscription
	bodies   map[uuid.UUID][]byte    // by notification
	calls    atomic.Int64
	removed  atomic.Int64 // topics that were to be removed; they stay
	// onReset comes before each Reset.
	onReset func(topic string)
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

func (m *memory) addPing(ping journal.PingRecord) {
	p := journal.Partition(journal.TopicID(ping.Topic))
	m.pings[p] = append(m.pings[p], ping)
	slices.SortFunc(m.pings[p], func(a, b journal.PingRecord) int { return compare(pingID(a), pingID(b)) })
}

// addEntries gives a topic n notifications of a minute each, from noon on, the
// first trimmed of which are gone, and returns the others.
func (m *memory) addEntries(topic string, n, trimmed int) []journal.Entry {
	p := journal.Partition(journal.TopicID(topic))
	all := make([]journal.Entry, n)
	for i := range all {
		at := noon.Add(time.Duration(i+1) * time.Minute)
		id, _ := journal.NewID(at, p)
		all[i] = journal.Entry{
			ID: id, Position: journal.Position(at.UnixNano()), Seq: uint64(i + 1), ReceivedAt: at,
			From: at.Add(-time.Minute), Until: at, Kind: journal.KindChange, MediaType: "application/xml",
			SHA256: [32]byte{byte(i)}, Counts: journal.Counts{Created: 1, Updated: 2, Deleted: uint32(i)}, Size: int64(1000 + i),
		}
	}
	if m.entries == nil {
		m.entries = make(map[string][]journal.Entry)
	}
	m.entries[topic] = all[trimmed:]
	h := journal.Head{Topic: topic, Version: "1", Kind: journal.KindChange, From: all[n-1].From, Until: all[n-1].Until, Last: all[n-1].Anchor(), ID: all[n-1].ID}
	if trimmed > 0 {
		h.Trimmed = all[trimmed-1].Anchor()
	}
	m.addTopic(h)
	return m.entries[topic]
}

func pingID(m journal.PingRecord) uuid.UUID { return journal.TopicID(m.Topic) }

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

func (m *memory) PingRecords(_ context.Context, p int, after uuid.UUID, limit int) ([]journal.PingRecord, error) {
	return list(m.pings[p], after, limit, pingID), m.call()
}

func (m *memory) Find(_ context.Context, id uuid.UUID) (string, journal.Entry, error) {
	for topic, entries := range m.entries {
		for _, e := range entries {
			if e.ID == id {
				return topic, e, m.call()
			}
		}
	}
	return "", journal.Entry{}, cmp.Or(m.call(), journal.ErrNotFound)
}

func (m *memory) Read(ctx context.Context, topic string, after journal.Anchor, limit int, maxBytes int64) ([]journal.Entry, error) {
	head, err := m.Head(ctx, topic)
	switch {
	case err != nil:
		return nil, err
	case maxBytes != 0:
		return nil, errors.New("bodies are read for nothing")
	case after.Position < head.Trimmed.Position:
		return nil, head.TrimmedAfter(after)
	}
	var out []journal.Entry
	for _, e := range m.entries[topic] {
		if e.Position > after.Position && len(out) < min(limit, 7) {
			out = append(out, e)
		}
	}
	return out, nil
}

func (m *memory) Reset(_ context.Context, topic string, ifHead journal.Version) error {
	if m.onReset != nil {
		m.onReset(topic)
	}
	heads := m.heads[journal.Partition(journal.TopicID(topic))]
	for i := range heads {
		if heads[i].Topic != topic {
			continue
		}
		if heads[i].Version != ifHead {
			return journal.ErrHeadMoved
		}
		heads[i].Reset, heads[i].Kind = true, ""
		heads[i].Version += "r"
	}
	return m.call()
}

func (m *memory) Remove(_ context.Context, topic string, ifHead journal.Version) error {
	for _, h := range m.heads[journal.Partition(journal.TopicID(topic))] {
		if h.Topic == topic && h.Version != ifHead {
			return journal.ErrHeadMoved
		}
	}
	m.removed.Add(1)
	return m.call()
}

func (m *memory) Attempts(context.Context, uuid.UUID) ([]subscriptions.Attempt, error) {
	return m.attempts, m.call()
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

func (m *memory) Body(_ context.Context, _ string, e journal.Entry) ([]byte, error) {
	if body, ok := m.bodies[e.ID]; ok {
		return body, nil
	}
	return nil, e.Damaged(errors.New("it is gone"))
}
