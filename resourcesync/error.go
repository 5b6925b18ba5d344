package resourcesync

import "fmt"

// ErrorKind groups errors by what a caller does about them.
type ErrorKind int

// The kinds of an Error.
const (
	// NotWellFormed says that the document is not namespace-well-formed XML 1.0.
	NotWellFormed ErrorKind = iota + 1
	// BadEncoding says that the document is not UTF-8, or declares that it is not.
	BadEncoding
	// HasDTD says that the document has a document type declaration. They are
	// refused, well-formed or not.
	HasDTD
	// OverLimit says that the document exceeds one of the Limits.
	OverLimit
	// BadDocument says that the document is well-formed XML but breaks a rule of
	// ResourceSync.
	BadDocument
	// BadPackage says that a package of a dump is damaged, is not safe to unpack,
	// or is not what its manifest says.
	BadPackage
)

var kindNames = [...]string{
	NotWellFormed: "not well-formed",
	BadEncoding:   "bad encoding",
	HasDTD:        "has a DTD",
	OverLimit:     "over limit",
	BadDocument:   "bad document",
	BadPackage:    "bad package",
}

// String returns the kind in words.
func (k ErrorKind) String() string {
	if k > 0 && int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("ErrorKind(%d)", int(k))
}

// Error is why a document was refused. Errors of the underlying reader are not
// of this type; they come back wrapped.
type Error struct {
	Kind ErrorKind
	// Rule is the ID of the broken rule, as docs/conformance.md lists them ("DOC-17"), or
	// "XML" for a rule of XML itself.
	Rule string
	// Line and Column are the place, counted from 1. Lines end at a line feed; columns
	// count characters (Unicode code points), as an editor shows them, where a tab is one
	// character and a byte order mark none.
	Line, Column int
	// Entry says which entry of a document that is being written is wrong, as in
	// `entry 3, "https://example.org/a"`. Empty: the error is not about one.
	Entry string
	// Msg says in one sentence what is wrong and, if it helps, what to do.
	Msg string
}

// Error returns the position or the entry, if there is one, the sentence and the rule.
func (e *Error) Error() string {
	if e.Entry != "" {
		return fmt.Sprintf("%s: %s (%s)", e.Entry, e.Msg, e.Rule)
	}
	if e.Line == 0 {
		return fmt.Sprintf("%s (%s)", e.Msg, e.Rule)
	}
	return fmt.Sprintf("line %d, column %d: %s (%s)", e.Line, e.Column, e.Msg, e.Rule)
}
