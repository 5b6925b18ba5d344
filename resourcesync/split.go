package resourcesync

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// Sink is where a Splitter puts its documents.
type Sink interface {
	// Create begins a document. It returns a writer for it and its future URL. Number 0
	// is the only document if everything fits into one, or else the index of parts 1, 2
	// and so on. So it has the same URL either way.
	//
	// The Splitter calls Close on the writer when the document is complete. When it
	// failed, it calls CloseWithError(error) error, as io.PipeWriter has it, or Close if
	// there is no such method. A writer whose document may only appear when it is
	// complete needs that method. Number 0 is created first and closed last. Besides it,
	// one part is open at a time. Notifications have no index; their number 0 is created
	// only if everything fits into it.
	Create(part int) (w io.WriteCloser, url string, err error)
}

// Splitter writes a document of any length: one document if everything fits, or
// else parts and their index, each within WriteOptions.MaxEntries and MaxBytes
// (DOC-60). The parts have the links of the head and an rs:ln rel="index", the
// index names them in order.
//
// Parts of documents about resources have the snapshot times of the whole. Those about
// changes have consecutive intervals, from included and until not, which begin with the
// head's From and end with its Until; so the last part is open if the head is (DOC-39 to
// DOC-42). A part ends between an entry and a strictly later one, never within one
// instant, and not next to an entry that has no time, which is Datetime, or From of a
// package. Notifications are split in the same way into several, without an index
// (DOC-11). Capability Lists and manifests are never split. The limits include the head
// of a part with its link to the index.
//
// A Splitter is as strict as a Writer. The packages of a Change Dump must also be in
// order. It keeps the text of one part in memory, at most MaxBytes: of the first, since
// it may be the only one, and of every part whose head says when the part ends. End it
// with Close or, if no more entries are available because of an error, with Abort. It is
// for one goroutine.
type Splitter struct {
	sink     Sink
	options  WriteOptions
	head     Head // of the whole
	composer *composer
	room     int64 // for the entries of a part, in bytes

	splits, timed bool   // whether there may be parts, and whether each has its interval
	url           string // of number 0
	zero          io.WriteCloser
	index         *Writer // on zero, once there is a part

	queued      queue   // the entries of the next part
	open        *outlet // the part that is being written; nil while entries are queued
	passed      int64   // the entries in it, in bytes
	count       int     // how many entries are queued, or in the open part
	parts       int     // how many parts have been begun
	from        time.Time
	cut         cut       // where the next part may end
	timedLast   bool      // whether the last entry had a time
	begun, done time.Time // the latest time at which an entry begins, and ends

	err    error // sticky
	closed bool
}

// cut is a place between two queued entries, and the time of the later.
type cut struct {
	size  int64
	count int
	at    time.Time
}

// NewSplitter begins a document with the head h, which must not be an index or have a
// link to one. The error is an *Error if h breaks a rule, or that of the sink. In the
// options, MaxEntries and MaxBytes bound each part.
func NewSplitter(h Head, s Sink, o WriteOptions) (*Splitter, error) {
	if _, part := h.Link("index"); part || h.Index {
		return nil, badAt("DOC-60", 0, 0, "only a document without an index can be split; leave the index, and the link to it, to the Splitter")
	}
	c, err := newComposer(&h)
	if err != nil {
		return nil, err
	}
	h.Links, h.Attributes = slices.Clone(h.Links), slices.Clone(h.Attributes) // they are used later
	index := kindOf(h.Capability, true)
	indexed := index != nil && !index.inputOnly
	p := &Splitter{
		sink: s, options: o.withDefaults(), head: h, composer: c, from: h.From,
		splits: indexed || h.Capability == ChangeNotification || h.Capability == FrameworkNotification,
		timed:  !h.From.IsZero() || !h.Until.IsZero(),
	}
	if indexed {
		if err := p.create(); err != nil {
			return nil, err
		}
	}
	if err := p.measure(); err != nil {
		return nil, p.fail(err)
	}
	return p, nil
}

