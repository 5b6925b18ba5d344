package examine

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/rshub/rshub/resourcesync"
)

// lastChanges is how many of the last changes of a list are kept.
const lastChanges = 200

// note counts what an entry lacks.
func (d *document) note(e *resourcesync.Entry) {
	if host(e.Loc) != host(d.url) {
		d.stat.elsewhere++
	}
	if e.Change != "" && e.Datetime.IsZero() || e.Change == "" && e.LastMod.IsZero() {
		d.stat.noTime++
	}
	if e.Change == resourcesync.Deleted {
		return
	}
	if name := hiddenName(e.Loc); name != "" {
		if d.stat.hidden++; d.stat.firstHidden == "" {
			d.stat.firstHidden = name
		}
	}
	if !e.HasLength {
		d.stat.noLength++
	}
	if resourcesync.ParseHashes(e.Hash) == (resourcesync.Digests{}) {
		d.stat.noHash++
	}
}

// hiddenName returns the first name in the path of a URL that begins with a dot, except
// .well-known (RFC 8615); empty: there is none.
func hiddenName(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	for name := range strings.SplitSeq(u.Path, "/") {
		if strings.HasPrefix(name, ".") && name != ".well-known" && name != "." && name != ".." {
			return name
		}
	}
	return ""
}

// drawn keeps a random sample of the entries.
func (x *examination) drawn(d *document, e resourcesync.Entry) {
	if len(d.sample) < x.o.Sample {
		d.sample = append(d.sample, e)
		return
	}
	if n := x.random.IntN(d.entries); n < len(d.sample) {
		d.sample[n] = e
	}
}

// keepLast keeps the last changes.
func (d *document) keepLast(e resourcesync.Entry) {
	if len(d.sample) == lastChanges {
		d.sample = slices.Delete(d.sample, 0, 1)
	}
	d.sample = append(d.sample, e)
}

// lacks warns of what is missing in a list.
func (x *examination) lacks(d *document) {
	s := x.about("document", d.url)
	if n := d.stat.noLength; n > 0 {
		s.warn("DOC-56", "%s no length, so what was copied can't be told from what broke off", count(n, "entry has", "entries have"))
	}
	if n := d.stat.noHash; n > 0 {
		s.warn("DOC-55", "%s no hash that can be compared, so what is the same is fetched again and damage is not noticed", count(n, "entry has", "entries have"))
	}
	if n := d.stat.noTime; n > 0 {
		s.warn("DOC-39", "%s no time (datetime of a change, lastmod of a resource)", count(n, "entry has", "entries have"))
	}
	if n := d.stat.hidden; n > 0 {
		s.warn("", "%s a name in its path that begins with a dot, such as %q: that is seldom meant to be published, and may hold secrets (.env, .git, .ssh)", count(n, "resource has", "resources have"), d.stat.firstHidden)
	}
	if n := d.stat.elsewhere; n > 0 {
		s.warn("", "%s on another host than the list, which some subscribers refuse", count(n, "resource is", "resources are"))
	}
}

// fetchSamples fetches the samples of all lists, at the end, when it is known what
// has changed since a list was written.
func (x *examination) fetchSamples(ctx context.Context) {
	for _, d := range x.sampled {
		good := 0
		for i := range d.sample {
			if ctx.Err() == nil && x.resource(ctx, d, &d.sample[i]) {
				good++
			}
		}
		if good > 0 {
			x.about("resource", d.url).pass("", "%s of %d fetched, and as the list says", count(good, "entry", "entries"), d.entries)
		}
		d.sample = nil
	}
}

// changed takes note of what a Change List says, and has what changed last fetched.
func (x *examination) changed(d *document) {
	x.lacks(d)
	if !d.head.Until.IsZero() {
		d.sample = nil // resources have changed since
		return
	}
	seen := make(map[string]bool)
	var last []resourcesync.Entry
	for _, e := range slices.Backward(d.sample) {
		if !seen[e.Loc] && len(last) < x.o.Sample {
			last = append(last, e)
		}
		seen[e.Loc] = true
	}
	d.sample = last
	x.sampled = append(x.sampled, d)
}

// maxChanges is how many resources are known to have changed.
const maxChanges = 200_000

// learn notes when a resource changed.
func (x *examination) learn(e *resourcesync.Entry) {
	if at, known := x.changedAt[e.Loc]; (known || len(x.changedAt) < maxChanges) && e.Datetime.After(at) {
		x.changedAt[e.Loc] = e.Datetime
	}
}

// since reports whether a Change List has a later change of a resource than the
// entry is of.
func (x *examination) since(d *document, e *resourcesync.Entry) bool {
	of := e.Datetime
	if of.IsZero() {
		of = d.head.At
	}
	return x.changedAt[e.Loc].After(of)
}

// resource fetches one resource and compares it with its entry.
func (x *examination) resource(ctx context.Context, d *document, e *resourcesync.Entry) bool {
	s := x.about("resource", e.Loc)
	if x.since(d, e) {
		return false // a later change says what there is
	}
	x.result.Resources++
	a, err := x.get(ctx, http.MethodGet, e.Loc)
	if err != nil {
		s.fail("", "it can't be had: %v", err)
		return false
	}
	defer a.close()
	deleted := e.Change == resourcesync.Deleted
	switch gone := a.status == http.StatusNotFound || a.status == http.StatusGone; {
	case deleted && gone:
		return true
	case deleted:
		s.warn("", "it was deleted by %s, and is there again", d.url)
		return false
	case gone:
		s.fail("", "%s lists it, and the server answers %s", d.url, a.text())
		return false
	case a.status != http.StatusOK:
		s.fail("", "it can't be had: the server answers %s", a.text())
		return false
	}
	want := resourcesync.ParseHashes(e.Hash)
	h := resourcesync.NewHasher(want.Algorithms()...)
	if _, err := io.Copy(h, a.body); err != nil {
		s.fail("", "it broke off: %v", err)
		return false
	}
	return x.same(s, e, a, h, want)
}

// same compares what came with what the entry says.
func (x *examination) same(s subject, e *resourcesync.Entry, a *answer, h *resourcesync.Hasher, want resourcesync.Digests) bool {
	wrong := s.fail
	why := ""
	if at, err := http.ParseTime(a.header.Get("Last-Modified")); err == nil && !e.LastMod.IsZero() && at.After(e.LastMod) {
		wrong, why = s.warn, "; it was modified since"
	}
	switch {
	case e.HasLength && e.Length != h.Length():
		wrong("DOC-56", "it has %d bytes, and the list says %d%s", h.Length(), e.Length, why)
		return false
	case want.Compare(h.Digests()) == resourcesync.Different:
		wrong("DOC-55", "its hashes are %v, and the list says %v%s", h.Digests(), want, why)
		return false
	}
	if m := a.media(); e.Type != "" && m != "" && !strings.EqualFold(bare(e.Type), m) {
		s.warn("DOC-58", "its Content-Type is %s, and the list says %s", m, e.Type)
	}
	return true
}

func bare(media string) string {
	m, _, _ := strings.Cut(media, ";")
	return strings.TrimSpace(m)
}

func host(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}
