package storetest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/rshub/rshub/journal"
)

// restoreMutant is a store that restores topics with one defect.
type restoreMutant struct {
	*Memory
	before    func(m *Memory, h *journal.Head, remembered *[]journal.Interval)
	after     func(t *memTopic)
	intervals func(all []journal.Interval) []journal.Interval
	refill    func(m *Memory, topic string, entries []journal.Entry) (added int, err error)
}

func (m *restoreMutant) Refill(ctx context.Context, topic string, entries []journal.Entry) (int, error) {
	if m.refill != nil {
		return m.refill(m.Memory, topic, entries)
	}
	return m.Memory.Refill(ctx, topic, entries)
}

func (m *restoreMutant) Restore(ctx context.Context, h journal.Head, remembered []journal.Interval) error {
	if m.before != nil {
		m.before(m.Memory, &h, &remembered)
	}
	err := m.Memory.Restore(ctx, h, remembered)
	if err == nil && m.after != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.after(m.topics[h.Topic])
	}
	return err
}

func (m *restoreMutant) Intervals(ctx context.Context, topic string) ([]journal.Interval, error) {
	all, err := m.Memory.Intervals(ctx, topic)
	if m.intervals != nil {
		all = m.intervals(all)
	}
	return all, err
}

func TestSuiteCatchesMutantsOfRestore(t *testing.T) {
	for name, mutate := range map[string]func(m *restoreMutant){
		"keeps what was retained elsewhere": func(m *restoreMutant) { m.after = func(t *memTopic) { t.head.Entries = 1 } },
		"doesn't say what was trimmed":      func(m *restoreMutant) { m.after = func(t *memTopic) { t.head.Trimmed = journal.Anchor{} } },
		"forgets the gaps":                  func(m *restoreMutant) { m.after = func(t *memTopic) { t.head.Gaps = nil } },
		"forgets the intervals":             func(m *restoreMutant) { m.after = func(t *memTopic) { t.intervals = nil } },
		"tells nobody":                      func(m *restoreMutant) { m.after = func(t *memTopic) { t.changed = 0 } },
		"replaces whatever there is": func(m *restoreMutant) {
			m.before = func(m *Memory, h *journal.Head, _ *[]journal.Interval) { delete(m.topics, h.Topic) }
		},
		"never replaces": func(m *restoreMutant) {
			m.before = func(m *Memory, h *journal.Head, remembered *[]journal.Interval) {
				if t := m.topics[h.Topic]; t != nil {
					*h, *remembered = t.head, t.intervals
				}
			}
		},
		"drops what was refilled": func(m *restoreMutant) { m.after = func(t *memTopic) { t.entries = nil } },
		"refills no bodies": func(m *restoreMutant) {
			m.refill = func(m *Memory, topic string, entries []journal.Entry) (int, error) {
				entries = slices.Clone(entries)
				for i := range entries {
					entries[i].Body = nil
				}
				return m.Refill(context.Background(), topic, entries)
			}
		},
		"counts what it had": func(m *restoreMutant) {
			m.refill = func(m *Memory, topic string, entries []journal.Entry) (int, error) {
				_, err := m.Refill(context.Background(), topic, entries)
				return len(entries), err
			}
		},
		"refills whatever there is": func(m *restoreMutant) {
			m.refill = func(m *Memory, topic string, entries []journal.Entry) (int, error) {
				added, err := m.Refill(context.Background(), topic, entries)
				if errors.Is(err, journal.ErrHeadMoved) {
					err = nil
				}
				return added, err
			}
		},
		"shows what was refilled at once": func(m *restoreMutant) {
			m.refill = func(m *Memory, topic string, entries []journal.Entry) (int, error) {
				added, err := m.Refill(context.Background(), topic, entries)
				if t := m.topics[topic]; t != nil && t.head.Version == "" && added > 0 {
					t.head.Version, t.head.Last = "shown", entries[len(entries)-1].Anchor()
				}
				return added, err
			}
		},
		"takes the epoch back": func(m *restoreMutant) { m.after = func(t *memTopic) { t.head.Epoch = 0 } },
		"gives the oldest last": func(m *restoreMutant) {
			m.intervals = func(all []journal.Interval) []journal.Interval {
				if len(all) > 1 {
					all[0], all[len(all)-1] = all[len(all)-1], all[0]
				}
				return all
			}
		},
		"remembers one too many": func(m *restoreMutant) {
			m.before = func(_ *Memory, _ *journal.Head, remembered *[]journal.Interval) {
				if n := len(*remembered); n == journal.Remembered {
					*remembered = append((*remembered)[:1:1], *remembered...)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			caught := false
			for _, c := range slices.Concat(restoreChecks, removeChecks) {
				memory := NewMemory()
				m := &restoreMutant{Memory: memory}
				mutate(m)
				h := memory.Harness()
				h.Store = m
				h.Reopen = func() (Store, error) { return m, nil }
				if why := failure(t.Context(), c, h); why != "" {
					caught = true
					break
				}
			}
			if !caught {
				t.Error("no check notices")
			}
		})
	}
}
