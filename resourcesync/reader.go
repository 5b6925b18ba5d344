package resourcesync

import (
	"io"
	"iter"
	"slices"
)

// ReadOptions says how a document is read. The zero value is the right one for
// documents of others.
type ReadOptions struct {
	// Limits bounds what is taken in.
	Limits Limits
	// Strict makes an error of the first thing that would be tolerated.
	Strict bool
	// AnyLoc hands out an entry whose loc is no absolute URI as well, and notes that.
	// It is for callers that judge each address by itself, so that one of them does
	// not keep the others out. It has no meaning with Strict.
	AnyLoc bool
	// Gzip says that the document is compressed. Limits.Bytes bounds it both
	// before and after decompression.
	Gzip bool
}

// Reader reads any document of ResourceSync: those of DOC-30 to DOC-46,
// notifications, and plain sitemaps. It goes through the document once, in
// memory that does not grow with it, and reads ahead of what it returns.
//
// It is tolerant, unless it is told to be strict: what leaves no doubt about the
// meaning is let pass and noted (Tolerated). An attribute whose value is wrong is
// taken for one that is not there; what a document of its kind lacks, or has too
// much, or in the wrong order, comes back as it is. The vocabularies of versions
// 0.9, 0.9.1 and 1.0 come back in the terms of 1.1.
//
// What is never let pass is the rest: whatever is not namespace-well-formed XML
// in UTF-8, a DTD, what is over the limits, an entry without a loc, or (unless
// ReadOptions.AnyLoc allows it) without an absolute one, and in documents about
// changes one without a change; and what is there twice where one of the two would
// have to be chosen.
//
// A Reader is for one goroutine.
type Reader struct {
	doc     document
	pardons pardons
	head    Head
	rules   rules // without a kind before the root's rs:md was read

	begun        bool
	entry        Entry  // that was read last
	ahead        bool   // it is the first, and Head came upon it
	line, column int    // of what the rules are being applied to
	unchanged    placed // the first entry without change, before the rs:md of the document
	oddHashes    pardons
	oldUp        bool // the root has the link to the Capability List of version 0.9
}

// NewReader returns a reader of the document r. Nothing is read before Head or
// Entries is called.
func NewReader(r io.Reader, o ReadOptions) *Reader {
	l := o.Limits.withDefaults()
	if o.Gzip {
		r = &gunzip{packed: r, left: l.Bytes + gzipSlack}
	}
	rd := &Reader{doc: newDocument(r, l)}
	d := &rd.doc
	d.keep, d.general, d.anyLoc, d.oddHashes = true, true, o.AnyLoc, &rd.oddHashes
	d.xml.in.advice = "split it, and list the parts in an index"
	if !o.Strict {
		d.pardons = &rd.pardons
	}
	d.onRoot, d.onLink = rd.readHead, rd.readLink
	rd.rules.fault = rd.fault
	return rd
}

// Entries goes through the entries, in the order of the document. An error ends
// it, and is about the whole document, the entries before it included: it is an
// *Error, or that of the underlying reader. There is one pass: who stops and
// calls Entries again goes on after the last entry, or gets the same error again.
// An Entry belongs to the caller.
func (r *Reader) Entries() iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for r.next() {
			if !yield(r.entry, nil) {
				return
			}
		}
		if r.doc.failed() {
			yield(Entry{}, r.doc.err())
		}
	}
}

// Head returns what the document says as a whole. Called before Entries, it reads
// as far as the first entry; what some documents say only after it, which is
// noted (DOC-51), is there when Entries has come to its end. With an error, which
// is the one that Entries gives, comes what was read before it.
func (r *Reader) Head() (Head, error) {
	if !r.begun {
		r.ahead = r.next()
	}
	h := r.head
	h.Links, h.Attributes = slices.Clone(h.Links), slices.Clone(h.Attributes)
	if r.doc.failed() {
		return h, r.doc.err()
	}
	return h, nil
}

// Tolerated returns what was let pass, in the order in which it was found, the
// first 20 of each kind; TolerationCount counts all. It is complete when Entries
// has come to its end.
func (r *Reader) Tolerated() []Toleration { return slices.Clone(r.pardons.kept) }

// TolerationCount returns how many things were let pass.
func (r *Reader) TolerationCount() int { return r.pardons.count }

