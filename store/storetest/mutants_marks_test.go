package storetest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
)

// markMutant is a store whose marks have one defect.
type markMutant struct {
	*Memory
	ping       func(ctx context.Context, now time.Time, topics []string) error
	setFetched func(done journal.Mark)
	unmark     func(mark journal.Mark)
	list       func(partition int, after uuid.UUID, limit int) ([]journal.Mark, error)
}

func (m *markMutant) Ping(ctx context.Context, now time.Time, topics []string) error {
	if m.ping != nil {
		return m.ping(ctx, now, topics)
	}
	return m.Memory.Ping(ctx, now, topics)
}

func (m *markMutant) SetFetched(ctx context.Context, done journal.Mark) error {
	if m.setFetched != nil {
		m.setFetched(done)
		return nil
	}
	return m.Memory.SetFetched(ctx, done)
}

func (m *markMutant) Unmark(ctx context.Context, mark journal.Mark) error {
	if m.unmark != nil {
		m.unmark(mark)
		return nil
	}
	return m.Memory.Unmark(ctx, mark)
}

func (m *markMutant) Marks(ctx context.Context, partition int, after uuid.UUID, limit int) ([]journal.Mark, error) {
	if m.list != nil {
		return m.list(partition, after, limit)
	}
	return m.Memory.Marks(ctx, partition, after, limit)
}

// stored is the mark of a topic as it is stored.
func (m *markMutant) stored(topic string) (journal.Mark, bool) {
	mark, ok := m.marks[journal.TopicID(topic)]
	return mark, ok
}

func (m *markMutant) store(mark journal.Mark) { m.marks[journal.TopicID(mark.Topic)] = mark }

// crowded does what a good store does not where there are too many marks.
func crowded(do func(m *markMutant, topic string) error) func(m *markMutant) {
	return func(m *markMutant) {
		m.ping = func(ctx context.Context, now time.Time, topics []string) error {
			for _, topic := range topics {
				err := m.Memory.Ping(ctx, now, []string{topic})
				if errors.Is(err, journal.ErrTooManyMarks) {
					if err = do(m, topic); err == nil {
						err = m.Memory.Ping(ctx, now, []string{topic})
					}
				}
				if err != nil {
					return err
				}
			}
			return nil
		}
	}
}

