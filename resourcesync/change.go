package resourcesync

import (
	"fmt"
	"slices"
	"strings"
)

// ChangeType says what happened to a resource: the value of the attribute change (DOC-17). It is empty
// in entries that report no change, as those of a Resource List.
type ChangeType string

// The types of change (DOC-17). Each has its row in changeTypes, and all other code calls
// the methods of ChangeType. A new one needs a constant, a row and a count here, a count
// in journal.Counts, and its packing in journal/codec_values.go. The compiler leads to
// journal.Counts. If the type can happen to documents too, add it to anyChange.
const (
	Created ChangeType = "created"
	Updated ChangeType = "updated"
	Deleted ChangeType = "deleted"
)

// changeTypes are all types of change, in the order of ChangeTypes. Stores of a Source save the index:
// append new ones.
var changeTypes = [...]struct {
	name    ChangeType
	removes bool // the resource does not exist afterwards
	sign    string
	count   func(*Counts) *uint32
}{
	{Created, false, "+", func(c *Counts) *uint32 { return &c.Created }},
	{Updated, false, "~", func(c *Counts) *uint32 { return &c.Updated }},
	{Deleted, true, "-", func(c *Counts) *uint32 { return &c.Deleted }},
}

// ChangeTypes returns all types of change. Their order does not change between versions.
func ChangeTypes() []ChangeType {
	all := make([]ChangeType, len(changeTypes))
	for i := range changeTypes {
		all[i] = changeTypes[i].name
	}
	return all
}

// changeWords lists the types of change for messages: created, updated or deleted.
var changeWords = func() string {
	var words []string
	for _, c := range ChangeTypes() {
		words = append(words, string(c))
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}()

// changeOf returns the type of change that b names, without a copy, or b as it is and false.
func changeOf(b []byte) (c ChangeType, known bool) {
	for i := range changeTypes {
		if string(changeTypes[i].name) == string(b) {
			return changeTypes[i].name, true
		}
	}
	return ChangeType(b), false
}

// Index returns the position of c among ChangeTypes, and -1 if it is not one of them.
func (c ChangeType) Index() int {
	for i := range changeTypes {
		if changeTypes[i].name == c {
			return i
		}
	}
	return -1
}

// Known reports whether c is one of ChangeTypes. The empty one is not.
func (c ChangeType) Known() bool { return c.Index() >= 0 }

// Removes reports whether the resource does not exist after the change. An entry of such a change
// describes no representation: it has no length, hash, media type or encoding.
func (c ChangeType) Removes() bool {
	i := c.Index()
	return i >= 0 && changeTypes[i].removes
}

// Counts are how many entries of a notification report which type of change.
type Counts struct {
	Created uint32 `json:"created"`
	Updated uint32 `json:"updated"`
	Deleted uint32 `json:"deleted"`
}

// Add counts one change. A type that is not known is not counted.
func (c *Counts) Add(t ChangeType) {
	if i := t.Index(); i >= 0 {
		*changeTypes[i].count(c)++
	}
}

// Words returns the counts for people: 1 created, 2 updated, 0 deleted.
func (c Counts) Words() string {
	return c.text(", ", func(i int, n uint32) string { return fmt.Sprintf("%d %s", n, changeTypes[i].name) })
}

// Signs returns the counts for a column of a table: +1 ~2 -0.
func (c Counts) Signs() string {
	return c.text(" ", func(i int, n uint32) string { return fmt.Sprintf("%s%d", changeTypes[i].sign, n) })
}

func (c Counts) text(between string, of func(i int, n uint32) string) string {
	var texts []string
	for i := range changeTypes {
		texts = append(texts, of(i, *changeTypes[i].count(&c)))
	}
	return strings.Join(texts, between)
}

// ChangeSigns explains what Counts.Signs writes: created (+), updated (~), deleted (-).
func ChangeSigns() string {
	var texts []string
	for i := range changeTypes {
		texts = append(texts, fmt.Sprintf("%s (%s)", changeTypes[i].name, changeTypes[i].sign))
	}
	return strings.Join(texts, ", ")
}

// anyChange are the types of change that DOC-20 knows for documents. A new type that is
// not in it is refused in framework notifications.
var anyChange = []ChangeType{Created, Updated, Deleted}

// pairFault returns what is wrong with an entry of a framework notification: which
// kind of document changed, and whether such a document can change that way
// (DOC-20). It is empty if nothing is wrong.
func pairFault(capability string, change ChangeType) string {
	k := documents[capability]
	if capability == legacyDescription {
		k = documents[Description]
	}
	switch {
	case capability == "":
		return "this rs:md lacks capability, which says what kind of document changed"
	case k == nil || k.changes == nil:
		return fmt.Sprintf("the capability %s is no kind of document that a framework notification is about", quote(capability))
	case change.Known() && !slices.Contains(k.changes, change):
		return fmt.Sprintf("a document of the capability %s cannot be %s", quote(capability), change)
	}
	return ""
}
