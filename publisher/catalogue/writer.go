package catalogue

import (
	"encoding/json"
	"fmt"
	"io"
)

// Writer writes a catalogue. Give it a buffered io.Writer if there are many entries.
type Writer struct {
	to    *json.Encoder
	count int64
}

// NewWriter begins a catalogue.
func NewWriter(to io.Writer) *Writer {
	w := &Writer{to: json.NewEncoder(to)}
	w.to.SetEscapeHTML(false)
	return w
}

// Changes begins a catalogue of changes. Call it before Write, and End not at all.
func (w *Writer) Changes() error { return w.to.Encode(wire{Begin: beginChanges}) }

// Write appends an entry. It returns an error and writes nothing if Check returns one.
func (w *Writer) Write(e Entry) error {
	if err := e.Check(); err != nil {
		return fmt.Errorf("%q: %w", e.URL+e.Path, err)
	}
	w.count++
	return w.to.Encode(wireOf(&e))
}

// End ends a whole catalogue. Without it, nothing that is missing in the catalogue is deleted.
func (w *Writer) End() error { return w.to.Encode(wire{End: true, Count: &w.count}) }
