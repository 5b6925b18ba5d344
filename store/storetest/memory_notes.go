package storetest

import (
	"bytes"
	"context"

	"github.com/rshub/rshub/journal"
)

// Note implements journal.Notebook.
func (m *Memory) Note(_ context.Context, texts ...[]byte) error {
	defer m.lock()()
	for _, text := range texts {
		m.notes = append([][]byte{bytes.Clone(text)}, m.notes...)
	}
	m.notes = m.notes[:min(len(m.notes), journal.MaxNotes)]
	return nil
}

// Notes implements journal.Notebook.
func (m *Memory) Notes(context.Context) (texts [][]byte, err error) {
	defer m.lock()()
	for _, text := range m.notes {
		texts = append(texts, bytes.Clone(text))
	}
	return texts, nil
}
