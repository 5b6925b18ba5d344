package examine

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rshub/rshub/internal/base/quantity"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/websub"
)

// sourceCheck checks what CheckSource checks besides documents: what only a running
// server can show, and what is allowed but unwise.
type sourceCheck struct {
	*examination
	report func(Finding)
	result Result
	random *rand.Rand

	hubs      map[string]bool // that were requested
	channels  int             // topics and hubs found so far
	sampled   []*Document     // lists with samples to be fetched
	changedAt map[string]time.Time
	condition bool // a conditional request was tried
}

func newSourceCheck(o Options, report func(Finding)) *sourceCheck {
	o.Follow = true
	s := &sourceCheck{report: report, hubs: make(map[string]bool), changedAt: make(map[string]time.Time), random: rand.New(rand.NewPCG(1, 2))} //nolint:gosec // the same sample each time
	s.examination = newExamination(o, s.document)
	s.source = s
	return s
}

// run checks the Source that a URL leads to.
func (s *sourceCheck) run(ctx context.Context, url string) (Result, error) {
	err := s.discover(ctx, url)
	if err == nil {
		s.fetchSamples(ctx)
	}
	s.result.Documents = s.o.MaxDocuments - s.left
	if ctx.Err() != nil {
		err = fmt.Errorf("stopped: %w", ctx.Err())
	}
	return s.result, err
}

// subject is what findings are about.
type subject struct {
	s          *sourceCheck
	check, url string
}

func (s *sourceCheck) about(check, url string) subject { return subject{s, check, url} }

func (f subject) pass(rule, format string, args ...any) { f.add(Pass, rule, format, args) }
func (f subject) warn(rule, format string, args ...any) { f.add(Warn, rule, format, args) }
func (f subject) fail(rule, format string, args ...any) { f.add(Fail, rule, format, args) }

func (f subject) add(level Level, rule, format string, args []any) {
	f.s.found(Finding{Level: level, Check: f.check, URL: f.url, Rule: rule, Message: fmt.Sprintf(format, args...)})
}

// found counts and reports a finding.
func (s *sourceCheck) found(f Finding) {
	*map[Level]*int{Pass: &s.result.Passed, Warn: &s.result.Warned, Fail: &s.result.Failed}[f.Level]++
	s.report(f)
}

// document reports what was found in a document.
func (s *sourceCheck) document(d *Document) error {
	check := "document"
	if strings.HasSuffix(d.Capability, "-manifest") {
		check = "dump"
	}
	for _, f := range d.All(check) {
		s.found(f)
	}
	return nil
}

// shortcomings are weaknesses of the entries of a list. One warning covers all entries
// with the same one.
var shortcomings = [...]struct {
	rule, one, many, what string
	of                    func(e *resourcesync.Entry, listHost string) bool
}{
	{"DOC-56", "entry has", "entries have", "no length, so a copy that broke off can't be noticed", func(e *resourcesync.Entry, _ string) bool {
		return !e.HasLength && !e.Change.Removes()
	}},
	{"DOC-55", "entry has", "entries have", "no hash that can be compared, so what is the same is fetched again, and damage is not noticed", func(e *resourcesync.Entry, _ string) bool {
		return !e.Change.Removes() && resourcesync.ParseHashes(e.Hash) == (resourcesync.Digests{})
	}},
	{"DOC-39", "entry has", "entries have", "no time (datetime of a change, lastmod of a resource)", func(e *resourcesync.Entry, _ string) bool {
		return e.Change != "" && e.Datetime.IsZero() || e.Change == "" && e.LastMod.IsZero()
	}},
	{"", "resource has", "resources have", "a name in its path that begins with a dot: that is seldom meant to be published, and may contain secrets (.env, .git, .ssh)", func(e *resourcesync.Entry, _ string) bool {
		return !e.Change.Removes() && hasHiddenName(e.Loc)
	}},
	{"", "resource is", "resources are", "on another host than the list, which some subscribers refuse", func(e *resourcesync.Entry, listHost string) bool {
		return host(e.Loc) != listHost
	}},
}

// shortOf counts the entries of a list that have one of the shortcomings.
type shortOf struct {
	count int
	first string // its URL
}

// lastChanges is how many of the last changes of a list are kept.
const lastChanges = 200