// OddHashes returns the hashes that nothing can be compared with, as none of their
// digests is of a known algorithm (DOC-55): the first 20, and how many there are.
// They are not against the format, and no error to a strict reader either.
func (r *Reader) OddHashes() ([]Toleration, int) {
	return slices.Clone(r.oddHashes.kept), r.oddHashes.count
}

// next reads the next entry into r.entry. It returns false after the last one and
// after an error.
func (r *Reader) next() bool {
	if r.ahead {
		r.ahead = false
		return true
	}
	if r.doc.err() != nil {
		return false
	}
	r.begun = true
	ok := r.doc.nextEntry()
	r.head.Index = r.doc.index
	if !ok {
		r.finish()
		return false
	}
	r.entry = r.doc.entry.export()
	r.check(&r.entry)
	return !r.doc.failed()
}

// fault notes a broken rule, or fails if the reader is strict.
func (r *Reader) fault(rule, format string, args ...any) {
	r.doc.oddAt(rule, r.line, r.column, format, args...)
}

// readHead copies the root's rs:md and checks it.
func (r *Reader) readHead() {
	h, m := &r.head, &r.doc.root
	h.Capability, h.Index = m.text(fldCapability), r.doc.index
	h.At, h.Completed, h.From, h.Until = m.time(fldAt), m.time(fldCompleted), m.time(fldFrom), m.time(fldUntil)
	h.Attributes, h.Line, h.Column = m.foreign, m.line, m.column
	r.line, r.column = m.line, m.column
	r.renewHead()
	set := h.set() | m.set&^headFields // what a Head has no place for does not belong
	for times := m.set & headTimes; times != 0; times &= times - 1 {
		if m.time(times).IsZero() {
			r.fault("DOC-13", "%s must be later than 0001-01-01T00:00:00Z", times.name())
		}
	}
	r.rules.kind = kindOf(h.Capability, h.Index)
	switch {
	case h.Capability == "":
		r.fault("DOC-12", "the rs:md of the document lacks capability, which says what kind of document this is")
	case r.rules.kind == nil && documents[h.Capability] != nil:
		r.fault("DOC-11", "there is no index of the capability %q", h.Capability)
	case r.rules.kind == nil:
		r.fault("DOC-12", "the capability %s is none of ResourceSync", quote(h.Capability))
	}
	if r.rules.kind == nil {
		return
	}
	if r.rules.inputOnly {
		r.fault(r.rules.rule, "a %s should no longer be written; list its members in the document above it", r.rules.name)
	}
	if r.unchanged.line != 0 && r.rules.entry.must&fldChange != 0 {
		r.lacksChange(r.unchanged)
	}
	r.rules.checkHead(h, set)
}

// lacksChange fails whatever is tolerated: nobody could tell what to do.
func (r *Reader) lacksChange(at placed) {
	r.doc.fail(badAt(r.rules.ofEntries(), at.line, at.column, "the entry lacks change; it must be %s", changeWords))
}

// check applies the rules of the document's kind to the entry that was read. If the
// root's rs:md comes late, the entries before it are only checked for a change.
func (r *Reader) check(e *Entry) {
	m := &r.doc.entry.md
	r.line, r.column = e.Line, e.Column
	if m.line != 0 {
		r.line, r.column = m.line, m.column
	}
	r.renewCapability(&e.Capability)
	lacks := e.Change == ""
	if r.rules.kind == nil {
		if lacks && r.unchanged.line == 0 {
			r.unchanged = placed{line: r.line, column: r.column}
		}
		return
	}
	if lacks && r.rules.entry.must&fldChange != 0 {
		r.lacksChange(placed{line: r.line, column: r.column})
	}
	r.rules.checkEntry(e, e.set())
}

// finish applies the rules that can only be checked at the end.
func (r *Reader) finish() {
	if r.head.Line == 0 {
		r.line, r.column = r.doc.rootLine, r.doc.rootCol
		r.fault("DOC-12", "the %s lacks an rs:md with a capability; it must be in the namespace %s", r.doc.rootName, rsURI)
	} else if r.rules.kind != nil {
		r.line, r.column = r.head.Line, r.head.Column
		r.rules.checkUp(&r.head)
	}
}
