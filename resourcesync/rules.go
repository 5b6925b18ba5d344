package resourcesync

import (
	"cmp"
	"slices"
	"time"
)

// rules applies to one document what kinds.go says of its kind. The reader, in
// its tolerant and its strict mode, and the writer share it; so what a Writer
// writes is what a strict Reader reads. It knows values alone: XML, and the form
// of single attributes, are the business of whoever reads or writes them.
//
// Call checkHead once, checkEntry for each entry in turn, and checkUp when all
// links of the root are known, which for a writer is at once:
//
//	r := rules{kind: kindOf(h.Capability, h.Index), fault: fault} // no kind: refuse
//	err := r.checkHead(&h, h.set())
//	err = r.checkEntry(&e, e.set())
type rules struct {
	*kind
	// fault is given each broken rule. The error that it returns ends the check
	// and comes back; nil goes on to what else may be wrong.
	fault func(rule, format string, args ...any) error

	from, until time.Time // of the head
	last        time.Time // the latest time by which the entries are ordered
	listed      []string  // the capabilities that a Capability List had before, each once
}

// patchRel is the relation of a patch (DOC-54).
const patchRel = "http://www.openarchives.org/rs/terms/patch"

// checkHead checks the attributes of the root. set are those that it has.
func (r *rules) checkHead(h *Head, set field) error {
	r.from, r.until = h.From, h.Until
	if err := r.fields(r.rule, "the rs:md of the document", set&^fldCapability, r.head); err != nil {
		return err
	}
	rule := r.rule
	if r.kind == documents[ChangeNotification] || r.kind == documents[FrameworkNotification] {
		rule = "DOC-13"
	}
	return r.periods(rule, h.At, h.Completed, h.From, h.Until)
}

// checkUp checks that the root has a link to the document above this one.
func (r *rules) checkUp(h *Head) error {
	if _, ok := h.Link("up"); ok || !r.up {
		return nil
	}
	above := "its Capability List"
	if h.Capability == CapabilityList {
		above = "its Source Description"
	}
	return r.fault(r.rule, "the document lacks an rs:ln rel=\"up\" to %s", above)
}

// checkEntry checks one entry. set are the attributes that its rs:md has.
func (r *rules) checkEntry(e *Entry, set field) error {
	rule := r.ofEntries()
	want := r.entry
	if e.Change.Removes() {
		want.must &^= pathButDeleted
		want.may |= pathButDeleted & r.entry.must
	}
	if err := r.fields(rule, "the entry", set&^representation, want); err != nil {
		return err
	}
	if !e.At.IsZero() || !e.From.IsZero() {
		if err := r.periods(rule, e.At, e.Completed, e.From, e.Until); err != nil {
			return err
		}
	}
	if e.Capability != "" {
		if err := r.capability(rule, e); err != nil {
			return err
		}
	}
	if err := r.place(rule, e); err != nil {
		return err
	}
	for i := range e.Links {
		if l := &e.Links[i]; l.Rel == patchRel {
			if err := r.patch(l); err != nil {
				return err
			}
		}
	}
	return nil
}

// ofEntries is the rule that entries answer to.
func (r *rules) ofEntries() string { return cmp.Or(r.entryRule, r.rule) }

// fields compares the attributes that are there with those that are wanted.
func (r *rules) fields(rule, what string, set field, want attributes) error {
	for lacks := want.must &^ set; lacks != 0; lacks &= lacks - 1 {
		if err := r.fault(rule, "%s lacks %s, which a %s must have", what, lacks.name(), r.name); err != nil {
			return err
		}
	}
	for extra := set &^ want.known(); extra != 0; extra &= extra - 1 {
		if err := r.fault(rule, "%s has %s, which does not belong in a %s", what, extra.name(), r.name); err != nil {
			return err
		}
	}
	return nil
}

// periods checks that what begins does not end before.
func (r *rules) periods(rule string, at, completed, from, until time.Time) error {
	if !completed.IsZero() && completed.Before(at) {
		if err := r.fault(rule, "completed, %s, is earlier than at, %s", FormatDatetime(completed), FormatDatetime(at)); err != nil {
			return err
		}
	}
	if !until.IsZero() && until.Before(from) {
		return r.fault(rule, "from, %s, is later than until, %s", FormatDatetime(from), FormatDatetime(until))
	}
	return nil
}

