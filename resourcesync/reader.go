package resourcesync

import (
	"io"
	"iter"
	"slices"
)

// ReadOptions says how a document is read. The zero value is the right one for
// documents of others.
type ReadOptions struct {
	// Limits bounds the document.
	Limits Limits
	// Strict returns an error for the first thing that would otherwise be tolerated.
	Strict bool
	// AnyLoc tolerates entries whose loc is no absolute URI. It is for callers that check
	// each address themselves, so that a bad one does not hide the others. Strict
	// overrides it.
	AnyLoc bool
	// Gzip says that the document is compressed. Limits.Bytes bounds it both
	// before and after decompression.
	Gzip bool
}

// Reader reads any document of ResourceSync: those of DOC-30 to DOC-46, notifications,
// and plain sitemaps. It reads the document once and somewhat ahead. Its memory does not
// grow with the document.
//
// By default it is tolerant: it accepts and notes deviations whose meaning is clear
// (Tolerated). An attribute with a wrong value counts as absent. Attributes and elements
// that a document of its kind lacks, or should not have, or has in the wrong order, are
// returned as they are. The vocabularies of versions 0.9, 0.9.1 and 1.0 are returned in
// the terms of 1.1.
//
// It never tolerates the following: anything but namespace-well-formed XML in UTF-8, a
// DTD, a document over the limits, an entry without a loc or, unless ReadOptions.AnyLoc
// is set, without an absolute one, in documents about changes an entry without a change,
// and anything that is there twice if one of the two would have to be chosen.
//
// A Reader is for one goroutine.
type Reader struct {
	doc       document
	tolerated tolerations
	head      Head
	rules     rules // without a kind until the root's rs:md is read

	begun        bool
	entry        Entry  // the last one read
	ahead        bool   // it is the first, and was read by Head
	line, column int    // the place that the rules are applied to
	unchanged    placed // the first entry without change, before the rs:md of the document
	oddHashes    tolerations
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
		d.tolerated = &rd.tolerated
	}
	d.onRoot, d.onLink = rd.readHead, rd.readLink
	rd.rules.fault = rd.fault
	return rd
}

// Entries returns the entries in the order of the document. An error ends the sequence
// and concerns the whole document, including the entries before it. It is an *Error, or
// that of the underlying reader. There is one pass: after a break, a second call goes on
// after the last entry, or returns the same error again. An Entry belongs to the caller.
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

// Head returns the head of the document. Called before Entries, it reads as far as the
// first entry. Parts of the head that come later, which is noted (DOC-51), are there at
// the end of Entries. The error is the one that Entries returns, and comes with what was
// read before it.
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

// Tolerated returns what was tolerated, in the order in which it was found, the first 20
// of each kind; TolerationCount counts all. It is complete at the end of Entries.
func (r *Reader) Tolerated() []Toleration { return slices.Clone(r.tolerated.kept) }

// TolerationCount returns how many things were tolerated.
func (r *Reader) TolerationCount() int { return r.tolerated.count }

// OddHashes returns the hashes without a digest of a known algorithm, with which nothing
// can be compared (DOC-55): the first 20, and how many there are. The format allows them,
// so they are no error for a strict reader.
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
	set := h.set() | m.set&^headFields // a Head has no field for attributes that do not belong
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
		r.fault("DOC-12", "the capability %s is not one of ResourceSync", quote(h.Capability))
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

// lacksChange always fails: without a change the entry has no meaning.
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
