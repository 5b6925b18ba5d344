package storetest

import (
	"bytes"
	"context"
	"sync"

	"github.com/rshub/rshub/journal"
)

// memNotes is the notebook of a Memory.
type memNotes struct {
	mu  sync.Mutex
	all [][]byte // the latest first
}

// Note implements journal.Notebook.
func (m *memNotes) Note(_ context.Context, texts ...[]byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, text := range texts {
		m.all = append([][]byte{bytes.Clone(text)}, m.all...)
	}
	m.all = m.all[:min(len(m.all), journal.MaxNotes)]
	return nil
}

// Notes implements journal.Notebook.
func (m *memNotes) Notes(context.Context) (texts [][]byte, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, text := range m.all {
		texts = append(texts, bytes.Clone(text))
	}
	return texts, nil
}
