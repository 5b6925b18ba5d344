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

// pingMutant is a store whose ping records have one defect.
type pingMutant struct {
	*Memory
	ping       func(ctx context.Context, now time.Time, topics []string) error
	setFetched func(done journal.PingRecord)
	unmark     func(ping journal.PingRecord)
	list       func(partition int, after uuid.UUID, limit int) ([]journal.PingRecord, error)
}

func (m *pingMutant) Ping(ctx context.Context, now time.Time, topics []string) error {
	if m.ping != nil {
		return m.ping(ctx, now, topics)
	}
	return m.Memory.Ping(ctx, now, topics)
}

func (m *pingMutant) SetFetched(ctx context.Context, done journal.PingRecord) error {
	if m.setFetched != nil {
		m.setFetched(done)
		return nil
	}
	return m.Memory.SetFetched(ctx, done)
}

func (m *pingMutant) DeletePingRecord(ctx context.Context, ping journal.PingRecord) error {
	if m.unmark != nil {
		m.unmark(ping)
		return nil
	}
	return m.Memory.DeletePingRecord(ctx, ping)
}

func (m *pingMutant) PingRecords(ctx context.Context, partition int, after uuid.UUID, limit int) ([]journal.PingRecord, error) {
	if m.list != nil {
		return m.list(partition, after, limit)
	}
	return m.Memory.PingRecords(ctx, partition, after, limit)
}

// stored is the ping record of a topic as it is stored.
func (m *pingMutant) stored(topic string) (journal.PingRecord, bool) {
	ping, ok := m.pings[journal.TopicID(topic)]
	return ping, ok
}

func (m *pingMutant) store(ping journal.PingRecord) { m.pings[journal.TopicID(ping.Topic)] = ping }

