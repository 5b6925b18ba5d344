package sse

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
	"unicode/utf8"
)

// Block is what comes between two empty lines: an event, or only an id or a retry.
type Block struct {
	// Event is the name of the event; empty: it has none.
	Event string
	// Data are the data lines, joined by line feeds. They are valid until the next call of
	// Next. Nil: there is no event, whatever its name (the standard dispatches none then).
	Data []byte
	// ID is the last id of the stream up to here, also of an earlier block. HasID says
	// that this block has it.
	ID    string
	HasID bool
	// Retry is the time after which the client comes again; negative: the block has none.
	Retry time.Duration
}

// Errors of Next, besides those of the reader.
var (
	// ErrTooLong says that a block is over the limit.
	ErrTooLong = errors.New("an event is too long")
	// ErrEncoding says that the stream is not UTF-8.
	ErrEncoding = errors.New("the stream is not UTF-8")
)

// MaxID is the longest id in bytes. One that is longer is an error, since it has to be sent
// back in a header.
const MaxID = 8 << 10

// maxRetry bounds a retry: a server that asks for more gets this.
const maxRetry = 24 * time.Hour

// mostKept is the largest buffer that a Reader keeps for the next event, in bytes.
const mostKept = 64 << 10

// Reader reads a stream. It must not be shared between goroutines.
type Reader struct {
	in    *bufio.Reader
	limit int
	line  []byte // the line that is being read, if it did not fit into the buffer of in
	data  []byte
	id    string
	begun bool
	lf    bool // the last line ended with a carriage return, and a line feed belongs to it
}

// NewReader returns a Reader of r. Limit bounds a line and the data of a block, in bytes.
func NewReader(r io.Reader, limit int) *Reader {
	return &Reader{in: bufio.NewReaderSize(r, 16<<10), limit: limit}
}

// Next returns the next block that says anything. Comments are skipped. io.EOF is the end of
// the stream. A block that is not complete then is dropped, as the standard wants.
func (r *Reader) Next() (Block, error) {
	b := Block{Retry: -1}
	r.data = emptied(r.data)
	hasData, says := false, false
	for {
		line, err := r.readLine()
		if err != nil {
			return Block{}, err
		}
		if len(line) == 0 {
			if !says {
				b.Event = ""
				continue
			}
			if b.ID = r.id; hasData {
				b.Data = r.data[:len(r.data)-1] // without the last line feed
			}
			return b, nil
		}
		name, value, _ := bytes.Cut(line, []byte{':'})
		value = bytes.TrimPrefix(value, []byte{' '})
		switch string(name) {
		case "event":
			b.Event = string(value)
		case "data":
			if len(r.data)+len(value) > r.limit {
				return Block{}, fmt.Errorf("%w: more than %d bytes", ErrTooLong, r.limit)
			}
			r.data = append(append(r.data, value...), '\n')
			hasData, says = true, true
		case "id":
			if len(value) > MaxID {
				return Block{}, fmt.Errorf("%w: an id of more than %d bytes", ErrTooLong, MaxID)
			}
			if bytes.IndexByte(value, 0) < 0 {
				r.id, b.HasID, says = string(value), true, true
			}
		case "retry":
			if ms, ok := digits(value); ok {
				b.Retry, says = ms, true
			}
		}
	}
}

// digits reads milliseconds. Anything but digits counts as no field.
func digits(value []byte) (time.Duration, bool) {
	if len(value) == 0 || len(bytes.Trim(value, "0123456789")) > 0 {
		return 0, false
	}
	ms, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil || ms > maxRetry.Milliseconds() {
		return maxRetry, true
	}
	return time.Duration(ms) * time.Millisecond, true
}

// emptied returns an empty buffer: b, unless that is too large to be kept.
func emptied(b []byte) []byte {
	if cap(b) > mostKept {
		return nil
	}
	return b[:0]
}

// readLine returns a line without its end. It is valid until the next call.
func (r *Reader) readLine() ([]byte, error) {
	r.line = emptied(r.line)
	for {
		if _, err := r.in.Peek(1); err != nil {
			return nil, err // a line that has no end is dropped
		}
		chunk, _ := r.in.Peek(r.in.Buffered())
		if r.lf {
			r.lf = false
			if chunk[0] == '\n' {
				_, _ = r.in.Discard(1)
				continue
			}
		}
		end := bytes.IndexAny(chunk, "\r\n")
		if end < 0 {
			if len(r.line)+len(chunk) > r.limit {
				return nil, fmt.Errorf("%w: a line of more than %d bytes", ErrTooLong, r.limit)
			}
			r.line = append(r.line, chunk...)
			_, _ = r.in.Discard(len(chunk))
			continue
		}
		r.lf = chunk[end] == '\r'
		line := chunk[:end]
		if len(r.line) > 0 {
			r.line = append(r.line, line...)
			line = r.line
		}
		_, _ = r.in.Discard(end + 1) // the bytes stay until the next read
		if len(line) > r.limit {
			return nil, fmt.Errorf("%w: a line of more than %d bytes", ErrTooLong, r.limit)
		}
		if !r.begun {
			r.begun = true
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		if !utf8.Valid(line) {
			return nil, ErrEncoding
		}
		return line, nil
	}
}