// entry counts the shortcomings of an entry of a list, and keeps a sample: the last
// changes of a Change List, and of other lists a random one.
func (s *sourceCheck) entry(d *Document, e resourcesync.Entry) {
	for i, kind := range shortcomings {
		if kind.of(&e, host(d.File)) {
			d.shortOf[i].count++
			d.shortOf[i].first = cmp.Or(d.shortOf[i].first, e.Loc)
		}
	}
	switch {
	case d.Capability == resourcesync.ChangeList:
		s.learn(&e)
		if len(d.sample) == lastChanges {
			d.sample = slices.Delete(d.sample, 0, 1)
		}
		d.sample = append(d.sample, e)
	case len(d.sample) < s.o.Sample:
		d.sample = append(d.sample, e)
	default:
		if n := s.random.IntN(d.Entries); n < len(d.sample) {
			d.sample[n] = e
		}
	}
}

// hasHiddenName reports whether a name in the path of a URL begins with a dot, except
// .well-known (RFC 8615).
func hasHiddenName(raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && slices.ContainsFunc(strings.Split(u.Path, "/"), func(name string) bool {
		return strings.HasPrefix(name, ".") && name != ".well-known" && name != "." && name != ".."
	})
}

// visited checks a document as a whole. Resources that are listed only in an archive may
// be gone.
func (s *sourceCheck) visited(d *Document, above []*Document) {
	list := !d.broken && !d.Index && !belowArchive(above)
	switch {
	case list && d.Capability == resourcesync.CapabilityList:
		if d.lists(resourcesync.ChangeNotification) && !d.lists(resourcesync.ChangeList) {
			s.about("document", d.File).warn("SRC-15", "changes are pushed, and there is no Change List: a subscriber that misses a notification has to compare everything")
		}
	case list && d.Capability == resourcesync.ChangeList:
		s.warnOfEntries(d)
		s.lastOfEach(d)
	case list && (d.Capability == resourcesync.ResourceList || d.Capability == "" && len(above) == 0): // or a plain sitemap
		s.warnOfEntries(d)
		s.sampled = append(s.sampled, d)
	default:
		d.sample = nil
	}
}

// lists reports whether an entry has this capability.
func (d *Document) lists(capability string) bool {
	return slices.ContainsFunc(d.listed, func(e resourcesync.Entry) bool { return e.Capability == capability })
}

// warnOfEntries warns about the shortcomings of the entries of a list.
func (s *sourceCheck) warnOfEntries(d *Document) {
	for i, short := range d.shortOf {
		if kind := shortcomings[i]; short.count > 0 {
			s.about("document", d.File).warn(kind.rule, "%s %s; the first is %s", quantity.Count(short.count, kind.one, kind.many), kind.what, short.first)
		}
	}
}

// lastOfEach schedules fetching the resources that changed last. Those of a closed list
// may have changed since.
func (s *sourceCheck) lastOfEach(d *Document) {
	if !d.Until.IsZero() {
		d.sample = nil
		return
	}
	seen := make(map[string]bool)
	var last []resourcesync.Entry
	for _, e := range slices.Backward(d.sample) {
		if !seen[e.Loc] && len(last) < s.o.Sample {
			last = append(last, e)
		}
		seen[e.Loc] = true
	}
	d.sample = last
	s.sampled = append(s.sampled, d)
}

// maxChanges is how many changed resources are remembered.
const maxChanges = 200_000

// learn records when a resource changed.
func (s *sourceCheck) learn(e *resourcesync.Entry) {
	if at, known := s.changedAt[e.Loc]; (known || len(s.changedAt) < maxChanges) && e.Datetime.After(at) {
		s.changedAt[e.Loc] = e.Datetime
	}
}

// since reports whether a Change List has a later change of a resource than the
// entry is of.
func (s *sourceCheck) since(d *Document, e *resourcesync.Entry) bool {
	of := e.Datetime
	if of.IsZero() {
		of = d.head.At
	}
	return s.changedAt[e.Loc].After(of)
}