// crowded does what a good store does not where there are too many ping records.
func crowded(do func(m *pingMutant, topic string) error) func(m *pingMutant) {
	return func(m *pingMutant) {
		m.ping = func(ctx context.Context, now time.Time, topics []string) error {
			for _, topic := range topics {
				err := m.Memory.Ping(ctx, now, []string{topic})
				if errors.Is(err, journal.ErrTooManyPings) {
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

var pingMutants = map[string]func(m *pingMutant){
	"some topics of a refused ping are counted": crowded(func(*pingMutant, string) error { return journal.ErrTooManyPings }),
	"ping records are not bounded": func(m *pingMutant) {
		m.ping = func(_ context.Context, now time.Time, topics []string) error {
			for _, topic := range topics {
				ping, _ := m.stored(topic)
				ping.Topic = topic
				m.store(ping.Pinged(now))
			}
			return nil
		}
	},
	"one that waits makes room": crowded(func(m *pingMutant, topic string) error {
		for id, ping := range m.pings {
			if journal.Partition(id) == journal.Partition(journal.TopicID(topic)) && m.topics[ping.Topic] == nil {
				delete(m.pings, id)
				return nil
			}
		}
		return journal.ErrTooManyPings
	}),
	"the bound counts the topics with a head": func(m *pingMutant) {
		m.ping = func(ctx context.Context, now time.Time, topics []string) error {
			for _, topic := range topics {
				n := 0
				for id := range m.pings {
					if journal.Partition(id) == journal.Partition(journal.TopicID(topic)) {
						n++
					}
				}
				if _, ok := m.stored(topic); !ok && n >= journal.MaxPingRecords {
					return journal.ErrTooManyPings
				}
			}
			return m.Memory.Ping(ctx, now, topics)
		}
	},
	"nothing makes room": func(m *pingMutant) {
		m.ping = func(ctx context.Context, now time.Time, topics []string) error {
			before := maps.Clone(m.pings)
			err := m.Memory.Ping(ctx, now, topics)
			for id := range before {
				if _, ok := m.pings[id]; !ok {
					m.pings = before
					return journal.ErrTooManyPings
				}
			}
			return err
		}
	},
	"the one that was pinged last makes room": func(m *pingMutant) {
		m.ping = func(ctx context.Context, now time.Time, topics []string) error {
			before := maps.Clone(m.pings)
			err := m.Memory.Ping(ctx, now, topics)
			for id, ping := range before {
				if _, ok := m.pings[id]; ok {
					continue
				}
				for other, o := range m.pings {
					if journal.Partition(other) == journal.Partition(id) && !o.Waiting() && m.topics[o.Topic] == nil && o.PingedAt.After(ping.PingedAt) {
						delete(m.pings, other)
						m.pings[id] = ping
						break
					}
				}
			}
			return err
		}
	},
	"the latest ping has the time of the first": func(m *pingMutant) {
		m.ping = func(ctx context.Context, now time.Time, topics []string) error {
			before := maps.Clone(m.pings)
			err := m.Memory.Ping(ctx, now, topics)
			for id, old := range before {
				if ping, ok := m.pings[id]; ok {
					ping.PingedAt = old.PingedAt
					m.pings[id] = ping
				}
			}
			return err
		}
	},
	"a topic pinged twice at once counts once": func(m *pingMutant) {
		m.ping = func(ctx context.Context, now time.Time, topics []string) error {
			topics = slices.Clone(topics)
			slices.Sort(topics)
			return m.Memory.Ping(ctx, now, slices.Compact(topics))
		}
	},
	"a ping forgets what came of the last fetch": func(m *pingMutant) {
		m.ping = func(ctx context.Context, now time.Time, topics []string) error {
			err := m.Memory.Ping(ctx, now, topics)
			for _, topic := range topics {
				ping, _ := m.stored(topic)
				ping.Last = journal.Fetch{}
				m.store(ping)
			}
			return err
		}
	},
	"a fetch covers the pings that came meanwhile": func(m *pingMutant) {
		m.setFetched = func(done journal.PingRecord) {
			ping, ok := m.stored(done.Topic)
			if ping, changed := ping.AfterFetch(done); ok && changed {
				if done.Fetched == done.Pings {
					ping.Fetched = ping.Pings
				}
				m.store(ping)
			}
		}
	},
	"a fetch overwrites the pings": func(m *pingMutant) {
		m.setFetched = func(done journal.PingRecord) {
			if ping, ok := m.stored(done.Topic); ok && done.Fetched >= ping.Fetched && done.Fetched <= ping.Pings {
				m.store(done)
			}
		}
	},
	"what was fetched goes back": func(m *pingMutant) {
		m.setFetched = func(done journal.PingRecord) {
			if ping, ok := m.stored(done.Topic); ok && done.Fetched <= ping.Pings {
				ping.Fetched, ping.Tries, ping.NextAt, ping.Last = done.Fetched, done.Tries, done.NextAt, done.Last
				m.store(ping)
			}
		}
	},
	"what was fetched runs ahead of the pings": func(m *pingMutant) {
		m.setFetched = func(done journal.PingRecord) {
			if ping, ok := m.stored(done.Topic); ok && done.Fetched >= ping.Fetched {
				ping.Fetched, ping.Tries, ping.NextAt, ping.Last = done.Fetched, done.Tries, done.NextAt, done.Last
				m.store(ping)
			}
		}
	},
	"a fetch makes a ping record": func(m *pingMutant) {
		m.setFetched = func(done journal.PingRecord) {
			if ping, _ := m.stored(done.Topic); done.Fetched >= ping.Fetched && (ping.Topic == "" || done.Fetched <= ping.Pings) {
				ping.Topic, ping.Fetched, ping.Tries, ping.NextAt, ping.Last = done.Topic, done.Fetched, done.Tries, done.NextAt, done.Last
				m.store(ping)
			}
		}
	},
	"only a fetch that is done with is stored": func(m *pingMutant) {
		m.setFetched = func(done journal.PingRecord) {
			if done.Fetched == done.Pings {
				_ = m.Memory.SetFetched(context.Background(), done)
			}
		}
	},
	"a ping is forgotten with the ping record": func(m *pingMutant) {
		m.unmark = func(ping journal.PingRecord) { delete(m.pings, journal.TopicID(ping.Topic)) }
	},
	"a ping of a new ping record is forgotten with the old one": func(m *pingMutant) {
		m.unmark = func(ping journal.PingRecord) {
			if old, _ := m.stored(ping.Topic); old.Pings == ping.Pings {
				delete(m.pings, journal.TopicID(ping.Topic))
			}
		}
	},
	"nothing is forgotten": func(m *pingMutant) { m.unmark = func(journal.PingRecord) {} },
	"the list begins with the given one": func(m *pingMutant) {
		m.list = func(partition int, after uuid.UUID, limit int) ([]journal.PingRecord, error) {
			pings, err := m.Memory.PingRecords(context.Background(), partition, after, limit)
			if ping, ok := m.pings[after]; ok {
				pings = append([]journal.PingRecord{ping}, pings...)[:max(1, min(limit, len(pings)))]
			}
			return pings, err
		}
	},
	"the list has those of topics without a head alone": func(m *pingMutant) {
		m.list = func(partition int, after uuid.UUID, limit int) ([]journal.PingRecord, error) {
			pings, err := m.Memory.PingRecords(context.Background(), partition, after, limit)
			return slices.DeleteFunc(pings, func(ping journal.PingRecord) bool { return m.topics[ping.Topic] != nil }), err
		}
	},
	"the list is of another partition": func(m *pingMutant) {
		m.list = func(partition int, after uuid.UUID, limit int) ([]journal.PingRecord, error) {
			return m.Memory.PingRecords(context.Background(), partition+1, after, limit)
		}
	},
	"the list has no limit": func(m *pingMutant) {
		m.list = func(partition int, after uuid.UUID, _ int) ([]journal.PingRecord, error) {
			return m.Memory.PingRecords(context.Background(), partition, after, 1<<20)
		}
	},
}

func TestSuiteCatchesEveryMutantOfThePings(t *testing.T) {
	for name, defect := range pingMutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, c := range pingChecks {
				m := &pingMutant{Memory: NewMemory()}
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

// PingRecords that are lost in a restart are missed: a ping is durable when it was
// answered.
func TestSuiteCatchesPingsLostInARestart(t *testing.T) {
	for name, lose := range map[string]func(m *Memory){
		"all": func(m *Memory) { clear(m.pings) },
		"the last ping": func(m *Memory) {
			ping := m.pings[journal.TopicID(topicName)]
			ping.Pings--
			m.pings[journal.TopicID(topicName)] = ping
		},
	} {
		caught := false
		for _, c := range pingChecks {
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
