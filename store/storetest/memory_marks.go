package storetest

import (
	"context"
	"maps"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
)

// Ping implements journal.Marks.
func (m *Memory) Ping(ctx context.Context, now time.Time, topics []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	marks := maps.Clone(m.marks) // all or none
	pinged := map[uuid.UUID]bool{}
	for _, topic := range topics {
		pinged[journal.TopicID(topic)] = true
	}
	for _, topic := range topics {
		id := journal.TopicID(topic)
		mark, ok := marks[id]
		if !ok && m.topics[topic] == nil && !m.makeRoom(marks, journal.Partition(id), pinged) {
			return journal.ErrTooManyMarks
		}
		mark.Topic = topic
		marks[id] = mark.Pinged(now)
	}
	m.marks = marks
	return nil
}

// makeRoom forgets a mark of a topic without a head, if there are too many for
// one more and there is one that may be forgotten.
func (m *Memory) makeRoom(marks map[uuid.UUID]journal.Mark, partition int, keep map[uuid.UUID]bool) bool {
	n := 0
	var oldest *journal.Mark
	for id, mark := range marks {
		if journal.Partition(id) != partition || m.topics[mark.Topic] != nil {
			continue
		}
		n++
		if !mark.Waiting() && !keep[id] && (oldest == nil || mark.PingedAt.Before(oldest.PingedAt)) {
			oldest = &mark
		}
	}
	if n < journal.MaxMarks {
		return true
	}
	if oldest != nil {
		delete(marks, journal.TopicID(oldest.Topic))
	}
	return oldest != nil
}

// Mark implements journal.Marks.
func (m *Memory) Mark(ctx context.Context, topic string) (journal.Mark, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mark := m.marks[journal.TopicID(topic)]
	mark.Topic = topic
	return mark, ctx.Err()
}

// Marks implements journal.Marks.
func (m *Memory) Marks(ctx context.Context, partition int, after uuid.UUID, limit int) (out []journal.Mark, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range page(m.marks, partition, after, limit) {
		out = append(out, m.marks[id])
	}
	return out, ctx.Err()
}

// SetFetched implements journal.Marks.
func (m *Memory) SetFetched(ctx context.Context, done journal.Mark) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := journal.TopicID(done.Topic)
	if old, ok := m.marks[id]; ok && ctx.Err() == nil {
		m.marks[id], _ = old.Settle(done)
	}
	return ctx.Err()
}

// Unmark implements journal.Marks.
func (m *Memory) Unmark(ctx context.Context, mark journal.Mark) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := journal.TopicID(mark.Topic)
	if old := m.marks[id]; ctx.Err() == nil && old.Pings == mark.Pings && old.PingedAt.Equal(mark.PingedAt) {
		delete(m.marks, id)
	}
	return ctx.Err()
}
