package storetest

import (
	"bytes"
	"context"
	"sync"
	"time"
)

// shelved is a value of journal.Shelf, and when it expires; zero: never.
type shelved struct {
	value []byte
	until time.Time
}

// memShelf is the shelf of a Memory.
type memShelf struct {
	mu sync.Mutex
	of map[string]shelved
}

// Keep implements journal.Shelf.
func (m *memShelf) Keep(_ context.Context, name string, fresh []byte, life time.Duration) ([]byte, error) {
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
	m.of[name] = v
	return bytes.Clone(kept), nil
}

// Kept implements journal.Shelf.
func (m *memShelf) Kept(_ context.Context, name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.shelved(name), nil
}

// shelved is Kept. Mu is held.
func (m *memShelf) shelved(name string) []byte {
	v := m.of[name]
	if !v.until.IsZero() && !time.Now().Before(v.until) {
		return nil
	}
	return bytes.Clone(v.value)
}

// Drop implements journal.Shelf.
func (m *memShelf) Drop(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, name)
	return nil
}
