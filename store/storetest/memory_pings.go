package storetest

import (
	"context"
	"maps"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
)

// Ping implements journal.Pings.
func (m *Memory) Ping(ctx context.Context, now time.Time, topics []string) error {
	defer m.lock()()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	pings := maps.Clone(m.pings) // all or none
	pinged := map[uuid.UUID]bool{}
	for _, topic := range topics {
		pinged[journal.TopicID(topic)] = true
	}
	for _, topic := range topics {
		id := journal.TopicID(topic)
		ping, ok := pings[id]
		if !ok && m.topics[topic] == nil && !makeRoom(m, pings, journal.Partition(id), pinged) {
			return journal.ErrTooManyPings
		}
		ping.Topic = topic
		pings[id] = ping.Pinged(now)
	}
	m.pings = pings
	return nil
}

// makeRoom forgets a ping record of a topic without a head, if there are too many for
// one more and there is one that may be forgotten.
func makeRoom(m *Memory, pings map[uuid.UUID]journal.PingRecord, partition int, keep map[uuid.UUID]bool) bool {
	n := 0
	var oldest *journal.PingRecord
	for id, ping := range pings {
		if journal.Partition(id) != partition || m.topics[ping.Topic] != nil {
			continue
		}
		n++
		if !ping.Waiting() && !keep[id] && (oldest == nil || ping.PingedAt.Before(oldest.PingedAt)) {
			oldest = &ping
		}
	}
	if n < journal.MaxPingRecords {
		return true
	}
	if oldest != nil {
		delete(pings, journal.TopicID(oldest.Topic))
	}
	return oldest != nil
}

// PingRecord implements journal.Pings.
func (m *Memory) PingRecord(ctx context.Context, topic string) (journal.PingRecord, error) {
	defer m.lock()()
	ping := m.pings[journal.TopicID(topic)]
	ping.Topic = topic
	return ping, ctx.Err()
}

// PingRecords implements journal.Pings.
func (m *Memory) PingRecords(ctx context.Context, partition int, after uuid.UUID, limit int) (out []journal.PingRecord, err error) {
	if err := journal.CheckPartition(partition); err != nil {
		return nil, err
	}
	defer m.lock()()
	for _, id := range page(m.pings, partition, after, limit) {
		out = append(out, m.pings[id])
	}
	return out, ctx.Err()
}

// SetFetched implements journal.Pings.
func (m *Memory) SetFetched(ctx context.Context, done journal.PingRecord) error {
	defer m.lock()()
	id := journal.TopicID(done.Topic)
	if old, ok := m.pings[id]; ok && ctx.Err() == nil {
		m.pings[id], _ = old.AfterFetch(done)
	}
	return ctx.Err()
}

// DeletePingRecord implements journal.Pings.
func (m *Memory) DeletePingRecord(ctx context.Context, ping journal.PingRecord) error {
	defer m.lock()()
	id := journal.TopicID(ping.Topic)
	if old := m.pings[id]; ctx.Err() == nil && old.Pings == ping.Pings && old.PingedAt.Equal(ping.PingedAt) {
		delete(m.pings, id)
	}
	return ctx.Err()
}
