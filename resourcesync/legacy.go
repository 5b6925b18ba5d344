package resourcesync

import "strings"

// The words of versions 0.9 to 1.0 that a Reader gives back as those of 1.1.
const (
	// legacyDescription is what version 0.9 said for Description.
	legacyDescription = "resourcesync"
	// legacyUp is what version 0.9 said for the relation up, by which it meant the
	// way to an index.
	legacyUp = "resourcesync"
)

// renewHead turns the head that was read into the terms of version 1.1.
func (r *Reader) renewHead() error {
	h := &r.head
	if err := r.renewCapability(&h.Capability); err != nil {
		return err
	}
	k := kindOf(h.Capability, h.Index)
	if k == nil || k.head.must&fldAt == 0 || !h.At.IsZero() || h.From.IsZero() || !h.Until.IsZero() {
		return nil
	}
	h.At, h.From = h.From, h.At
	return r.fault(k.rule, "from is what version 0.9 said for at, the time of the snapshot")
}

// renewCapability turns a capability, of the document or of an entry, into that of
// version 1.1.
func (r *Reader) renewCapability(c *string) error {
	rule, renewed := "", ""
	switch *c {
	case legacyDescription:
		rule, renewed = "DOC-30", Description
	case ChangelistNotification:
		rule, renewed = "DOC-12", ChangeNotification
	default:
		return nil
	}
	old := *c
	*c = renewed
	return r.fault(rule, "the capability %q is what older versions said for %q", old, renewed)
}

// readLink takes over a link of the root. In version 0.9 rel="resourcesync" led
// to the Capability List, and up to the index; so an up is the latter beside the
// former, whichever comes first.
func (r *Reader) readLink() error {
	d, links := &r.doc, &r.head.Links
	if len(*links) == d.xml.in.limits.Links {
		return d.tooManyLinks()
	}
	l := d.link
	switch {
	case strings.EqualFold(l.Rel, legacyUp):
		if err := d.odd("DOC-54", d.xml.tok, "the relation %q is what version 0.9 said for \"up\"", l.Rel); err != nil {
			return err
		}
		for i := 0; i < len(*links) && !r.oldUp; i++ {
			if err := r.upToIndex(&(*links)[i]); err != nil {
				return err
			}
		}
		r.oldUp = true
		l.Rel = "up"
	case r.oldUp:
		if err := r.upToIndex(&l); err != nil {
			return err
		}
	}
	*links = append(*links, l)
	return nil
}

// upToIndex makes of an up of version 0.9 an index.
func (r *Reader) upToIndex(l *Link) error {
	if !strings.EqualFold(l.Rel, "up") {
		return nil
	}
	l.Rel = "index"
	return r.doc.odd("DOC-54", r.doc.xml.tok, "the relation \"up\" is what version 0.9 said for \"index\"")
}