var markMutants = map[string]func(m *markMutant){
	"some topics of a refused ping are counted": crowded(func(*markMutant, string) error { return journal.ErrTooManyMarks }),
	"marks are not bounded": func(m *markMutant) {
		m.ping = func(_ context.Context, now time.Time, topics []string) error {
			for _, topic := range topics {
				mark, _ := m.stored(topic)
				mark.Topic = topic
				m.store(mark.Pinged(now))
			}
			return nil
		}
	},
	"one that waits makes room": crowded(func(m *markMutant, topic string) error {
		for id, mark := range m.marks {
			if journal.Partition(id) == journal.Partition(journal.TopicID(topic)) && m.topics[mark.Topic] == nil {
				delete(m.marks, id)
				return nil
			}
		}
		return journal.ErrTooManyMarks
	}),
	"the bound counts the topics with a head": func(m *markMutant) {
		m.ping = func(ctx context.Context, now time.Time, topics []string) error {
			for _, topic := range topics {
				n := 0
				for id := range m.marks {
					if journal.Partition(id) == journal.Partition(journal.TopicID(topic)) {
						n++
					}
				}
				if _, ok := m.stored(topic); !ok && n >= journal.MaxMarks {
					return journal.ErrTooManyMarks
				}
			}
			return m.Memory.Ping(ctx, now, topics)
		}
	},
	"nothing makes room": func(m *markMutant) {
		m.ping = func(ctx context.Context, now time.Time, topics []string) error {
			before := maps.Clone(m.marks)
			err := m.Memory.Ping(ctx, now, topics)
			for id := range before {
				if _, ok := m.marks[id]; !ok {
					m.marks = before
					return journal.ErrTooManyMarks
				}
			}
			return err
		}
	},
	"the one that was pinged last makes room": func(m *markMutant) {
		m.ping = func(ctx context.Context, now time.Time, topics []string) error {
			before := maps.Clone(m.marks)
			err := m.Memory.Ping(ctx, now, topics)
			for id, mark := range before {
				if _, ok := m.marks[id]; ok {
					continue
				}
				for other, o := range m.marks {
					if journal.Partition(other) == journal.Partition(id) && !o.Waiting() && m.topics[o.Topic] == nil && o.PingedAt.After(mark.PingedAt) {
						delete(m.marks, other)
						m.marks[id] = mark
						break
					}
				}
			}
			return err
		}
	},
	"the latest ping has the time of the first": func(m *markMutant) {
		m.ping = func(ctx context.Context, now time.Time, topics []string) error {
			before := maps.Clone(m.marks)
			err := m.Memory.Ping(ctx, now, topics)
			for id, old := range before {
				if mark, ok := m.marks[id]; ok {
					mark.PingedAt = old.PingedAt
					m.marks[id] = mark
				}
			}
			return err
		}
	},
	"a topic pinged twice at once counts once": func(m *markMutant) {
		m.ping = func(ctx context.Context, now time.Time, topics []string) error {
			topics = slices.Clone(topics)
			slices.Sort(topics)
			return m.Memory.Ping(ctx, now, slices.Compact(topics))
		}
	},
	"a ping forgets what came of the last fetch": func(m *markMutant) {
		m.ping = func(ctx context.Context, now time.Time, topics []string) error {
			err := m.Memory.Ping(ctx, now, topics)
			for _, topic := range topics {
				mark, _ := m.stored(topic)
				mark.Last = journal.Fetch{}
				m.store(mark)
			}
			return err
		}
	},
	"a fetch covers the pings that came meanwhile": func(m *markMutant) {
		m.setFetched = func(done journal.Mark) {
			mark, ok := m.stored(done.Topic)
			if mark, changed := mark.Settle(done); ok && changed {
				if done.Fetched == done.Pings {
					mark.Fetched = mark.Pings
				}
				m.store(mark)
			}
		}
	},
	"a fetch overwrites the pings": func(m *markMutant) {
		m.setFetched = func(done journal.Mark) {
			if mark, ok := m.stored(done.Topic); ok && done.Fetched >= mark.Fetched && done.Fetched <= mark.Pings {
				m.store(done)
			}
		}
	},
	"what was fetched goes back": func(m *markMutant) {
		m.setFetched = func(done journal.Mark) {
			if mark, ok := m.stored(done.Topic); ok && done.Fetched <= mark.Pings {
				mark.Fetched, mark.Tries, mark.NextAt, mark.Last = done.Fetched, done.Tries, done.NextAt, done.Last
				m.store(mark)
			}
		}
	},
	"what was fetched runs ahead of the pings": func(m *markMutant) {
		m.setFetched = func(done journal.Mark) {
			if mark, ok := m.stored(done.Topic); ok && done.Fetched >= mark.Fetched {
				mark.Fetched, mark.Tries, mark.NextAt, mark.Last = done.Fetched, done.Tries, done.NextAt, done.Last
				m.store(mark)
			}
		}
	},
	"a fetch makes a mark": func(m *markMutant) {
		m.setFetched = func(done journal.Mark) {
			if mark, _ := m.stored(done.Topic); done.Fetched >= mark.Fetched && (mark.Topic == "" || done.Fetched <= mark.Pings) {
				mark.Topic, mark.Fetched, mark.Tries, mark.NextAt, mark.Last = done.Topic, done.Fetched, done.Tries, done.NextAt, done.Last
				m.store(mark)
			}
		}
	},
	"only a fetch that is done with is stored": func(m *markMutant) {
		m.setFetched = func(done journal.Mark) {
			if done.Fetched == done.Pings {
				_ = m.Memory.SetFetched(context.Background(), done)
			}
		}
	},
	"a ping is forgotten with the mark": func(m *markMutant) {
		m.unmark = func(mark journal.Mark) { delete(m.marks, journal.TopicID(mark.Topic)) }
	},
	"a ping of a new mark is forgotten with the old one": func(m *markMutant) {
		m.unmark = func(mark journal.Mark) {
			if old, _ := m.stored(mark.Topic); old.Pings == mark.Pings {
				delete(m.marks, journal.TopicID(mark.Topic))
			}
		}
	},
	"nothing is forgotten": func(m *markMutant) { m.unmark = func(journal.Mark) {} },
	"the list begins with the given one": func(m *markMutant) {
		m.list = func(partition int, after uuid.UUID, limit int) ([]journal.Mark, error) {
			marks, err := m.Memory.Marks(context.Background(), partition, after, limit)
			if mark, ok := m.marks[after]; ok {
				marks = append([]journal.Mark{mark}, marks...)[:max(1, min(limit, len(marks)))]
			}
			return marks, err
		}
	},
	"the list has those of topics without a head alone": func(m *markMutant) {
		m.list = func(partition int, after uuid.UUID, limit int) ([]journal.Mark, error) {
			marks, err := m.Memory.Marks(context.Background(), partition, after, limit)
			return slices.DeleteFunc(marks, func(mark journal.Mark) bool { return m.topics[mark.Topic] != nil }), err
		}
	},
	"the list is of another partition": func(m *markMutant) {
		m.list = func(partition int, after uuid.UUID, limit int) ([]journal.Mark, error) {
			return m.Memory.Marks(context.Background(), partition+1, after, limit)
		}
	},
	"the list has no limit": func(m *markMutant) {
		m.list = func(partition int, after uuid.UUID, _ int) ([]journal.Mark, error) {
			return m.Memory.Marks(context.Background(), partition, after, 1<<20)
		}
	},
}

func TestSuiteCatchesEveryMutantOfTheMarks(t *testing.T) {
	for name, defect := range markMutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, c := range markChecks {
				m := &markMutant{Memory: NewMemory()}
				defect(m)
				h := m.Harness()
				h.Store = m
				if why := failure(t.Context(), c, h); why != "" {
					t.Logf("%s: %s", c.Name, why)
					return
				}
			}
			t.Error("the whole suite passes")
		})
	}
}

// Marks that are lost in a restart are missed: a ping is durable when it was
// answered.
func TestSuiteCatchesMarksLostInARestart(t *testing.T) {
	for name, lose := range map[string]func(m *Memory){
		"all": func(m *Memory) { clear(m.marks) },
		"the last ping": func(m *Memory) {
			mark := m.marks[journal.TopicID(topicName)]
			mark.Pings--
			m.marks[journal.TopicID(topicName)] = mark
		},
	} {
		caught := false
		for _, c := range markChecks {
			m := NewMemory()
			h := m.Harness()
			h.Reopen = func() (Store, error) {
				lose(m)
				return m, nil
			}
			caught = caught || failure(t.Context(), c, h) != ""
		}
		if !caught {
			t.Errorf("%s: the whole suite passes", name)
		}
	}
}
