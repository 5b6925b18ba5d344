package resourcesync

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// outlet is a part that is being written.
type outlet struct {
	w    io.WriteCloser
	url  string
	head Head
	doc  *Writer
}

// part ends a part at until: the open one, or else one of the first queued entries.
func (p *Splitter) part(size int64, count int, until time.Time) error {
	if p.open == nil {
		if err := p.begin(until); err != nil {
			return err
		}
	}
	o := p.open
	p.open, p.passed = nil, 0 // document closes it
	if err := p.document(o.w, o.doc, size); err != nil {
		return err
	}
	p.count -= count
	p.from, p.cut = until, cut{}
	if !p.timed {
		p.queued = queue{} // no more entries will be queued
	}
	if p.index == nil {
		return nil
	}
	h := &o.head
	err := p.index.Write(Entry{Loc: o.url, At: h.At, Completed: h.Completed, From: h.From, Until: h.Until})
	if errors.Is(err, ErrFull) {
		return &Error{Kind: OverLimit, Rule: "DOC-60", Msg: fmt.Sprintf("there are more than %d parts, the most that an index can list", mostEntries)}
	}
	return err
}

// begin begins a part, and before the first of them the index.
func (p *Splitter) begin(until time.Time) error {
	if p.zero != nil && p.index == nil {
		h := p.head
		h.Index = true
		var err error
		if p.index, err = NewWriter(p.zero, h, WriteOptions{Gzip: p.options.Gzip}); err != nil {
			return err
		}
	}
	p.parts++
	w, url, err := p.sink.Create(p.parts)
	if err != nil {
		return fmt.Errorf("creating part %d: %w", p.parts, err)
	}
	h := p.headOfPart(p.from, until)
	p.open = &outlet{w, url, h, newWriter(w, &composer{}, &h, p.options)}
	return nil
}

// pass writes an entry to the open part, whose head does not say when it ends.
func (p *Splitter) pass(text []byte) error {
	if p.open == nil {
		if err := p.begin(time.Time{}); err != nil {
			return p.fail(err)
		}
	}
	p.passed += int64(len(text))
	d := p.open.doc
	if d.composer.buf = append(d.composer.buf, text...); len(d.composer.buf) >= flushSize {
		d.flush()
	}
	if d.err != nil {
		return p.fail(d.err)
	}
	return nil
}

// document ends d with the first queued entries, and closes w.
func (p *Splitter) document(w io.WriteCloser, d *Writer, size int64) error {
	d.flush()
	if d.err == nil {
		d.fail(p.queued.moveTo(d.out, size))
	}
	return end(w, d)
}

// end ends d, and closes w, to which it is written.
func end(w io.WriteCloser, d *Writer) error {
	if err := d.Close(); err != nil {
		discard(w, err)
		return err
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("closing the document: %w", err)
	}
	return nil
}

// Close writes the rest: the one document, or the last part and the index. After an error
// it only returns that error; discard the parts that were completed before it. A second
// Close returns the same again.
func (p *Splitter) Close() error {
	if p.closed || p.err != nil {
		p.closed = true
		return p.err
	}
	p.closed = true
	if err := p.finish(); err != nil {
		return p.fail(err)
	}
	return nil
}

func (p *Splitter) finish() error {
	if p.parts > 0 {
		if err := p.part(p.queued.size, p.count, p.head.Until); err != nil || p.index == nil {
			return err
		}
	} else if p.zero == nil {
		if err := p.create(); err != nil {
			return err
		}
	}
	w := p.zero
	p.zero = nil // it is closed below
	if p.index != nil {
		return end(w, p.index)
	}
	return p.document(w, newWriter(w, &composer{}, &p.head, p.options), p.queued.size)
}

// Abort ends the Splitter because of err, which is not nil. Open documents are closed as
// failed, and Write and Close return err. It does nothing after an error or Close.
func (p *Splitter) Abort(err error) {
	if p.err == nil && !p.closed {
		_ = p.fail(err)
	}
}

// fail ends the whole, and returns err.
func (p *Splitter) fail(err error) error {
	p.err = err
	if p.open != nil {
		discard(p.open.w, err)
		p.open = nil
	}
	if p.zero != nil {
		discard(p.zero, err)
		p.zero = nil
	}
	p.queued = queue{}
	return err
}

// discard closes a document that is not complete.
func discard(w io.WriteCloser, err error) {
	if c, ok := w.(interface{ CloseWithError(error) error }); ok {
		_ = c.CloseWithError(err) // err is the reason that matters
		return
	}
	_ = w.Close()
}
