package storetest

import (
	"context"
	"maps"

	"github.com/rshub/rshub/journal"
)

func init() { maps.Copy(mutants, removeMutants) }

func (m *mutant) Remove(ctx context.Context, topic string, ifHead journal.Version) error {
	if m.remove != nil {
		return m.remove(topic, ifHead)
	}
	return m.Memory.Remove(ctx, topic, ifHead)
}

// removing is a mutant that does something else to a topic that was removed; was is
// what there was before.
func removing(change func(m *mutant, was, is *memTopic)) func(*mutant) {
	return func(m *mutant) {
		m.remove = func(topic string, ifHead journal.Version) error {
			was := *m.topic(topic)
			err := m.Memory.Remove(context.Background(), topic, ifHead)
			if is := m.topics[topic]; err == nil && is != nil {
				m.locked(func() { change(m, &was, is) })
			}
			return err
		}
	}
}

// removeMutants are defects of Remove.
var removeMutants = map[string]func(m *mutant){
	"remove ignores ifHead": func(m *mutant) {
		m.remove = func(topic string, _ journal.Version) error {
			return m.Memory.Remove(context.Background(), topic, m.topic(topic).head.Version)
		}
	},
	"remove leaves no tombstone":  removing(func(m *mutant, was, _ *memTopic) { delete(m.topics, was.head.Topic) }),
	"remove leaves the version":   removing(func(_ *mutant, was, is *memTopic) { is.head.Version = was.head.Version }),
	"remove leaves the epoch":     removing(func(_ *mutant, was, is *memTopic) { is.head.Epoch = was.head.Epoch }),
	"remove leaves until":         removing(func(_ *mutant, was, is *memTopic) { is.head.Until = was.head.Until }),
	"remove leaves the kind":      removing(func(_ *mutant, was, is *memTopic) { is.head.Kind = was.head.Kind }),
	"remove leaves gaps":          removing(func(_ *mutant, was, is *memTopic) { is.head.Gaps = was.head.Gaps }),
	"remove leaves intervals":     removing(func(_ *mutant, was, is *memTopic) { is.intervals = was.intervals }),
	"remove leaves entries":       removing(func(_ *mutant, was, is *memTopic) { is.entries = was.entries }),
	"positions begin anew":        removing(func(_ *mutant, _, is *memTopic) { is.head.Last = journal.Anchor{} }),
	"seqs begin anew":             removing(func(_ *mutant, _, is *memTopic) { is.head.Last.Seq = 0 }),
	"a removal looks like a trim": removing(func(_ *mutant, _, is *memTopic) { is.head.Removed = journal.Anchor{} }),
	"a removal looks like a loss": removing(func(_ *mutant, _, is *memTopic) { is.head.Trimmed = journal.Anchor{} }),
	"a removal is not told":       removing(func(_ *mutant, was, is *memTopic) { is.changed = was.changed }),
	"remove makes a head": func(m *mutant) {
		m.remove = func(topic string, ifHead journal.Version) error {
			err := m.Memory.Remove(context.Background(), topic, ifHead)
			if err == nil {
				m.topics[topic] = m.topic(topic)
				m.topics[topic].head.Version = "v"
			}
			return err
		}
	},
	"remove leaves the ping record": func(m *mutant) {
		m.remove = func(topic string, ifHead journal.Version) error {
			ping, pinged := m.pings[journal.TopicID(topic)]
			err := m.Memory.Remove(context.Background(), topic, ifHead)
			if pinged {
				m.pings[journal.TopicID(topic)] = ping
			}
			return err
		}
	},
	"remove takes the ping records of all": func(m *mutant) {
		m.remove = func(topic string, ifHead journal.Version) error {
			clear(m.pings)
			return m.Memory.Remove(context.Background(), topic, ifHead)
		}
	},
}
