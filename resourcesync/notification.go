package resourcesync

import (
	"errors"
	"io"
	"slices"
	"time"
)

// Notification is the head of a notification, and the counts of its entries.
type Notification struct {
	// Capability is ChangeNotification or FrameworkNotification. The legacy names of the
	// former are reported as ChangeNotification, with Legacy set.
	Capability string
	// Legacy says that the document is of version 0.9 or 1.0, with the
	// capability "changelist-notification", or a closed Change List.
	Legacy bool
	// From and Until are the interval (DOC-13), in UTC. Either is zero if a framework
	// notification lacks it; a change notification has both.
	From, Until time.Time
	// Line and Column are the place of the document's rs:md, as in Error.
	Line, Column int
	// Up is where the first rs:ln rel="up" of the document leads, the Capability List;
	// empty if there is none (DOC-14).
	Up string
	// Counts is by change, and Entries how many there are in all.
	Counts  Counts
	Entries int
}

// CheckNotification reads a whole change or framework notification and applies every rule
// of DOC-10 to DOC-20, and those of DOC-50 to DOC-60 that concern notifications. The
// error is the first one in the document. After a broken rule the rest is still checked
// for XML errors, so BadDocument means that the document is well-formed.
//
// Memory is bounded by Limits.Token and Limits.Depth, whatever the size of the document.
// Errors other than those of r are of type *Error. The hub answers 400 to NotWellFormed,
// BadEncoding and HasDTD, 413 to OverLimit and 422 to BadDocument.
func CheckNotification(r io.Reader, l Limits) (Notification, error) {
	n := NewNotificationReader(r, l)
	n.doc.oddHashes, n.doc.oddLocs = nil, nil
	return n.Check()
}

// Check reads the rest of the document as CheckNotification does, and returns no entries.
func (n *NotificationReader) Check() (Notification, error) {
	n.doc.keep = false
	for n.advance() {
		continue
	}
	if n.doc.failed() {
		n.drain()
		return Notification{}, n.doc.err()
	}
	return n.n, nil
}

// OddLocs returns the accepted addresses that should be percent-encoded or shorter
// (DOC-16, DOC-60): the first 20 of each kind, and how many there are. No hub refuses
// them.
func (n *NotificationReader) OddLocs() ([]Toleration, int) {
	return slices.Clone(n.oddLocs.kept), n.oddLocs.count
}

// OddHashes returns the hashes without a digest of a known algorithm, with which nothing
// can be compared (DOC-55): the first 20, and how many there are.
func (n *NotificationReader) OddHashes() ([]Toleration, int) {
	return slices.Clone(n.oddHashes.kept), n.oddHashes.count
}

// drain reads on after a broken rule, to check whether the document is well-formed at
// all.
func (n *NotificationReader) drain() {
	broken, in := n.doc.err(), &n.doc.xml.in
	var e *Error
	if !errors.As(broken, &e) || e.Kind != BadDocument {
		return
	}
	in.err = nil
	for n.doc.xml.next() != evNone {
		continue
	}
	if !n.doc.failed() {
		in.err = broken
	}
}

// NotificationReader reads a change or framework notification entry by entry, under the
// same rules as CheckNotification, and Limits.Links for the links of an entry. It reads
// ahead by Limits.Token bytes or more. It is for one goroutine.
type NotificationReader struct {
	doc       document
	n         Notification
	oddHashes tolerations
	oddLocs   tolerations

	// The first and the last entry with a datetime. Entries come in order, so these are
	// the earliest and the latest. They are checked at the end if the interval comes
	// after them (DOC-51).
	first, last placed
	// frameworkFault is the error of the first entry if this turns out to be a framework
	// notification.
	frameworkFault error
}

// placed is an instant and its place in the document.
type placed struct {
	t            time.Time
	line, column int // 0 before there is any
}

// NewNotificationReader returns a reader of the document r.
func NewNotificationReader(r io.Reader, l Limits) *NotificationReader {
	n := &NotificationReader{doc: newDocument(r, l)}
	n.doc.keep, n.doc.oddHashes, n.doc.oddLocs = true, &n.oddHashes, &n.oddLocs
	n.doc.onRoot = n.checkRoot
	return n
}

// Next returns the next entry, io.EOF after the last one if the whole document is valid,
// or else an *Error or the error of the underlying reader. An error concerns the whole
// document, including the entries returned before it. An Entry belongs to the caller.
func (n *NotificationReader) Next() (Entry, error) {
	if !n.advance() {
		return Entry{}, n.doc.err()
	}
	return n.doc.entry.export(), nil
}

// Notification returns what has been read of the document as a whole. It is complete
// after Next has returned io.EOF. Capability, From and Until are set with the first
// entry, unless the document has them after it.
func (n *NotificationReader) Notification() Notification { return n.n }

