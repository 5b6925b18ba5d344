package catalogue

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/rshub/rshub/internal/base/strictjson"
)

// Kind is what a line of a catalogue is.
type Kind int

// The kinds of lines.
const (
	// EntryLine has an entry: the resource is as it says.
	EntryLine Kind = iota
	// Changes says that the entries after it are changes: a resource that they do not name stays as it is.
	Changes
	// End says that the catalogue is whole: a resource that the entries before it do not name
	// does not exist. What follows are changes.
	End
)

const beginChanges = "changes"

// Line is a line of a catalogue.
type Line struct {
	// Number counts the lines, from 1.
	Number int
	Kind   Kind
	Entry  Entry // of an EntryLine
	Count  int64 // of an End: how many entries there are before it
}

// LineError says what is wrong with a line. The lines after it can be read.
type LineError struct {
	Number int
	// URL and Path are what the line names, if that could be read.
	URL, Path string
	Err       error
}

func (e *LineError) Error() string {
	what := e.URL
	if what == "" {
		what = e.Path
	}
	if what != "" {
		what = fmt.Sprintf(" (%.200q)", what)
	}
	return fmt.Sprintf("line %d%s: %v", e.Number, what, e.Err)
}

// Unwrap returns what is wrong.
func (e *LineError) Unwrap() error { return e.Err }

// MaxLine is how many bytes a line may have.
const MaxLine = 1 << 20

// Reader reads a catalogue. It has at most one line in memory.
type Reader struct {
	in     *bufio.Reader
	number int
	long   []byte             // a line that is longer than the buffer of in
	wire   wire               // of the last line
	fields []strictjson.Field // those of wire
}

// NewReader returns a Reader of a catalogue.
func NewReader(in io.Reader) *Reader {
	r := &Reader{in: bufio.NewReaderSize(in, 64<<10)}
	r.fields = r.wire.fields()
	return r
}

// Next returns the next line that is not blank. The error is io.EOF at the end, a *LineError for a line that is wrong,
// and else that of the underlying reader.
func (r *Reader) Next() (Line, error) {
	for {
		text, err := r.line()
		if err != nil {
			return Line{}, err
		}
		if text = bytes.TrimSpace(text); r.number == 1 {
			text = bytes.TrimPrefix(text, []byte("\ufeff"))
		}
		if len(text) == 0 {
			continue
		}
		l, err := r.parse(text)
		if err != nil {
			return Line{}, &LineError{r.number, l.Entry.URL, l.Entry.Path, err}
		}
		l.Number = r.number
		return l, nil
	}
}

// Waiting reports whether there is no whole line that was received and not returned yet, so that Next may
// have to wait for one.
func (r *Reader) Waiting() bool {
	b, _ := r.in.Peek(r.in.Buffered()) // what is there
	return bytes.IndexByte(b, '\n') < 0
}

// line returns the next line. It is valid until the next call.
func (r *Reader) line() ([]byte, error) {
	r.number++
	text, err := r.in.ReadSlice('\n')
	if err == nil || errors.Is(err, io.EOF) && len(text) > 0 {
		return text, nil
	}
	if !errors.Is(err, bufio.ErrBufferFull) {
		return nil, err
	}
	r.long = append(r.long[:0], text...)
	for errors.Is(err, bufio.ErrBufferFull) {
		text, err = r.in.ReadSlice('\n')
		if len(r.long) <= MaxLine {
			r.long = append(r.long, text...)
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(r.long) > MaxLine {
		return nil, &LineError{Number: r.number, Err: fmt.Errorf("it has more than %d bytes; give the resource fewer links, or is the line break missing?", MaxLine)}
	}
	return r.long, nil
}