// served checks how a document is served.
func (s *sourceCheck) served(ctx context.Context, in input, d *Document) {
	f := s.about("document", d.File)
	if d.At.After(time.Now().Add(5 * time.Minute)) {
		f.warn("", "its at is %s, which is in the future", instant(d.At))
	}
	if !in.isXML() && !in.gzip && !in.isPackage() {
		f.warn("", "its Content-Type is %q; application/xml is what readers expect", in.header.Get("Content-Type"))
	}
	if s.condition {
		return
	}
	s.condition = true
	name, value := "If-None-Match", in.header.Get("ETag")
	if value == "" {
		name, value = "If-Modified-Since", in.header.Get("Last-Modified")
	}
	if value == "" {
		f.warn("", "it is served without ETag and Last-Modified, so subscribers fetch it again at each poll")
		return
	}
	again, err := s.get(ctx, http.MethodGet, in.final, name, value)
	if err != nil {
		return // the next document will report why
	}
	defer again.close()
	if again.status == http.StatusNotModified {
		f.pass("", "it is not sent again to a subscriber that has it (304)")
		return
	}
	f.warn("", "asked with %s it answers %s and not 304, so subscribers fetch it again at each poll", name, again.text)
}

// fetchSamples fetches the samples of all lists, at the end, when it is known what
// has changed since a list was written.
func (s *sourceCheck) fetchSamples(ctx context.Context) {
	for _, d := range s.sampled {
		good := 0
		for i := range d.sample {
			if ctx.Err() == nil && s.resource(ctx, d, &d.sample[i]) {
				good++
			}
		}
		if good > 0 {
			s.about("resource", d.File).pass("", "%s of %d fetched, and as the list says", quantity.Count(good, "entry", "entries"), d.Entries)
		}
		d.sample = nil
	}
}

// resource fetches one resource and compares it with its entry.
func (s *sourceCheck) resource(ctx context.Context, d *Document, e *resourcesync.Entry) bool {
	if s.since(d, e) {
		return false // a later change says what there is
	}
	f := s.about("resource", e.Loc)
	s.result.Resources++
	a, err := s.get(ctx, http.MethodGet, e.Loc)
	if err != nil {
		f.fail("", "%v", err)
		return false
	}
	defer a.close()
	switch gone := a.status == http.StatusNotFound || a.status == http.StatusGone; {
	case e.Change.Removes():
		if !gone {
			f.warn("", "it was deleted by %s, and is there again", d.File)
		}
		return gone
	case gone:
		f.fail("", "%s lists it, and the server answers %s", d.File, a.text)
	case a.status != http.StatusOK:
		f.fail("", "it can't be fetched: the server answers %s", a.text)
	default:
		return f.same(e, a)
	}
	return false
}

// same compares what the server sends with what the entry says.
func (f subject) same(e *resourcesync.Entry, a *answer) bool {
	listed := resourcesync.ParseHashes(e.Hash)
	h := resourcesync.NewHasher(listed.Algorithms()...)
	if _, err := io.Copy(h, a.body); err != nil {
		f.fail("", "it broke off: %v", err)
		return false
	}
	wrong, why := f.fail, ""
	if at, err := http.ParseTime(a.header.Get("Last-Modified")); err == nil && !e.LastMod.IsZero() && at.After(e.LastMod) {
		wrong, why = f.warn, "; it was modified since"
	}
	switch {
	case e.HasLength && e.Length != h.Length():
		wrong("DOC-56", "it has %d bytes, and the list says %d%s", h.Length(), e.Length, why)
		return false
	case listed.Compare(h.Digests()) == resourcesync.Different:
		wrong("DOC-55", "its hashes are %v, and the list says %v%s", h.Digests(), listed, why)
		return false
	}
	bare, _, _ := strings.Cut(e.Type, ";")
	if m := mediaOf(a.header); bare != "" && m != "" && !strings.EqualFold(strings.TrimSpace(bare), m) {
		f.warn("DOC-58", "its Content-Type is %s, and the list says %s", m, e.Type)
	}
	return true
}

// targets are the targets of the links of a relation.
func targets(links []resourcesync.Link, rel string) []string {
	var to []string
	for _, l := range links {
		if strings.EqualFold(l.Rel, rel) {
			to = append(to, l.Href)
		}
	}
	return to
}

