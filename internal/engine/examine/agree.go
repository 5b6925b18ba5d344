package examine

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/websub"
)

// agreement compares a document that lists others with these, one after the other in
// its order. A disagreement is reported at the entry, with the rule of the list.
type agreement struct {
	*examination
	list   *Document
	listed map[*Document]bool

	// The parts of a Change List or Change Dump follow each other in time.
	last   *Document // the part before
	missed bool      // a part since then is not known
}

// fail reports a disagreement, at an entry of the list.
func (a *agreement) fail(e *resourcesync.Entry, format string, args ...any) {
	a.breaks(listRule(a.list.head), e, format, args...)
}

func (a *agreement) breaks(rule string, e *resourcesync.Entry, format string, args ...any) {
	a.list.add(Finding{Level: Fail, Kind: "inconsistent", Rule: rule, Line: e.Line, Column: e.Column, Message: fmt.Sprintf(format, args...)})
}

// agrees compares a document with the entry that lists it. Above are the list and
// those that led to it.
func (a *agreement) agrees(e *resourcesync.Entry, d *Document, above []*Document) {
	twice := a.listed[d]
	a.listed[d] = true
	a.bytes(e, d)
	switch {
	case slices.Contains(above, d):
		a.fail(e, "%s leads back to where it is listed", e.Loc)
		return
	case twice:
		a.fail(e, "%s is listed twice", e.Loc)
		return
	case a.list.head.Index:
		a.list.InParts += d.Entries
	}
	expected, missed := a.expected(e), a.missed
	a.missed = true
	switch {
	case d.broken: // why was reported with the document
	case d.Capability == "" || d.head.Line == 0:
		if expected != "" {
			a.fail(e, "%s is a sitemap without ResourceSync; it should be a %s", e.Loc, expected)
		}
	case expected != "" && d.Capability != expected:
		a.fail(e, "the capability of %s is %s; it should be %s", e.Loc, d.Capability, expected)
	case d.head.Index && a.list.head.Index:
		a.fail(e, "%s is an index; a member of an index must not be one", e.Loc)
	default:
		a.missed = missed
		a.links(e, d)
		a.times(e, d)
		if a.list.head.Index {
			a.within(e, d)
			a.follows(e, d)
		}
	}
}

// expected is the capability that a listed document should have; empty if the list does
// not say.
func (a *agreement) expected(e *resourcesync.Entry) string {
	h := a.list.head
	switch {
	case h.Index:
		return h.Capability
	case isDump(h):
		return h.Capability + "-manifest"
	case h.Capability == resourcesync.Description:
		return resourcesync.CapabilityList
	case h.Capability == resourcesync.CapabilityList:
		return e.Capability
	}
	return strings.TrimSuffix(h.Capability, archiveSuffix)
}

// channel checks an entry for notifications. Its address is that of a topic, which need
// not have content, so only CheckSource requests it (SRC-11).
func (a *agreement) channel(ctx context.Context, e *resourcesync.Entry) {
	hubs := targets(e.Links, websub.RelHub)
	if len(hubs) == 0 {
		a.breaks("SRC-11", e, "the channel %s names no hub (rs:ln rel=\"hub\")", e.Loc)
	}
	if a.source != nil {
		a.source.channel(ctx, e, hubs)
	}
}

// bytes compares a package with what the entry says of its length and hashes.
func (a *agreement) bytes(e *resourcesync.Entry, d *Document) {
	if d.content.at == nil {
		return
	}
	listed := resourcesync.ParseHashes(e.Hash)
	h := resourcesync.NewHasher(listed.Algorithms()...)
	_, _ = io.Copy(h, d.content.reader()) // in memory, and a Hasher never fails
	d.content = body{}
	if e.HasLength && e.Length != h.Length() {
		a.breaks("DOC-56", e, "%s has %d bytes, and its entry says %d", e.Loc, h.Length(), e.Length)
	} else if listed.Compare(h.Digests()) == resourcesync.Different {
		a.breaks("DOC-55", e, "the hashes of %s are %v, and its entry says %v", e.Loc, h.Digests(), listed)
	}
}

// links compares the up and index links of the document with the list.
func (a *agreement) links(e *resourcesync.Entry, d *Document) {
	h := a.list.head
	up, hasUp := d.head.Link("up")
	index, hasIndex := d.head.Link("index")
	switch {
	case !h.Index:
		if !isArchive(h.Capability) && !isDump(h) && hasUp && !a.list.isAt(d, up.Href) {
			a.fail(e, "up of %s leads to %s, and not to where it is listed", e.Loc, up.Href)
		}
		return
	case !hasIndex && h.Capability != resourcesync.Description:
		f := Finding{Level: Warn, Rule: listRule(h), Line: e.Line, Column: e.Column, Message: e.Loc + " lacks an rs:ln rel=\"index\" to its index"}
		if a.o.Strict {
			f.Level, f.Kind = Fail, "inconsistent"
		}
		a.list.add(f)
	case hasIndex && !a.list.isAt(d, index.Href):
		a.fail(e, "index of %s leads to %s, and not to where it is listed", e.Loc, index.Href)
	}
	if of, ok := h.Link("up"); ok && hasUp && resolved(d, up.Href) != resolved(a.list, of.Href) {
		a.fail(e, "up of %s leads to %s, and that of its index to %s", e.Loc, up.Href, of.Href)
	}
}

// isAt reports whether a link of another document leads to d. If d came from no URL, it
// returns true.
func (d *Document) isAt(from *Document, href string) bool {
	to := resolved(from, href)
	return d.requested == "" || to == canonical(d.requested) || to == canonical(d.final)
}

// resolved is where a link of a document leads.
func resolved(d *Document, href string) string {
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

// times compares the times in the entry with those of the document.
func (a *agreement) times(e *resourcesync.Entry, d *Document) {
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
func (a *agreement) within(e *resourcesync.Entry, d *Document) {
	part, all := &d.head, &a.list.head
	switch {
	case !all.At.IsZero() && !part.At.IsZero() && part.At.Before(all.At):
		a.fail(e, "at of %s is %s, earlier than that of its index, %s", e.Loc, instant(part.At), instant(all.At))
	case !all.Completed.IsZero() && (part.Completed.After(all.Completed) || part.At.After(all.Completed)):
		a.fail(e, "%s was completed at %s, later than its index, %s", e.Loc, instant(slices.MaxFunc([]time.Time{part.At, part.Completed}, time.Time.Compare)), instant(all.Completed))
	case !all.From.IsZero() && !part.From.IsZero() && part.From.Before(all.From):
		a.fail(e, "from of %s is %s, earlier than that of its index, %s", e.Loc, instant(part.From), instant(all.From))
	case !all.Until.IsZero() && part.Until.After(all.Until):
		a.fail(e, "until of %s is %s, later than that of its index, %s", e.Loc, instant(part.Until), instant(all.Until))
	case !all.Until.IsZero() && !part.From.IsZero() && part.Until.IsZero():
		a.fail(e, "%s is open, and its index is closed, until %s", e.Loc, instant(all.Until))
	}
}

// follows checks that a part with changes begins where the one before it ended.
func (a *agreement) follows(e *resourcesync.Entry, d *Document) {
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
