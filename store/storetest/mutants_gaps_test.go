package storetest

import (
	"maps"
	"runtime"
	"slices"

	"github.com/rshub/rshub/journal"
)

func init() { maps.Copy(mutants, gapMutants) }

// gapMutants are defects of RecordGap.
var gapMutants = map[string]func(m *mutant){
	"a recorded gap is not kept": func(m *mutant) { m.record = func(string, journal.Gap) {} },
	"recorded gaps are not joined": func(m *mutant) {
		m.record = func(topic string, g journal.Gap) {
			if t := m.topics[topic]; t != nil {
				t.head.Gaps = journal.AddGap(t.head.Gaps, g)
			}
		}
	},
	"the last recorded gap wins": func(m *mutant) {
		m.record = func(topic string, g journal.Gap) {
			if t := m.topics[topic]; t != nil {
				t.head.Gaps = slices.DeleteFunc(slices.Clone(t.head.Gaps), func(old journal.Gap) bool { return old.From.Equal(g.From) })
				t.head.Gaps = append(t.head.Gaps, g)
			}
		}
	},
	"a recorded gap makes a head": func(m *mutant) {
		m.record = func(topic string, g journal.Gap) {
			t := m.topic(topic)
			t.head, _ = t.head.Lose(g)
			m.topics[topic] = t
		}
	},
	"recorded gaps are not bounded": func(m *mutant) {
		m.record = func(topic string, g journal.Gap) {
			if t := m.topics[topic]; t != nil && !slices.Contains(t.head.Gaps, g) {
				t.head.Gaps = append(t.head.Gaps, g)
			}
		}
	},
	"a gap is recorded without the position": func(m *mutant) {
		m.record = func(topic string, g journal.Gap) {
			if t := m.topics[topic]; t != nil {
				g.Position = 0
				t.head, _ = t.head.Lose(g)
			}
		}
	},
	"a gap is recorded without what was kept": func(m *mutant) {
		m.record = func(topic string, g journal.Gap) {
			if t := m.topics[topic]; t != nil {
				g.After = journal.Anchor{}
				t.head, _ = t.head.Lose(g)
			}
		}
	},
	"a gap is recorded in two steps": func(m *mutant) {
		m.record = func(topic string, g journal.Gap) {
			if t := m.topics[topic]; t != nil {
				head, _ := t.head.Lose(g)
				for n := 0; n < 10_000 && t.head.Version == head.Version; n++ {
					m.mu.Unlock()
					runtime.Gosched()
					m.mu.Lock()
				}
				t.head = head
			}
		}
	},
}
