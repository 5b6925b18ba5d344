package examine

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// listed is a document that another one lists.
type listed struct {
	entry resourcesync.Entry
	want  string // its capability; empty: any
}

// document is one that was read.
type document struct {
	url     string
	head    resourcesync.Head
	entries int
	listed  []resourcesync.Entry // where the entries are documents
	sample  []resourcesync.Entry // of resources
	stat    statistics
}

// statistics count what the entries of a list lack.
type statistics struct {
	noLength, noHash, noTime, elsewhere, hidden int
	firstHidden                                 string // of the names that hidden counts
}

// visit looks at a document and all that it lists. Above are those that led to it.
func (x *examination) visit(ctx context.Context, l listed, above []*document) {
	if ctx.Err() != nil {
		return
	}
	if d := x.seen[l.entry.Loc]; d != nil {
		if slices.Contains(above, d) {
			x.about("document", above[len(above)-1].url).fail("", "%s leads back to where it is listed", d.url)
		}
		return
	}
	if x.result.Documents >= x.o.MaxDocuments {
		x.skipped++
		return
	}
	x.result.Documents++
	d := x.read(ctx, l)
	x.seen[l.entry.Loc] = d
	if d.head.Capability == "" {
		return
	}
	var parent *document
	if len(above) > 0 {
		parent = above[len(above)-1]
	}
	x.agrees(d, &l.entry, parent)
	x.below(ctx, d, append(above, d))
}

// below goes on with what a document lists.
func (x *examination) below(ctx context.Context, d *document, above []*document) {
	switch {
	case d.head.Index:
		for _, e := range d.listed {
			x.visit(ctx, listed{e, d.head.Capability}, above)
		}
		x.continuous(d)
	case d.head.Capability == resourcesync.Description:
		for _, e := range d.listed {
			x.visit(ctx, listed{e, resourcesync.CapabilityList}, above)
		}
	case d.head.Capability == resourcesync.CapabilityList:
		x.lists = d.url
		for _, e := range d.listed {
			switch e.Capability {
			case resourcesync.ChangeNotification, resourcesync.FrameworkNotification:
				x.channel(ctx, d, &e)
				continue
			case resourcesync.ChangeList:
				x.changes = true
			}
			x.visit(ctx, listed{e, e.Capability}, above)
		}
	case isArchive(d.head.Capability):
		for _, e := range d.listed {
			x.visit(ctx, listed{e, strings.TrimSuffix(d.head.Capability, "-archive")}, above)
		}
	case slices.ContainsFunc(above, func(d *document) bool { return isArchive(d.head.Capability) }):
		// What was once need not be any more.
	case d.head.Capability == resourcesync.ResourceList:
		x.lacks(d)
		x.sampled = append(x.sampled, d)
	case d.head.Capability == resourcesync.ChangeList:
		x.changed(d)
	case d.head.Capability == resourcesync.ResourceDump, d.head.Capability == resourcesync.ChangeDump:
		x.dump(ctx, d)
	}
}

// read fetches a document and reads it to its end.
func (x *examination) read(ctx context.Context, l listed) *document {
	d := &document{url: l.entry.Loc}
	s := x.about("document", d.url)
	a, err := x.get(ctx, http.MethodGet, d.url)
	if err != nil {
		s.fail("", "it can't be had: %v", err)
		return d
	}
	defer a.close()
	if a.status != http.StatusOK {
		s.fail("", "it can't be had: the server answers %s", a.text())
		return d
	}
	r := resourcesync.NewReader(a.body, resourcesync.ReadOptions{Gzip: a.packed()})
	d.head, err = r.Head()
	if err == nil {
		err = x.entries(d, r)
	}
	if err != nil {
		d.head.Capability = "" // nothing in it is to be relied upon
		x.broken(s, err)
		return d
	}
	d.head, _ = r.Head() // what was said late is known now
	switch {
	case d.head.Capability == "":
		s.fail("DOC-12", "it is a sitemap and no document of ResourceSync")
		return d
	case l.want != "" && d.head.Capability != l.want:
		s.fail("", "its capability is %s, and it is listed as %s", d.head.Capability, l.want)
	}
	if n := r.TolerationCount(); n > 0 {
		first := r.Tolerated()[0]
		s.warn(first.Rule, "%s not as version 1.1 has it; the first: %v (see rshub validate for all)", count(n, "thing is", "things are"), first)
	}
	x.headers(ctx, s, a)
	x.told(s, d)
	return d
}

// broken tells why a document can't be read.
func (x *examination) broken(s subject, err error) {
	var e *resourcesync.Error
	if errors.As(err, &e) {
		s.fail(e.Rule, "%v", e)
		return
	}
	s.fail("", "it broke off: %v", err)
}

