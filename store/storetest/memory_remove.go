package storetest

import (
	"context"

	"github.com/rshub/rshub/journal"
)

// Remove implements journal.Remover.
func (m *Memory) Remove(ctx context.Context, topic string, ifHead journal.Version) error {
	defer m.lock()()
	head := m.topic(topic).head
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case head.Version != ifHead:
		return journal.ErrHeadMoved
	}
	delete(m.pings, journal.TopicID(topic))
	if head.Version == "" {
		return nil
	}
	head = head.Tombstone()
	head.Version = m.mint(start, topic, 0).version
	m.changedTopic(&memTopic{head: head}, journal.Hint{Topic: topic})
	return nil
}
