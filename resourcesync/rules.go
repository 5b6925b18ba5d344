package resourcesync

import (
	"cmp"
	"slices"
	"time"
)

// rules applies the rules of kinds.go to one document. The reader, in its tolerant and
// its strict mode, and the writer share it. So a strict Reader accepts what a Writer
// writes. It checks values alone. The readers and writers check XML, and the form of
// single attributes.
//
// Call checkHead once, checkEntry for each entry in turn, and checkUp when all links of
// the root are known:
//
//	r := rules{kind: kindOf(h.Capability, h.Index), fault: fault} // no kind: refuse
//	r.checkHead(&h, h.set())
//	r.checkEntry(&e, e.set())
type rules struct {
	*kind
	// fault is called for each broken rule. A strict caller keeps the first.
	fault func(rule, format string, args ...any)

	from, until time.Time // of the head
	last        time.Time // the latest time by which the entries are ordered
	listed      []string  // the capabilities of the entries of a Capability List, each once
}

// patchRel is the relation of a patch (DOC-54).
const patchRel = "http://www.openarchives.org/rs/terms/patch"

// checkHead checks the attributes of the root. set are those that it has.
func (r *rules) checkHead(h *Head, set field) {
	r.from, r.until = h.From, h.Until
	r.fields(r.rule, "the rs:md of the document", set&^fldCapability, r.head)
	rule := r.rule
	if r.kind == documents[ChangeNotification] || r.kind == documents[FrameworkNotification] {
		rule = "DOC-13"
	}
	r.periods(rule, h.At, h.Completed, h.From, h.Until)
}

// checkUp checks that the root has a link to the document above this one.
func (r *rules) checkUp(h *Head) {
	if _, ok := h.Link("up"); ok || !r.up {
		return
	}
	above := "its Capability List"
	if h.Capability == CapabilityList {
		above = "its Source Description"
	}
	r.fault(r.rule, "the document lacks an rs:ln rel=\"up\" to %s", above)
}

// checkEntry checks one entry. set are the attributes that its rs:md has.
func (r *rules) checkEntry(e *Entry, set field) {
	rule := r.ofEntries()
	want := r.entry
	if e.Change.Removes() {
		want.must &^= pathButDeleted
		want.may |= pathButDeleted & r.entry.must
	}
	r.fields(rule, "the entry", set&^representation, want)
	if !e.At.IsZero() || !e.From.IsZero() {
		r.periods(rule, e.At, e.Completed, e.From, e.Until)
	}
	if e.Capability != "" {
		r.capability(rule, e)
	}
	r.place(rule, e)
	for i := range e.Links {
		if l := &e.Links[i]; l.Rel == patchRel {
			r.patch(l)
		}
	}
}

// ofEntries is the rule of entries.
func (r *rules) ofEntries() string { return cmp.Or(r.entryRule, r.rule) }

// fields compares the attributes in set with the required and allowed ones.
func (r *rules) fields(rule, what string, set field, want attributes) {
	for lacks := want.must &^ set; lacks != 0; lacks &= lacks - 1 {
		r.fault(rule, "%s lacks %s, which a %s must have", what, lacks.name(), r.name)
	}
	for extra := set &^ want.known(); extra != 0; extra &= extra - 1 {
		r.fault(rule, "%s has %s, which does not belong in a %s", what, extra.name(), r.name)
	}
}

// periods checks that no period ends before it begins.
func (r *rules) periods(rule string, at, completed, from, until time.Time) {
	if !completed.IsZero() && completed.Before(at) {
		r.fault(rule, "completed, %s, is earlier than at, %s", FormatDatetime(completed), FormatDatetime(at))
	}
	if !until.IsZero() && until.Before(from) {
		r.fault(rule, "from, %s, is later than until, %s", FormatDatetime(from), FormatDatetime(until))
	}
}

