package storetest

import (
	"bytes"
	"context"
	"time"
)

// shelved is a value of journal.Shelf, and when it expires; zero: never.
type shelved struct {
	value []byte
	until time.Time
}

// Keep implements journal.Shelf.
func (m *Memory) Keep(_ context.Context, name string, fresh []byte, life time.Duration) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := m.shelved(name)
	if kept == nil {
		kept = bytes.Clone(fresh)
	}
	v := shelved{value: kept}
	if life > 0 {
		v.until = time.Now().Add(life)
	}
	if m.shelf == nil {
		m.shelf = map[string]shelved{}
	}
	m.shelf[name] = v
	return bytes.Clone(kept), nil
}

// Kept implements journal.Shelf.
func (m *Memory) Kept(_ context.Context, name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.shelved(name), nil
}

// shelved is Kept. Mu is held.
func (m *Memory) shelved(name string) []byte {
	v := m.shelf[name]
	if !v.until.IsZero() && !time.Now().Before(v.until) {
		return nil
	}
	return bytes.Clone(v.value)
}

// Drop implements journal.Shelf.
func (m *Memory) Drop(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.shelf, name)
	return nil
}
