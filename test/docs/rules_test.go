package docs

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/publisher/source"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/destination"
)

const (
	publisherDoc = "docs/publisher.md"
	rulesExample = "publisher/source/testdata/rules/rules.yaml"
)

// museum is what the example of rules is about: the resources, by path.
var museum = map[string]string{
	"index.html": "<h1>Museum</h1>", "about-works.rdf": "<rdf/>", "catalogue.json.gz": "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xab\xae\x05\x00\x43\xbf\xa6\xa3\x02\x00\x00\x00", // {}
	"works/1.pdf": "%PDF", "works/1.pdf.dc.xml": "<dc/>", "works/2.tif": "II*", "works/2.mods.xml": "<mods/>",
	"pages/visit.html": "<p>", "pages/visit.pdf": "%PDF-1", "prints/hokusai/3.jpg": "jpg", "news/now": "open", "news/archive/2025": "shut", "loans/4.jpg": "lent",
	"prices.csv": "adults,12\n",
}

// ruleRow is a line of the example, and the resource and document in which it shows.
type ruleRow struct{ line, document, loc, attribute string }

var ruleRows = []ruleRow{
	{"index: [index.html]", "resourcelist.xml", "data/", "<loc>"},
	{"drop: [.html, .gz]", "resourcelist.xml", "data/pages/visit", "<loc>"},
	{"type: application/rdf+xml", "resourcelist.xml", "data/about-works.rdf", "<rs:md"},
	{"encoding: gzip", "resourcelist.xml", "data/catalogue.json", "<rs:md"},
	{"sidecar: .dc.xml", "resourcelist.xml", "data/works/1.pdf", "describedby"},
	{"sidecar: .dc.xml", "resourcelist.xml", "data/works/1.pdf.dc.xml", "describes"},
	{`describes: "{path-.mods.xml}.tif"`, "resourcelist.xml", "data/works/2.mods.xml", "describes"},
	{"profile: http://purl.org/dc/elements/1.1/", "resourcelist.xml", "data/works/1.pdf.dc.xml", "profile"},
	{`{href: "https://mirror1.example/museum/{path}", pri: 1}`, "resourcelist.xml", "data/works/2.tif", "mirror1"},
	{`alternate: "{path-.html}.pdf"`, "resourcelist.xml", "data/pages/visit", "alternate"},
	{`canonical: "https://museum.example/id/{path-.pdf}"`, "resourcelist.xml", "data/pages/visit.pdf", "canonical"},
	{"collection: https://museum.example/collections/prints", "resourcelist.xml", "data/prints/hokusai/3.jpg", "collection"},
	{`memento: "https://web.example/{lastmod}/{url}"`, "resourcelist.xml", "data/news/now", "memento"},
	{`timegate: "https://web.example/{url}"`, "resourcelist.xml", "data/news/now", "timegate"},
	{`timemap: {href: "https://web.example/timemap/link/{url}", type: application/link-format}`, "resourcelist.xml", "data/news/now", "timemap"},
	{`original: "https://museum.example/news/now"`, "resourcelist.xml", "data/news/archive/2025", "original"},
	{`patch: {href: "patches/{sha256}.diff", type: text/x-diff}`, "changelist.xml", "data/prices.csv", "terms/patch"},
	{`via: {href: "https://lender.example/{path}", modified: lastmod}`, "resourcelist.xml", "data/loans/4.jpg", "via"},
	{"describedby: {href: about-works.rdf, type: application/rdf+xml}", "capabilitylist.xml", "", "describedby"},
	{"describedby: https://museum.example/about-all.rdf", ".well-known/resourcesync", "", "describedby"},
}

