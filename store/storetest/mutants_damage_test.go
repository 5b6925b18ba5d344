package storetest

import (
	"context"
	"errors"
	"maps"

	"github.com/rshub/rshub/journal"
)

func init() { maps.Copy(mutants, damageMutants) }

// reading is a mutant that changes what Read answers about damage.
func reading(change func(m *mutant, topic string, after journal.Anchor, d *journal.DamagedError) ([]journal.Entry, error)) func(*mutant) {
	return func(m *mutant) {
		m.read = func(topic string, after journal.Anchor, limit int, maxBytes int64) ([]journal.Entry, error) {
			out, err := m.Memory.Read(context.Background(), topic, after, limit, maxBytes)
			var d *journal.DamagedError
			if errors.As(err, &d) {
				return change(m, topic, after, d)
			}
			return out, err
		}
	}
}

// damageMutants are defects of how damage is reported and passed over.
var damageMutants = map[string]func(m *mutant){
	"damage is an error like others": reading(func(_ *mutant, _ string, _ journal.Anchor, _ *journal.DamagedError) ([]journal.Entry, error) {
		return nil, errors.New("cannot be read")
	}),
	"a damaged entry is left out in silence": reading(func(m *mutant, topic string, _ journal.Anchor, d *journal.DamagedError) ([]journal.Entry, error) {
		return m.Memory.Read(context.Background(), topic, d.At, 10, 1<<30)
	}),
	"damage is told without its number": reading(func(_ *mutant, _ string, _ journal.Anchor, d *journal.DamagedError) ([]journal.Entry, error) {
		d.At.Seq = 0
		return nil, d
	}),
	"damage is told at the entry before it": reading(func(_ *mutant, _ string, after journal.Anchor, d *journal.DamagedError) ([]journal.Entry, error) {
		after.Seq, after.Until = d.At.Seq, d.At.Until
		return nil, &journal.DamagedError{At: after, Why: d.Why}
	}),
	"what comes after damage was trimmed": reading(func(_ *mutant, _ string, _ journal.Anchor, d *journal.DamagedError) ([]journal.Entry, error) {
		return nil, &journal.TrimmedError{To: d.At, Reason: journal.GapRetention}
	}),
	"what comes before damage is not read": func(m *mutant) {
		m.read = func(topic string, after journal.Anchor, limit int, maxBytes int64) ([]journal.Entry, error) {
			out, err := m.Memory.Read(context.Background(), topic, after, limit, maxBytes)
			if n := len(out); n > 0 && n < limit {
				if _, next := m.Memory.Read(context.Background(), topic, out[n-1].Anchor(), 1, maxBytes); errors.Is(next, journal.ErrDamaged) {
					return nil, next
				}
			}
			return out, err
		}
	},
	"a damaged body is handed out": func(m *mutant) {
		m.read = func(topic string, after journal.Anchor, limit int, maxBytes int64) ([]journal.Entry, error) {
			undamaged := *m.topic(topic)
			undamaged.damaged = maps.Clone(undamaged.damaged)
			maps.DeleteFunc(undamaged.damaged, func(_ journal.Position, d Damage) bool { return d == DamagedBody })
			whole := NewMemory()
			whole.topics[topic] = &undamaged
			return whole.Read(context.Background(), topic, after, limit, maxBytes)
		}
	},
	"trim takes a damaged entry for one that is left": func(m *mutant) {
		m.trim = func(topic string, _ journal.Cut) {
			t := m.topic(topic)
			for p, d := range t.damaged {
				if d.ofEntry() && p <= t.head.Trimmed.Position {
					t.head.Entries++
				}
			}
		}
	},
	"trim loses its place at damage": func(m *mutant) {
		m.trim = func(topic string, _ journal.Cut) {
			t := m.topic(topic)
			if _, ok := t.damaged[t.head.Trimmed.Position]; ok {
				t.head.Trimmed.Nonce = 1
			}
		}
	},
}
