package storetest

import (
	"errors"
	"maps"

	"github.com/rshub/rshub/journal"
)

// damage is Harness.Damage.
func (m *Memory) damage(topic string, e journal.Entry, d Damage) error {
	defer m.lock()()
	t := m.topic(topic)
	t.damaged = maps.Clone(t.damaged)
	if t.damaged == nil {
		t.damaged = map[journal.Position]Damage{}
	}
	t.damaged[e.Position] = d
	return nil
}

// check is the error about an entry as it is to be handed out, with its body or
// without.
func (t *memTopic) check(e journal.Entry) error {
	d, ok := t.damaged[e.Position]
	if !ok || e.Body == nil && !d.ofEntry() {
		return nil
	}
	at := e.Anchor()
	if d == MissingEntry {
		at.Nonce = 0
	}
	return &journal.DamagedError{At: at, ID: e.ID, Why: errors.New(d.String())}
}