// channel checks a topic as a hub and a subscriber do, and its hubs (SRC-02, SRC-04).
func (s *sourceCheck) channel(ctx context.Context, e *resourcesync.Entry, hubs []string) {
	if s.another(e.Loc) {
		s.about("topic", e.Loc).topic(ctx, e, hubs)
	}
	for _, hub := range hubs {
		if known := websub.HubURL(hub); !s.hubs[known] && s.another(hub) {
			s.hubs[known] = true
			s.about("hub", hub).hub(ctx)
		}
	}
}

// maxChannels is how many topics and hubs are requested.
const maxChannels = 100

// another reports whether one more topic or hub may be requested.
func (s *sourceCheck) another(url string) bool {
	if s.channels++; s.channels == maxChannels+1 {
		s.about("topic", url).warn("", "only %d topics and hubs were checked; this one and those after it were not", maxChannels)
	}
	return s.channels <= maxChannels
}

// topic requests the topic URI.
func (f subject) topic(ctx context.Context, e *resourcesync.Entry, hubs []string) {
	var answers [2]*answer
	for i, method := range []string{http.MethodHead, http.MethodGet} {
		a, err := f.s.get(ctx, method, e.Loc)
		if err != nil {
			f.fail("SRC-02", "%v", err)
			return
		}
		defer a.close()
		answers[i] = a
	}
	head, a := answers[0], answers[1]
	if head.status != http.StatusOK || a.status != http.StatusOK {
		f.fail("SRC-02", "it answers %s to GET and %s to HEAD; both must be 200", a.text, head.text)
		return
	}
	if a.url != e.Loc || head.url != e.Loc {
		f.fail("SRC-02", "it redirects to %s; a hub follows no redirect, and is going to refuse what is published", a.url)
		return
	}
	links := websub.ParseLinks(a.header.Values("Link"))
	self, named := websub.Targets(links, websub.RelSelf), websub.Targets(links, websub.RelHub)
	good := true
	switch {
	case len(self) != 1:
		f.fail("SRC-04", "its answer has %s rel=\"self\"; there must be one", quantity.Count(len(self), "Link header with", "Link headers with"))
		good = false
	case self[0] != e.Loc:
		f.fail("SRC-02", "its answer says that it is %s; hubs and subscribers compare that letter by letter", self[0])
		good = false
	}
	for _, hub := range hubs {
		if !websub.HasHub(named, hub) {
			f.fail("SRC-02", "its answer does not name the hub %s, which the Capability List does: the hub is going to refuse what is published", hub)
			good = false
		}
	}
	if mediaOf(a.header) != "application/xml" {
		f.warn("SRC-02", "its Content-Type is %q; it should be application/xml", a.header.Get("Content-Type"))
	}
	if good {
		f.pass("SRC-02", "it names itself and %s", quantity.Count(len(hubs), "hub", "hubs"))
	}
	f.latest(e, a)
}

// latest checks the notification that a topic may serve.
func (f subject) latest(e *resourcesync.Entry, a *answer) {
	body, err := io.ReadAll(io.LimitReader(a.body, resourcesync.DefaultLimits.Bytes+1))
	switch {
	case err != nil:
		f.fail("SRC-03", "its content broke off: %v", err)
		return
	case len(body) == 0:
		return // nothing was published yet, or nothing is shown
	}
	n, err := resourcesync.CheckNotification(bytes.NewReader(body), resourcesync.DefaultLimits)
	switch {
	case err != nil:
		f.warn("SRC-03", "its content is no notification: %v", err)
	case n.Capability != e.Capability:
		f.warn("SRC-01", "its content is a %s, and the Capability List says %s", n.Capability, e.Capability)
	default:
		f.pass("SRC-03", "its last notification has %s, until %s", quantity.Count(n.Entries, "entry", "entries"), instant(n.Until))
	}
}

// hub checks that a hub answers at all.
func (f subject) hub(ctx context.Context) {
	a, err := f.s.get(ctx, http.MethodGet, f.url)
	if err != nil {
		f.fail("", "%v", err)
		return
	}
	a.close()
	switch {
	case a.status >= 500:
		f.fail("", "it answers %s", a.text)
	case a.status == http.StatusNotFound:
		f.fail("", "it answers %s, as if there were no hub at this URL", a.text)
	default:
		f.pass("", "it answers")
	}
}

func host(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}
