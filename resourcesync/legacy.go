package resourcesync

import "strings"

// The words of versions 0.9 to 1.0 that a Reader returns as those of 1.1.
const (
	// legacyDescription is what version 0.9 said for Description.
	legacyDescription = "resourcesync"
	// legacyUp is what version 0.9 said for the relation up. Its own up led to an index.
	legacyUp = "resourcesync"
)

// renewHead turns the head that was read into the terms of version 1.1.
func (r *Reader) renewHead() {
	h := &r.head
	r.renewCapability(&h.Capability)
	k := kindOf(h.Capability, h.Index)
	if k != nil && k.head.must&fldAt != 0 && h.At.IsZero() && !h.From.IsZero() && h.Until.IsZero() {
		h.At, h.From = h.From, h.At
		r.fault(k.rule, "from is what version 0.9 said for at, the time of the snapshot")
	}
}

// renewCapability turns a capability, of the document or of an entry, into that of
// version 1.1.
func (r *Reader) renewCapability(c *string) {
	old := *c
	switch old {
	case legacyDescription:
		*c = Description
		r.fault("DOC-30", legacyCapability, old, *c)
	case ChangelistNotification:
		*c = ChangeNotification
		r.fault("DOC-12", legacyCapability, old, *c)
	}
}

const legacyCapability = "the capability %q is what older versions said for %q"

// readLink adds a link of the root to the head. In version 0.9 rel="resourcesync" led
// to the Capability List, and up to the index. So beside such a link an up is an index,
// whichever comes first.
func (r *Reader) readLink() {
	d, links := &r.doc, &r.head.Links
	l := d.ln.link()
	if strings.EqualFold(l.Rel, legacyUp) {
		d.odd("DOC-54", d.xml.tok, "the relation %q is what version 0.9 said for \"up\"", l.Rel)
		for i := 0; i < len(*links) && !r.oldUp; i++ {
			r.upToIndex(&(*links)[i])
		}
		r.oldUp = true
		l.Rel = "up"
	} else if r.oldUp {
		r.upToIndex(&l)
	}
	*links = d.addLink(*links, l)
}

// upToIndex turns an up of version 0.9 into an index.
func (r *Reader) upToIndex(l *Link) {
	if strings.EqualFold(l.Rel, "up") {
		l.Rel = "index"
		r.doc.odd("DOC-54", r.doc.xml.tok, "the relation \"up\" is what version 0.9 said for \"index\"")
	}
}
