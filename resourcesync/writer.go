package resourcesync

import (
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
)

// WriteOptions say how a document is written. The zero value is good for most.
type WriteOptions struct {
	// Gzip compresses the document.
	Gzip bool
	// MaxEntries and MaxBytes bound a document, in bytes before compression. A value that
	// is not positive, or above the limit of the specification, stands for that limit:
	// 50,000 entries and 52,428,800 bytes (DOC-60).
	MaxEntries int
	MaxBytes   int64
	// AsRead writes entries as a tolerant reader returned them: without looking for broken
	// rules, and without the bounds above. It is for those who hand on what others wrote,
	// and must leave nothing out. The head has to keep the rules all the same.
	AsRead bool
}

// The limits of the specification.
const (
	mostEntries = 50_000
	mostBytes   = 50 << 20
)

func (o WriteOptions) withDefaults() WriteOptions {
	o.MaxEntries = min(cmp.Or(max(o.MaxEntries, 0), mostEntries), mostEntries)
	o.MaxBytes = min(cmp.Or(max(o.MaxBytes, 0), mostBytes), mostBytes)
	if o.AsRead {
		o.MaxEntries, o.MaxBytes = math.MaxInt, math.MaxInt64
	}
	return o
}

// ErrFull says that with the entry a document would exceed WriteOptions.MaxEntries or
// MaxBytes. The document is unchanged and may be closed.
var ErrFull = errors.New("the document is full")

var errClosed = errors.New("the document is closed")

// flushSize is how many bytes a Writer collects before it writes them.
const flushSize = 32 << 10

// Writer writes one document of version 1.1, entry by entry: a urlset, or, if Head.Index
// is set, a sitemapindex. It keeps only a buffer of it in memory.
//
// Writing is strict: a Writer refuses what the rules of the document's kind do not allow
// (DOC-30 to DOC-46, and DOC-12 to DOC-20 for notifications), values of the wrong form
// (DOC-50 to DOC-60), and characters that XML does not allow. A refusal is an *Error with
// the rule and without a position. Elements are written in the order of the schema
// (DOC-51), and all times in UTC with Z (DOC-59).
//
// A Writer is for one goroutine.
type Writer struct {
	out      io.Writer
	zip      *gzip.Writer // nil unless compressing
	composer *composer
	left     int64 // how many bytes there is room for, foot excepted
	room     int   // how many entries there is room for
	err      error // of the underlying writer; sticky
	closed   bool
}

// NewWriter begins a document on w. The error is an *Error if h breaks a rule. Then
// nothing has been written to w.
func NewWriter(w io.Writer, h Head, o WriteOptions) (*Writer, error) {
	c, err := newComposer(&h)
	if err != nil {
		return nil, err
	}
	o = o.withDefaults()
	c.asRead = o.AsRead
	d := newWriter(w, c, &h, o)
	if d.left < 0 {
		return nil, tooLong(o)
	}
	return d, nil
}

func tooLong(o WriteOptions) error {
	return &Error{Kind: OverLimit, Rule: "DOC-60", Msg: fmt.Sprintf("the document is longer than %d bytes without any entry", o.MaxBytes)}
}

// newWriter begins a document whose head has been checked. The options have their
// defaults.
func newWriter(w io.Writer, c *composer, h *Head, o WriteOptions) *Writer {
	d := &Writer{out: w, composer: c, room: o.MaxEntries}
	if o.Gzip {
		d.zip = gzip.NewWriter(w)
		d.out = d.zip
	}
	c.head(h)
	d.left = o.MaxBytes - int64(len(c.buf)+len(c.foot()))
	return d
}

// Write appends an entry. It returns an *Error, which names the entry, if e breaks a
// rule, and ErrFull if there is no room for it. In both cases the document is unchanged,
// and other entries may follow. Any other error is that of the underlying writer, and
// ends the document.
//
// Entries must be in the order of time if the kind of document demands it: by Datetime in
// documents about changes, by From in archives and indexes of them. Entries without such
// a time may stand anywhere. The Writer does not keep e.
func (d *Writer) Write(e Entry) error {
	switch {
	case d.closed:
		return errClosed
	case d.err != nil:
		return d.err
	}
	c := d.composer
	before := c.now()
	if err := c.entry(&e); err != nil {
		return err
	}
	size := int64(len(c.buf) - before.size)
	if d.room == 0 || size > d.left {
		c.undo(before)
		return ErrFull
	}
	d.room--
	d.left -= size
	if len(c.buf) >= flushSize {
		d.flush()
	}
	return d.err
}

// Close ends the document and writes the rest of it. It does not close the underlying
// writer. A document without entries is a legal one (DOC-50). A second Close does nothing
// and returns the same again.
func (d *Writer) Close() error {
	if d.closed {
		return d.err
	}
	d.closed = true
	d.composer.raw(d.composer.foot())
	d.flush()
	if d.zip != nil && d.err == nil {
		d.fail(d.zip.Close())
	}
	return d.err
}

func (d *Writer) flush() {
	if d.err != nil {
		return
	}
	_, err := d.out.Write(d.composer.buf)
	d.composer.buf = d.composer.buf[:0]
	d.fail(err)
}

func (d *Writer) fail(err error) {
	if err != nil && d.err == nil {
		d.err = fmt.Errorf("writing the document: %w", err)
	}
}
