package storetest

import (
	"cmp"
	"context"
	"slices"

	"github.com/rshub/rshub/journal"
)

// Intervals implements journal.Restorer.
func (m *Memory) Intervals(ctx context.Context, topic string) ([]journal.Interval, error) {
	defer m.lock()()
	return slices.Clone(m.topic(topic).intervals), ctx.Err()
}

// Refill implements journal.Restorer.
func (m *Memory) Refill(ctx context.Context, topic string, entries []journal.Entry) (added int, err error) {
	defer m.lock()()
	t := m.topic(topic)
	for _, e := range entries {
		if slices.ContainsFunc(t.entries, func(had journal.Entry) bool { return had.ID == e.ID }) {
			continue
		}
		if err := cmp.Or(ctx.Err(), journal.Refillable(t.head, e.Position)); err != nil {
			return added, err
		}
		e.Body = append([]byte{}, e.Body...)
		t.entries = append(t.entries, e)
		m.topics[topic] = t
		added++
	}
	return added, nil
}

// Restore implements journal.Restorer.
func (m *Memory) Restore(ctx context.Context, h journal.Head, remembered []journal.Interval) error {
	defer m.lock()()
	t := m.topic(h.Topic)
	head, news, err := journal.Restored(t.head, h)
	if err = cmp.Or(err, ctx.Err()); err != nil || !news {
		return err
	}
	head.Version = m.mint(start, h.Topic, 0).version
	head.Gaps = slices.Clone(head.Gaps)
	m.changedTopic(&memTopic{head: head, entries: t.entries, intervals: slices.Clone(remembered)}, journal.Hint{Topic: h.Topic})
	return nil
}
