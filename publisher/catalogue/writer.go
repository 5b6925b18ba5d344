package catalogue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Writer writes a catalogue. Give it a buffered io.Writer if there are many entries.
type Writer struct {
	to    io.Writer
	line  bytes.Buffer
	json  *json.Encoder // to line
	back  *Reader       // of line
	count int64
}

// NewWriter begins a catalogue.
func NewWriter(to io.Writer) *Writer {
	w := &Writer{to: to, back: NewReader(nil)}
	w.json = json.NewEncoder(&w.line)
	w.json.SetEscapeHTML(false)
	return w
}

// Changes begins a catalogue of changes. Call it before Write, and End not at all.
func (w *Writer) Changes() error { return w.put(&wire{Begin: beginChanges}, nil) }

// Write appends an entry. It returns an error and writes nothing if Check returns one, or if a Reader
// would refuse the line. It leaves out the paths and attributes of links, which a catalogue does not have.
func (w *Writer) Write(e Entry) error {
	err := e.Check()
	if err == nil {
		err = w.put(wireOf(&e), &e)
	}
	if err != nil {
		return fmt.Errorf("%.200q: %w", e.URL+e.Path, err)
	}
	w.count++
	return nil
}

// End ends a whole catalogue. Without it, nothing that is missing in the catalogue is deleted.
func (w *Writer) End() error { return w.put(&wire{End: true, Count: &w.count}, nil) }

// put writes a line, which says e, if it has an entry.
func (w *Writer) put(l *wire, e *Entry) error {
	w.line.Reset()
	if err := w.json.Encode(l); err != nil {
		return err
	}
	if e != nil {
		if err := w.check(e); err != nil {
			return err
		}
	}
	_, err := w.to.Write(w.line.Bytes())
	return err
}

// check reads the line of an entry back.
func (w *Writer) check(e *Entry) error {
	if n := w.line.Len(); n > MaxLine {
		return fmt.Errorf("its line would have %d bytes, and %d are the most; give the resource fewer links", n, MaxLine)
	}
	l, err := w.back.parse(bytes.TrimSpace(w.line.Bytes()))
	if err == nil && (l.Entry.URL != e.URL || l.Entry.Path != e.Path || l.Entry.Content != e.Content) {
		err = errors.New("its url, path or content is not UTF-8, which JSON cannot have; rename the file, or percent-encode the address")
	}
	return err
}