// entries reads the entries: all where they are documents, else a sample.
func (x *examination) entries(d *document, r *resourcesync.Reader) error {
	documents := d.head.Index || isArchive(d.head.Capability) || slices.Contains([]string{
		resourcesync.Description, resourcesync.CapabilityList, resourcesync.ResourceDump, resourcesync.ChangeDump,
	}, d.head.Capability)
	for e, err := range r.Entries() {
		if err != nil {
			return err
		}
		d.entries++
		switch {
		case documents:
			d.listed = append(d.listed, e)
		case d.head.Capability == resourcesync.ChangeList:
			d.note(&e)
			x.learn(&e)
			d.keepLast(e)
		default:
			d.note(&e)
			x.drawn(d, e)
		}
	}
	return nil
}

// told says what a document is.
func (x *examination) told(s subject, d *document) {
	what := d.head.Kind()
	switch h := &d.head; {
	case !h.At.IsZero():
		what += " of " + instant(h.At)
	case !h.From.IsZero() && h.Until.IsZero():
		what += " from " + instant(h.From) + ", open"
	case !h.From.IsZero():
		what += " from " + instant(h.From) + " until " + instant(h.Until)
	}
	s.pass("", "%s, %s", what, count(d.entries, "entry", "entries"))
	if h := &d.head; h.At.After(time.Now().Add(5 * time.Minute)) {
		s.warn("", "it says to be of %s, which is in the future", instant(h.At))
	}
}

// headers looks at how a document is served.
func (x *examination) headers(ctx context.Context, s subject, a *answer) {
	if m := a.media(); m != "application/xml" && m != "text/xml" && !strings.HasSuffix(m, "+xml") && !a.packed() {
		s.warn("", "its Content-Type is %q; application/xml is what readers expect", a.header.Get("Content-Type"))
	}
	if x.condition {
		return
	}
	x.condition = true
	name, value := "If-None-Match", a.header.Get("ETag")
	if value == "" {
		name, value = "If-Modified-Since", a.header.Get("Last-Modified")
	}
	if value == "" {
		s.warn("", "it is served without ETag and Last-Modified, so subscribers fetch it again each time that they look")
		return
	}
	again, err := x.get(ctx, http.MethodGet, a.url, name, value)
	if err != nil {
		return // the next document will tell
	}
	defer again.close()
	if again.status == http.StatusNotModified {
		s.pass("", "it is not sent again to who has it (304)")
		return
	}
	s.warn("", "asked with %s it answers %s and not 304, so subscribers fetch it again each time that they look", name, again.text())
}

// agrees compares a document with what lists it.
func (x *examination) agrees(d *document, e *resourcesync.Entry, parent *document) {
	s := x.about("document", d.url)
	if parent == nil {
		return
	}
	for _, t := range []struct {
		name       string
		said, real time.Time
	}{{"at", e.At, d.head.At}, {"from", e.From, d.head.From}, {"until", e.Until, d.head.Until}} {
		if !t.said.IsZero() && !t.said.Equal(t.real) {
			s.fail("", "its %s is %s, and %s says %s", t.name, orNothing(t.real), parent.url, instant(t.said))
		}
	}
	up, hasUp := d.head.Link("up")
	index, hasIndex := d.head.Link("index")
	switch {
	case parent.head.Index && !hasIndex:
		s.warn("DOC-54", "it lacks an rs:ln rel=\"index\" to its index")
	case parent.head.Index && index.Href != parent.url:
		s.fail("DOC-54", "its rel=\"index\" leads to %s, and it is listed in %s", index.Href, parent.url)
	case !parent.head.Index && !isArchive(parent.head.Capability) && hasUp && up.Href != parent.url:
		s.fail("DOC-54", "its rel=\"up\" leads to %s, and it is listed in %s", up.Href, parent.url)
	}
}

func orNothing(t time.Time) string {
	if t.IsZero() {
		return "not there"
	}
	return instant(t)
}

// continuous checks that the parts of an index with changes follow each other.
func (x *examination) continuous(index *document) {
	s := x.about("document", index.url)
	var last *document
	for _, e := range index.listed {
		part := x.seen[e.Loc]
		if part == nil || part.head.From.IsZero() {
			last = nil
			continue
		}
		if last != nil {
			switch from, until := part.head.From, last.head.Until; {
			case until.IsZero():
				s.fail("DOC-40", "%s comes after a part that is open; only the last may be", e.Loc)
			case from.After(until):
				s.fail("DOC-40", "there is a gap between %s and %s", instant(until), instant(from))
			case from.Before(until):
				s.fail("DOC-40", "%s begins before the part before it ends", e.Loc)
			}
		}
		last = part
	}
}

// comparePush compares what is pushed with what can be pulled.
func (x *examination) comparePush() {
	s := x.about("document", x.lists)
	if x.pushes && !x.changes {
		s.warn("SRC-15", "changes are pushed, and there is no Change List: who misses a notification has to compare everything")
	}
	if x.skipped > 0 {
		s.warn("", "%s not looked at; see --max-documents", count(x.skipped, "document was", "documents were"))
	}
}