// The table of docs/publisher.md has each kind of link of section 14 of the core and each
// attribute: a line of rules, and what a Source makes of it. rshub validate --strict accepts all
// documents, and rssub copies the Source and finds the copy in sync (LNK-01, LNK-03 to LNK-08,
// LNK-10, LNK-12).
func TestTableOfRules_LNK01_LNK03_LNK04_LNK05_LNK06_LNK07_LNK08_LNK12(t *testing.T) {
	atRoot(t)
	example := readDoc(t, rulesExample)
	text := readDoc(t, publisherDoc)
	base, document := makeMuseum(t, example)
	s := sheet{"rules", []string{"line of rules", "where", "what the document has", "what rssub does with it"}, 1, nil}
	for _, r := range ruleRows {
		if !strings.Contains(example, r.line) {
			t.Errorf("the example has no line %q", r.line)
		}
		part := document(r.document)
		if r.loc != "" {
			_, part, _ = strings.Cut(part, "<loc>"+base+r.loc+"</loc>")
			part, _, _ = strings.Cut("<loc>"+base+r.loc+"</loc>"+part, "</url>")
		} else {
			part, _, _ = strings.Cut(part, "<url>")
		}
		where := "`" + strings.TrimPrefix(r.loc, "data/") + "` in `" + r.document + "`"
		if r.loc == "" {
			where = "root of `" + r.document + "`"
		} else if r.loc == "data/" {
			where = "`index.html` in `" + r.document + "`"
		}
		s.rows = append(s.rows, []string{"`" + r.line + "`", where, "`" + shown(t, part, r.attribute, base) + "`"})
	}
	for _, key := range source.Relations() {
		rel := " rel=\"" + key + "\""
		if key == "patch" {
			rel = "terms/patch"
		}
		if !slices.ContainsFunc(s.rows, func(r []string) bool { return strings.Contains(r[2], rel) }) {
			t.Errorf("no row has the relation %s", key)
		}
	}
	block := "<!-- rules -->\n```yaml\n" + example + "```\n"
	before, table, after, err := s.find(text)
	if err != nil {
		t.Fatal(err)
	}
	want := s.render(s.handwritten(table))
	if *update {
		before = regexp.MustCompile("(?s)<!-- rules -->\n```yaml\n.*?```\n").ReplaceAllLiteralString(before, block)
		if err := os.WriteFile(publisherDoc, []byte(before+want+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if table != want {
		t.Errorf("the table of rules is out of date (-is +should be); `go test ./test/docs -run TestTableOfRules -update` writes it anew:\n%s", cmp.Diff(strings.Split(table, "\n"), strings.Split(want, "\n")))
	} else if !strings.Contains(before, block) {
		t.Errorf("%s does not have %s as it is; -update writes it anew", publisherDoc, rulesExample)
	}
	if names := s.empty(s.handwritten(table)); len(names) > 0 {
		t.Errorf("somebody has to write what rssub does with %s", strings.Join(names, ", "))
	}
}

var (
	digests = regexp.MustCompile(`(md5:|sha-256:|patches/|sha256/)[0-9a-f]{32,}`)
	spaces  = regexp.MustCompile(`\s+`)
)

// shown returns the element of an entry that has a text, as it is the same at each run.
func shown(t *testing.T, part, has, base string) string {
	t.Helper()
	for line := range strings.Lines(part) {
		if strings.Contains(line, has) {
			line = digests.ReplaceAllString(strings.ReplaceAll(line, base, "https://museum.example/"), "$1...")
			return strings.ReplaceAll(spaces.ReplaceAllString(strings.TrimSpace(line), " "), "|", `\|`)
		}
	}
	t.Errorf("%s is nowhere in\n%s", has, part)
	return ""
}

// makeMuseum runs a Source with the rules, and returns its URL and what returns its documents. It
// checks them, and copies the Source.
func makeMuseum(t *testing.T, rules string) (base string, document func(path string) string) {
	t.Helper()
	dir := t.TempDir()
	write := func(path, text string) {
		name := filepath.Join(dir, path)
		at := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(name, at, at); err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range museum {
		write(path, text)
	}
	rs, err := source.ParseRules(rulesExample, []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	var s *source.Source
	var fetched atomic.Int32 // resources
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/data/") {
			fetched.Add(1)
		}
		s.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	soon := time.Nanosecond
	s, err = source.Open(source.Options{
		PublicURL: server.URL + "/", StateDir: t.TempDir(),
		Sets:     []source.Set{{Rules: rs, Folder: source.FolderOptions{Dir: dir, Settle: soon, Patience: soon}}},
		Schedule: source.Schedule{ChangeList: soon, ResourceList: soon, Dump: soon, Archive: soon},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	build := func() {
		if err := s.Build(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	build()
	const prices = "adults,13\n"
	h := resourcesync.NewHasher(resourcesync.SHA256)
	_, _ = h.Write([]byte(prices))
	d := h.Digests()
	write(fmt.Sprintf("patches/%x.diff", d.Sum(resourcesync.SHA256)), "@@ -1 +1 @@\n-adults,12\n+adults,13\n")
	write("prices.csv", prices)
	build()
	var out bytes.Buffer
	cmd := cli.Validate()
	cmd.SetArgs([]string{"--dev", "--follow", "--strict", "--pause", "0s", s.DescriptionURL()})
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
	sync := copyMuseum(t, server.URL+"/")
	sync()
	// New links of all resources are updates, for which rssub fetches nothing.
	next, err := source.ParseRules(rulesExample, []byte(rules+"\n  - {for: '**', license: x}\n"))
	if err == nil {
		t.Errorf("a relation that does not belong to section 14 was accepted: %v", next)
	}
	if next, err = source.ParseRules(rulesExample, []byte(rules+"\n  - {for: '**', collection: 'https://museum.example/all'}\n")); err != nil {
		t.Fatal(err)
	}
	before := fetched.Load()
	if err := s.SetRules("", next); err != nil {
		t.Fatal(err)
	}
	build()
	sync()
	if n := fetched.Load() - before; n > 0 || before < int32(len(museum)) {
		t.Errorf("%d resources were fetched at first, and %d for their links", before, n)
	}
	if err := s.SetRules("", rs); err != nil {
		t.Fatal(err)
	}
	build()
	return server.URL + "/", func(path string) string {
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/"+path, http.NoBody))
		if w.Code != http.StatusOK {
			t.Fatalf("%s answers %d", path, w.Code)
		}
		return w.Body.String()
	}
}

// copyMuseum returns what brings a copy of the Source in step.
func copyMuseum(t *testing.T, url string) (sync func()) {
	t.Helper()
	client, err := egress.New(egress.Options{Allow: egress.DevAllow()})
	if err != nil {
		t.Fatal(err)
	}
	c, err := destination.Open(destination.Options{Source: url, Dir: t.TempDir(), Client: client, Baseline: destination.BaselineList})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return func() {
		t.Helper()
		report, err := c.Sync(t.Context())
		for _, p := range report.Problems {
			t.Errorf("the copy: %+v", p)
		}
		audit, failed := c.Audit(t.Context(), false)
		if err != nil || failed != nil {
			t.Errorf("%v, %v", err, failed)
		}
		for _, f := range audit.Findings {
			t.Errorf("the audit: %+v", f)
		}
	}
}
