package cli

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// agreement compares a document that lists others with these, one after the
// other in its order.
type agreement struct {
	list   *document
	strict bool
	listed map[*document]bool

	// The parts of a Change List or Change Dump follow each other in time.
	last   *document // the part before
	missed bool      // one since then is not known
}

// agrees compares a document with the entry that lists it. Above are the list and
// those that led to it.
func (a *agreement) agrees(e *resourcesync.Entry, d *document, above []*document) {
	twice := a.listed[d]
	a.listed[d] = true
	switch {
	case slices.Contains(above, d):
		a.fail(e, "%s leads back to where it is listed", e.Loc)
		return
	case twice:
		a.fail(e, "%s is listed twice", e.Loc)
		return
	case d.Capability == "" || d.head.Line == 0:
		a.broken()
		return // what is wrong with it was told
	}
	if a.list.head.Index {
		a.list.InParts += d.Entries
	}
	if want := a.wanted(e); want != "" && d.Capability != want {
		a.fail(e, "the capability of %s is %s; it should be %s", e.Loc, d.Capability, want)
		a.broken()
		return
	}
	if d.head.Index && a.list.head.Index {
		a.fail(e, "%s is an index; the members of an index are none", e.Loc)
		a.broken()
		return
	}
	a.links(e, d)
	a.times(e, d)
	if a.list.head.Index {
		a.within(e, d)
		a.follows(e, d)
	}
}

// wanted is the capability that a listed document should have; empty where the
// list does not say.
func (a *agreement) wanted(e *resourcesync.Entry) string {
	h := a.list.head
	switch {
	case h.Index:
		return h.Capability
	case h.Capability == resourcesync.Description:
		return resourcesync.CapabilityList
	case h.Capability == resourcesync.CapabilityList:
		return e.Capability
	}
	return strings.TrimSuffix(h.Capability, archiveSuffix)
}

// links compares where the document says that it belongs.
func (a *agreement) links(e *resourcesync.Entry, d *document) {
	h := a.list.head
	up, hasUp := d.head.Link("up")
	index, hasIndex := d.head.Link("index")
	switch {
	case !h.Index:
		if strings.HasSuffix(h.Capability, archiveSuffix) {
			return
		}
		if hasUp && !a.list.isAt(d, up.Href) {
			a.fail(e, "up of %s leads to %s, and not to where it is listed", e.Loc, up.Href)
		}
		return
	case !hasIndex && h.Capability != resourcesync.Description:
		a.warn(e, "%s lacks an rs:ln rel=\"index\" to its index", e.Loc)
	case hasIndex && !a.list.isAt(d, index.Href):
		a.fail(e, "index of %s leads to %s, and not to where it is listed", e.Loc, index.Href)
	}
	if of, ok := h.Link("up"); ok && hasUp && resolved(d, up.Href) != resolved(a.list, of.Href) {
		a.fail(e, "up of %s leads to %s, and that of its index to %s", e.Loc, up.Href, of.Href)
	}
}

// isAt reports whether a link of another document leads to d; it is to be
// believed where d came from no URL.
func (d *document) isAt(from *document, href string) bool {
	to := resolved(from, href)
	return d.requested == "" || to == canonical(d.requested) || to == canonical(d.final)
}

// resolved is where a link of a document leads.
func resolved(d *document, href string) string {
	base, err := url.Parse(d.final)
	if err != nil {
		return canonical(href)
	}
	u, err := base.Parse(href)
	if err != nil {
		return href
	}
	return canonical(u.String())
}

// times compares what the entry says of the document's times with what the
// document says itself.
func (a *agreement) times(e *resourcesync.Entry, d *document) {
	h := &d.head
	for _, t := range []struct {
		name       string
		said, real time.Time
	}{{"at", e.At, h.At}, {"completed", e.Completed, h.Completed}, {"from", e.From, h.From}, {"until", e.Until, h.Until}} {
		if !t.said.IsZero() && !t.said.Equal(t.real) {
			a.fail(e, "%s of %s is %s in the entry and %s in the document", t.name, e.Loc, instant(t.said), instant(t.real))
		}
	}
	if !e.From.IsZero() && e.Until.IsZero() && !h.Until.IsZero() {
		a.fail(e, "%s is closed, until %s, and its entry does not say so", e.Loc, instant(h.Until))
	}
}

// within checks that a part does not go beyond its index in time.
func (a *agreement) within(e *resourcesync.Entry, d *document) {
	part, all := &d.head, &a.list.head
	switch {
	case !all.At.IsZero() && !part.At.IsZero() && part.At.Before(all.At):
		a.fail(e, "at of %s is %s, earlier than that of its index, %s", e.Loc, instant(part.At), instant(all.At))
	case !all.Completed.IsZero() && (part.Completed.After(all.Completed) || part.At.After(all.Completed)):
		a.fail(e, "%s was completed at %s, later than its index, %s", e.Loc, instant(later(part.At, part.Completed)), instant(all.Completed))
	case !all.From.IsZero() && !part.From.IsZero() && part.From.Before(all.From):
		a.fail(e, "from of %s is %s, earlier than that of its index, %s", e.Loc, instant(part.From), instant(all.From))
	case !all.Until.IsZero() && part.Until.After(all.Until):
		a.fail(e, "until of %s is %s, later than that of its index, %s", e.Loc, instant(part.Until), instant(all.Until))
	case !all.Until.IsZero() && !part.From.IsZero() && part.Until.IsZero():
		a.fail(e, "%s is open, and its index is closed, until %s", e.Loc, instant(all.Until))
	}
}

func later(t, u time.Time) time.Time {
	if u.After(t) {
		return u
	}
	return t
}

// follows checks that a part with changes begins where the one before it ended.
func (a *agreement) follows(e *resourcesync.Entry, d *document) {
	part, before := &d.head, a.last
	if part.From.IsZero() {
		return
	}
	a.last = d
	switch {
	case a.missed:
	case before == nil && part.From.After(a.list.head.From) && !a.list.head.From.IsZero():
		a.fail(e, "%s, the first part, begins at %s, and its index at %s: there is a gap", e.Loc, instant(part.From), instant(a.list.head.From))
	case before == nil:
	case before.head.Until.IsZero():
		a.fail(e, "%s comes after a part that is open; only the last may be", e.Loc)
	case part.From.After(before.head.Until):
		a.fail(e, "%s begins at %s, and the part before it ends at %s: there is a gap", e.Loc, instant(part.From), instant(before.head.Until))
	case part.From.Before(before.head.Until):
		a.fail(e, "%s begins at %s, and the part before it ends at %s: they overlap", e.Loc, instant(part.From), instant(before.head.Until))
	}
	a.missed = false
}

// broken notes that a part is not known, so that the one after it is not held
// against the one before.
func (a *agreement) broken() { a.missed = true }

// end checks that the parts reach as far as their index.
func (a *agreement) end() {
	all := &a.list.head
	if a.last == nil || a.missed || all.Until.IsZero() {
		return
	}
	if until := a.last.head.Until; !until.IsZero() && until.Before(all.Until) {
		a.fail(&a.list.listed[len(a.list.listed)-1], "the last part ends at %s, and its index at %s: there is a gap", instant(until), instant(all.Until))
	}
}