// advance reads one entry into n.doc.entry and checks it. It returns false after an
// error, and after the last entry, when the document has been checked as a whole.
func (n *NotificationReader) advance() bool {
	if n.doc.err() != nil {
		return false
	}
	ok := n.doc.nextEntry()
	n.n.Up = n.doc.up
	if ok {
		n.checkEntry(&n.doc.entry)
	} else {
		n.checkEnd()
	}
	return ok && !n.doc.failed()
}

// checkRoot applies DOC-12, DOC-13 and DOC-20 to the rs:md of the document.
func (n *NotificationReader) checkRoot() {
	m, capability := &n.doc.root, n.doc.root.text(fldCapability)
	bad := func(rule, format string, args ...any) { n.doc.fail(badAt(rule, m.line, m.column, format, args...)) }
	switch {
	case !m.has(fldCapability):
		bad("DOC-12", "the rs:md of the document lacks capability=%q", ChangeNotification)
	case capability == ChangeNotification, capability == FrameworkNotification:
		n.n.Capability = capability
	case capability == ChangelistNotification, capability == ChangeList:
		n.n.Capability, n.n.Legacy = ChangeNotification, true
	default:
		bad("DOC-12", "the capability of the document is %s; a notification has %q or %q",
			quote(capability), ChangeNotification, FrameworkNotification)
	}
	n.n.From, n.n.Until = m.time(fldFrom), m.time(fldUntil)
	n.n.Line, n.n.Column = m.line, m.column
	change := n.n.Capability == ChangeNotification
	switch {
	case change && !m.has(fldFrom):
		bad("DOC-12", "the rs:md of the document lacks from, the beginning of the interval")
	case change && !m.has(fldUntil):
		bad("DOC-12", "the rs:md of the document lacks until, the end of the interval")
	case m.isZeroTime(fldFrom), m.isZeroTime(fldUntil):
		bad("DOC-13", "from and until must be later than 0001-01-01T00:00:00Z")
	case m.has(fldFrom) && m.has(fldUntil) && n.n.From.After(n.n.Until):
		bad("DOC-13", "from, %s, is later than until, %s", FormatDatetime(n.n.From), FormatDatetime(n.n.Until))
	}
}

// checkEntry applies DOC-17, DOC-18 and DOC-20 to one entry.
func (n *NotificationReader) checkEntry(e *entry) {
	m := &e.md
	switch {
	case e.seen&childMD == 0:
		n.doc.fail(badAt("DOC-17", e.line, e.column, "this url lacks rs:md, which says what changed; it must be in the namespace %s", rsURI))
	case !m.has(fldChange):
		n.doc.fail(badAt("DOC-17", m.line, m.column, "this rs:md lacks change; it must be %s", changeWords))
	}
	n.n.Entries++
	n.n.Counts.Add(m.change)
	if m.has(fldDatetime) {
		n.checkDatetime(placed{m.time(fldDatetime), m.line, m.column})
	}
	switch {
	case n.n.Capability == FrameworkNotification:
		n.doc.fail(frameworkFault(m))
	case n.n.Capability == "" && n.frameworkFault == nil:
		n.frameworkFault = frameworkFault(m)
	}
}

func (n *NotificationReader) checkDatetime(p placed) {
	if n.last.line != 0 && p.t.Before(n.last.t) {
		n.doc.fail(badAt("DOC-18", p.line, p.column, "the datetime %s is earlier than %s of an entry before it (line %d); entries must come in the order of their changes",
			FormatDatetime(p.t), FormatDatetime(n.last.t), n.last.line))
	}
	if n.first.line == 0 {
		n.first = p
	}
	n.last = p
	n.checkInterval(p)
}

// checkInterval checks that p lies in the interval, both ends included, as far
// as that is known.
func (n *NotificationReader) checkInterval(p placed) {
	switch m := &n.doc.root; {
	case m.has(fldFrom) && p.t.Before(n.n.From):
		n.doc.fail(badAt("DOC-17", p.line, p.column, "the datetime %s is earlier than from, %s", FormatDatetime(p.t), FormatDatetime(n.n.From)))
	case m.has(fldUntil) && p.t.After(n.n.Until):
		n.doc.fail(badAt("DOC-17", p.line, p.column, "the datetime %s is later than until, %s", FormatDatetime(p.t), FormatDatetime(n.n.Until)))
	}
}

// checkEnd applies the rules that can only be checked at the end.
func (n *NotificationReader) checkEnd() {
	if n.doc.root.line == 0 {
		n.doc.fail(badAt("DOC-12", n.doc.rootLine, n.doc.rootCol, "the urlset lacks an rs:md with capability, from and until; it must be in the namespace %s", rsURI))
	}
	if n.n.Capability == FrameworkNotification {
		n.doc.fail(n.frameworkFault)
	}
	if n.first.line != 0 {
		n.checkInterval(n.first)
		n.checkInterval(n.last)
	}
}

// frameworkFault applies DOC-20 to an entry.
func frameworkFault(m *metadata) error {
	if fault := pairFault(m.text(fldCapability), m.change); fault != "" {
		return badAt("DOC-20", m.line, m.column, "%s", fault)
	}
	return nil
}