// create begins number 0.
func (p *Splitter) create() (err error) {
	p.zero, p.url, err = p.sink.Create(0)
	if err != nil {
		return fmt.Errorf("creating the document: %w", err)
	}
	return nil
}

// measure finds how much room the longest head of a part leaves.
func (p *Splitter) measure() error {
	longest := time.Unix(maxSeconds, 999_999_999)
	h := p.headOfPart(longest, longest)
	c := p.composer
	c.head(&h)
	p.room = p.options.MaxBytes - int64(len(c.buf)+len(c.foot()))
	c.buf = c.buf[:0]
	if c.fault != nil {
		return c.fault
	}
	if p.room < 0 {
		return tooLong(p.options)
	}
	return nil
}

// headOfPart returns the head of a part with this interval, if the document has one.
func (p *Splitter) headOfPart(from, until time.Time) Head {
	h := p.head
	if p.url != "" {
		h.Links = append(slices.Clip(h.Links), Link{Rel: "index", Href: p.url})
	}
	if p.timed {
		h.From, h.Until = from, until
	}
	return h
}

// Write appends an entry. An entry that breaks a rule is refused as by Writer.Write, and
// others may follow. An entry that no part has room for, which is an *Error of kind
// OverLimit by DOC-60, ends the Splitter, and so does an error of the sink.
func (p *Splitter) Write(e Entry) error {
	switch {
	case p.closed:
		return errClosed
	case p.err != nil:
		return p.err
	}
	c := p.composer
	if p.head.Capability == ChangeDump && !e.From.IsZero() && e.From.Before(p.begun) {
		return c.inEntry(&e, &Error{Kind: BadDocument, Rule: "DOC-41", Msg: fmt.Sprintf("from, %s, is earlier than %s of a package before it; where they may have to be split they must come in order",
			FormatDatetime(e.From), FormatDatetime(p.begun))})
	}
	if err := c.entry(&e); err != nil {
		return err
	}
	text := c.buf
	c.buf = c.buf[:0]
	p.consider(&e)
	if !p.fits(text) && p.cut.count > 0 {
		if err := p.part(p.cut.size, p.cut.count, p.cut.at); err != nil {
			return p.fail(err)
		}
	}
	if !p.fits(text) {
		return p.fail(p.full(&e, text))
	}
	p.count++
	if p.parts > 0 && !p.timed {
		return p.pass(text)
	}
	p.queued.append(text)
	return nil
}

func (p *Splitter) fits(text []byte) bool {
	return p.count < p.options.MaxEntries && p.queued.size+p.passed+int64(len(text)) <= p.room
}

// consider records that the next part may end before e, if it may.
func (p *Splitter) consider(e *Entry) {
	may := p.splits && p.count > 0
	var begins time.Time
	if p.timed {
		ends := e.Datetime
		if begins = e.Datetime; p.head.Capability == ChangeDump {
			begins, ends = e.From, e.Until
		}
		may = may && p.timedLast && begins.After(p.begun) && !begins.Before(p.done)
		p.timedLast = !begins.IsZero()
		p.begun, p.done = latest(p.begun, begins), latest(p.done, ends)
	}
	if may {
		p.cut = cut{p.queued.size, p.count, begins}
	}
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// full returns why there is no room for e.
func (p *Splitter) full(e *Entry, text []byte) error {
	why := "it can be split only between entries of different times, and each entry must have one"
	switch {
	case int64(len(text)) > p.room:
		why = "this entry alone is too long"
	case !p.splits:
		why = "a " + p.composer.rules.name + " cannot be split"
	}
	return &Error{Kind: OverLimit, Rule: "DOC-60", Msg: fmt.Sprintf(
		"entry %d, %s: the document would be longer than %d entries or %d bytes, and %s",
		p.composer.entries, quote(e.Loc), p.options.MaxEntries, p.options.MaxBytes, why)}
}