// place checks that the entries are in the order of their times, and in the interval of
// the document, both ends included.
func (r *rules) place(rule string, e *Entry) {
	by := r.order | r.within
	begins, ends := e.Datetime, e.Datetime
	if by == fldFrom {
		begins, ends = e.From, e.Until
	}
	if by == 0 || begins.IsZero() {
		return
	}
	if r.order != 0 && begins.Before(r.last) {
		r.fault(cmp.Or(r.orderRule, rule), "%s, %s, is earlier than %s of an entry before it; entries must come in the order of time",
			by.name(), FormatDatetime(begins), FormatDatetime(r.last))
	} else {
		r.last = begins
	}
	switch {
	case begins.Before(r.from):
		r.fault(rule, "%s, %s, is earlier than from of the document, %s", by.name(), FormatDatetime(begins), FormatDatetime(r.from))
	case r.until.IsZero():
	case begins.After(r.until):
		r.fault(rule, "%s, %s, is later than until of the document, %s", by.name(), FormatDatetime(begins), FormatDatetime(r.until))
	case ends.After(r.until):
		r.fault(rule, "until, %s, is later than until of the document, %s", FormatDatetime(ends), FormatDatetime(r.until))
	}
}

// capability checks the capability of an entry.
func (r *rules) capability(rule string, e *Entry) {
	switch r.kind {
	case documents[Description]:
		if e.Capability != CapabilityList {
			r.fault(rule, "the capability of an entry is %s; a Source Description lists documents of the capability %q",
				quote(e.Capability), CapabilityList)
		}
	case documents[CapabilityList]:
		r.listing(rule, e)
	case documents[FrameworkNotification]:
		if e.Change != "" {
			if fault := pairFault(e.Capability, e.Change); fault != "" {
				r.fault(rule, "%s", fault)
			}
		}
	}
}

// listing checks an entry of a Capability List: that there is such a capability, that no
// other entry has it, and that a channel for notifications names its hub (DOC-32).
func (r *rules) listing(rule string, e *Entry) {
	switch e.Capability {
	case ResourceList, ResourceDump, ChangeList, ChangeDump,
		ResourceListArchive, ResourceDumpArchive, ChangeListArchive, ChangeDumpArchive:
	case ChangeNotification, FrameworkNotification:
		if !e.hasLink("hub") {
			r.fault(rule, "a channel for notifications lacks an rs:ln rel=\"hub\" to its hub")
		}
	default:
		r.fault(rule, "the capability %s is not one that a Capability List lists", quote(e.Capability))
		return
	}
	if slices.Contains(r.listed, e.Capability) {
		r.fault(rule, "a second entry of the capability %q; a Capability List has one of each", e.Capability)
	} else {
		r.listed = append(r.listed, e.Capability)
	}
}

// patch checks the attributes of a link to a patch, and that the document is about
// changes.
func (r *rules) patch(l *Link) {
	if r.head.known()&fldFrom == 0 { // it is about resources
		r.fault("DOC-54", "a link to a patch, which does not belong in a %s", r.name)
	}
	if l.Type == "" {
		r.fault("DOC-54", "a link to a patch lacks type, the media type that says how to apply it")
	}
	if l.Path == "" && r.kind == documents[ChangeDumpManifest] {
		r.fault(r.rule, "a link to a patch lacks path, its place in the package")
	}
}

func (e *Entry) hasLink(rel string) bool {
	h := Head{Links: e.Links}
	_, ok := h.Link(rel)
	return ok
}

// metadata returns the rs:md of the root as that of an entry.
func (h *Head) metadata() Entry {
	return Entry{Capability: h.Capability, At: h.At, Completed: h.Completed, From: h.From, Until: h.Until, Attributes: h.Attributes}
}

// set are the attributes that the head has as a writer would write it.
func (h *Head) set() field {
	e := h.metadata()
	return e.set()
}

// set are the attributes that the entry's rs:md has as a writer would write it.
func (e *Entry) set() field {
	return given(fldAt, !e.At.IsZero()) | given(fldCompleted, !e.Completed.IsZero()) |
		given(fldFrom, !e.From.IsZero()) | given(fldUntil, !e.Until.IsZero()) |
		given(fldModified, !e.Modified.IsZero()) | given(fldDatetime, !e.Datetime.IsZero()) |
		given(fldCapability, e.Capability != "") | given(fldChange, e.Change != "") | given(fldPath, e.Path != "") |
		given(fldHash, e.Hash != "") | given(fldType, e.Type != "") | given(fldEncoding, e.Encoding != "") |
		given(fldLength, e.HasLength)
}

// given returns f if there is true, else 0.
func given(f field, there bool) field {
	if there {
		return f
	}
	return 0
}
