package storetest

import (
	"context"
	"slices"

	"github.com/rshub/rshub/journal"
)

// Intervals implements journal.Restorer.
func (m *Memory) Intervals(ctx context.Context, topic string) ([]journal.Interval, error) {
	defer m.lock()()
	return slices.Clone(m.topic(topic).intervals), ctx.Err()
}

// Restore implements journal.Restorer.
func (m *Memory) Restore(ctx context.Context, h journal.Head, remembered []journal.Interval) error {
	defer m.lock()()
	t := m.topic(h.Topic)
	head, news, err := journal.Restored(t.head, h)
	if err != nil || !news {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	head.Version = m.mint(start, h.Topic, 0).version
	head.Gaps = slices.Clone(head.Gaps)
	m.clock++
	m.topics[h.Topic] = &memTopic{head: head, intervals: slices.Clone(remembered), changed: m.clock}
	m.hints.Send(h.Topic)
	return nil
}