// place checks that the entries come in the order of their times, and lie within
// the interval of the document, both ends included.
func (r *rules) place(rule string, e *Entry) error {
	by := r.order | r.within
	begins, ends := e.Datetime, e.Datetime
	if by == fldFrom {
		begins, ends = e.From, e.Until
	}
	if by == 0 || begins.IsZero() {
		return nil
	}
	switch {
	case r.order == 0:
	case begins.Before(r.last):
		err := r.fault(cmp.Or(r.orderRule, rule), "%s, %s, is earlier than %s of an entry before it; entries must come in the order of time",
			by.name(), FormatDatetime(begins), FormatDatetime(r.last))
		if err != nil {
			return err
		}
	default:
		r.last = begins
	}
	switch {
	case begins.Before(r.from):
		return r.fault(rule, "%s, %s, is earlier than from of the document, %s", by.name(), FormatDatetime(begins), FormatDatetime(r.from))
	case r.until.IsZero():
	case begins.After(r.until):
		return r.fault(rule, "%s, %s, is later than until of the document, %s", by.name(), FormatDatetime(begins), FormatDatetime(r.until))
	case ends.After(r.until):
		return r.fault(rule, "until, %s, is later than until of the document, %s", FormatDatetime(ends), FormatDatetime(r.until))
	}
	return nil
}

// capability checks the capability of an entry.
func (r *rules) capability(rule string, e *Entry) error {
	switch r.kind {
	case documents[Description]:
		if e.Capability != CapabilityList {
			return r.fault(rule, "the capability of an entry is %s; a Source Description lists documents of the capability %q",
				quote([]byte(e.Capability)), CapabilityList)
		}
	case documents[CapabilityList]:
		return r.listing(rule, e)
	case documents[FrameworkNotification]:
		if e.Change != "" {
			if fault := pairFault(e.Capability, e.Change); fault != "" {
				return r.fault(rule, "%s", fault)
			}
		}
	}
	return nil
}

// listing checks an entry of a Capability List: that there is such a capability,
// that it is the only entry of it, and that who wants to subscribe to a channel
// for notifications learns where (DOC-32).
func (r *rules) listing(rule string, e *Entry) error {
	switch e.Capability {
	case ResourceList, ResourceDump, ChangeList, ChangeDump,
		ResourceListArchive, ResourceDumpArchive, ChangeListArchive, ChangeDumpArchive:
	case ChangeNotification, FrameworkNotification:
		if e.hasLink("hub") {
			break
		}
		if err := r.fault(rule, "a channel for notifications lacks an rs:ln rel=\"hub\" to its hub"); err != nil {
			return err
		}
	default:
		return r.fault(rule, "the capability %s is none that a Capability List lists", quote([]byte(e.Capability)))
	}
	if slices.Contains(r.listed, e.Capability) {
		return r.fault(rule, "a second entry of the capability %q; a Capability List has one of each", e.Capability)
	}
	r.listed = append(r.listed, e.Capability)
	return nil
}

// patch checks a link to a patch: what it says, and that it stands where changes
// do.
func (r *rules) patch(l *Link) error {
	if r.head.known()&fldFrom == 0 { // it is about resources
		if err := r.fault("DOC-54", "a link to a patch, which does not belong in a %s", r.name); err != nil {
			return err
		}
	}
	if l.Type == "" {
		if err := r.fault("DOC-54", "a link to a patch lacks type, the media type that says how to apply it"); err != nil {
			return err
		}
	}
	if l.Path == "" && r.kind == documents[ChangeDumpManifest] {
		return r.fault(r.rule, "a link to a patch lacks path, its place in the package")
	}
	return nil
}

func (e *Entry) hasLink(rel string) bool {
	h := Head{Links: e.Links}
	_, ok := h.Link(rel)
	return ok
}

// set are the attributes that the head has as a writer would write it.
func (h *Head) set() field {
	return timeSet(fldAt, h.At) | timeSet(fldCompleted, h.Completed) | timeSet(fldFrom, h.From) | timeSet(fldUntil, h.Until) |
		textSet(fldCapability, h.Capability)
}

// set are the attributes that the entry's rs:md has as a writer would write it.
func (e *Entry) set() field {
	set := timeSet(fldAt, e.At) | timeSet(fldCompleted, e.Completed) | timeSet(fldFrom, e.From) | timeSet(fldUntil, e.Until) |
		timeSet(fldModified, e.Modified) | timeSet(fldDatetime, e.Datetime) |
		textSet(fldCapability, e.Capability) | textSet(fldChange, string(e.Change)) | textSet(fldPath, e.Path) |
		textSet(fldHash, e.Hash) | textSet(fldType, e.Type) | textSet(fldEncoding, e.Encoding)
	if e.HasLength {
		set |= fldLength
	}
	return set
}

func timeSet(f field, t time.Time) field {
	if t.IsZero() {
		return 0
	}
	return f
}

func textSet(f field, s string) field {
	if s == "" {
		return 0
	}
	return f
}
