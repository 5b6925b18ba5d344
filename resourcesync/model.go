package resourcesync

import (
	"strings"
	"time"
)

// Head is what a document says as a whole: the rs:md and the rs:ln elements of its root.
// A time that is zero is absent in the document.
type Head struct {
	// Capability is what kind of document this is, one of the constants such as
	// ResourceList. An index has the capability of its members. Empty in a plain sitemap.
	Capability string
	// Index says that the root is a sitemapindex, whose entries are the parts of
	// one large document (DOC-31, 33, 35, 37, 40, 42, 46).
	Index bool
	// At and Completed are when taking the snapshot began and ended. Documents
	// about resources have them (DOC-34 to 38).
	At, Completed time.Time
	// From and Until are the interval. Documents about changes have it; one
	// without Until is open: changes are still added (DOC-39 to 43, DOC-13).
	From, Until time.Time
	// Links lead from the document to others: up, index, describedby, archives
	// (DOC-54). They are in the order of the document.
	Links []Link
	// Attributes are those of the root's rs:md that ResourceSync does not define.
	Attributes []Attribute
	// Line and Column are where the root's rs:md begins, as in Error; 0 if there is none.
	// Writers ignore them.
	Line, Column int
}

// Link returns the first link of a relation, which is compared without regard to case
// (RFC 8288). It returns false if there is none.
func (h *Head) Link(rel string) (Link, bool) {
	for _, l := range h.Links {
		if strings.EqualFold(l.Rel, rel) {
			return l, true
		}
	}
	return Link{}, false
}

// Kind returns the kind of document in the words of the specification, such as "Resource
// List Index". It is empty if the specification has none of this capability.
func (h *Head) Kind() string {
	if k := kindOf(h.Capability, h.Index); k != nil {
		return k.name
	}
	return ""
}

// Entry is one url or, in an index, sitemap element: a resource, a change, a package or
// another document. A time that is zero and a string that is empty is absent in the
// document.
type Entry struct {
	// Loc is the address of what the entry is about (DOC-16). Never empty. Readers add
	// missing percent-encoding (EncodeURI), and leave out a user and a password.
	Loc string
	// Written is loc as the document has it, if Loc has other encodings. Writers ignore it.
	Written string
	// LastMod is when the resource was last modified, which need not be when it
	// changed. It is written to the millisecond.
	LastMod time.Time
	// ChangeFreq and Priority are those of sitemaps. Readers do not check them; writers do
	// (DOC-51).
	ChangeFreq, Priority string
	// Change is Created, Updated or Deleted (DOC-17), in documents about changes.
	Change ChangeType
	// Datetime is when the change happened. Entries come in its order (DOC-18).
	Datetime time.Time
	// At, Completed, From and Until are the times of the document or package that the
	// entry is about (DOC-35, 36, 40, 41, 44, 45).
	At, Completed, From, Until time.Time
	// Modified is an attribute of rs:md in the schema. The specification gives it no
	// meaning.
	Modified time.Time
	// Capability is the kind of the document that the entry is about. The entries of
	// Source Descriptions, Capability Lists and framework notifications have one (DOC-20,
	// 30, 32).
	Capability string
	// Length is in bytes, if HasLength is set (DOC-56).
	Length    int64
	HasLength bool
	// Hash is a list of algorithm:digest, not checked (DOC-55), Path a place
	// within a package (DOC-57), Type a media type (DOC-58).
	Hash, Type, Encoding, Path string
	// Links lead to related resources, in the order of the document (DOC-19).
	Links []Link
	// Attributes are those of the entry's rs:md that ResourceSync does not define.
	Attributes []Attribute
	// Line and Column are where the element begins, as in Error. Writers ignore them.
	Line, Column int
}

// Link is one rs:ln: a related resource (DOC-52).
type Link struct {
	// Rel is the relation, a registered name or a URI, and Href the target.
	// Neither is empty. Readers leave out a user and a password.
	Rel, Href string
	// Pri ranks links of one relation from 1, the best, to 999999; 0 if absent, which
	// ranks as 999999.
	Pri int
	// Length is in bytes, if HasLength is set.
	Length    int64
	HasLength bool
	// Modified is zero if absent.
	Modified time.Time
	// Hash is a list of algorithm:digest, not checked (DOC-55). It is empty if absent, as
	// the others are.
	Hash, Path, Type, Encoding, Profile string
	// Attributes are those that ResourceSync does not define.
	Attributes []Attribute
}

// Attribute is an attribute of a namespace other than those of ResourceSync, as
// any rs:md and rs:ln may have (DOC-10).
type Attribute struct {
	// Space is the namespace, a URI and not a prefix, and never empty.
	Space string
	// Name is the name without a prefix.
	Name  string
	Value string
}
