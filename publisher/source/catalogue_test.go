package source

import (
	"bytes"
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/publisher/catalogue"
	"github.com/rshub/rshub/resourcesync"
)

// catalogueRig is a catalogue in a file, with its index.
type catalogueRig struct {
	*Catalogue
	t    *testing.T
	file string
	log  *lockedBuffer
}

func newCatalogueRig(t *testing.T, o FolderOptions, from CatalogueOptions, client Doer) *catalogueRig {
	t.Helper()
	return newCatalogueRigAt(t, address{}, o, from, client)
}

func newCatalogueRigAt(t *testing.T, at address, o FolderOptions, from CatalogueOptions, client Doer) *catalogueRig {
	t.Helper()
	x, state := newIndex(t)
	r := &catalogueRig{t: t, file: filepath.Join(t.TempDir(), "catalogue.jsonl"), log: &lockedBuffer{}}
	o.Log = slog.New(slog.NewTextHandler(r.log, nil))
	if !from.given() {
		from.Location = r.file
	}
	var err error
	r.Catalogue, err = newCatalogue(x, o, from, "https://source.example.org/", at, state, client)
	must(t, err)
	return r
}

// item is a line about a resource with a digest of some content.
func itemLine(name, content string) string {
	return fmt.Sprintf(`{"url":"https://repo.example.org/%s","length":%d,"hash":"sha-256:%x","type":"text/plain"}`, name, len(content), shaOf(content))
}

func ending(n int) string { return fmt.Sprintf(`{"end":true,"count":%d}`, n) }

// scan writes lines to the file, reads them, and returns what was logged.
func (r *catalogueRig) scan(lines ...string) (logged []string, err error) {
	r.t.Helper()
	before := r.x.state().last.seq
	must(r.t, os.WriteFile(r.file, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	err = r.Scan(r.t.Context())
	return r.logged(before), err
}

func (r *catalogueRig) logged(after uint64) (all []string) {
	r.t.Helper()
	if !r.x.Ready() {
		return nil
	}
	s := snap(r.t, r.x)
	defer s.Close()
	for c, err := range s.Changes(after) {
		must(r.t, err)
		all = append(all, string(c.Change)+" "+strings.TrimPrefix(c.Resource.Key(), "https://repo.example.org/"))
	}
	return all
}

func (r *catalogueRig) want(what string, got []string, err error, want ...string) {
	r.t.Helper()
	if err != nil || !slices.Equal(got, want) {
		r.t.Errorf("%s: got %q, want %q, error %v", what, got, want, err)
	}
}

// A whole catalogue is the state: what it lacks is deleted, and reading it again changes nothing.
func TestWholeCatalogue(t *testing.T) {
	r := newCatalogueRig(t, FolderOptions{}, CatalogueOptions{}, nil)
	got, err := r.scan(itemLine("b", "1"), itemLine("a", "1"), ending(2))
	r.want("the first", got, err)
	if n := r.Status().Resources; n != 2 || !r.Status().Ready {
		t.Errorf("%+v", r.Status())
	}
	for range 2 {
		got, err = r.scan(itemLine("b", "1"), itemLine("a", "1"), ending(2))
		r.want("the same", got, err)
	}
	got, err = r.scan(itemLine("b", "2"), itemLine("c", "1"), ending(2))
	r.want("another", got, err, "updated b", "created c", "deleted a")
	got, err = r.scan(itemLine("b", "2"), `{"url":"https://repo.example.org/c","deleted":true}`, ending(2))
	r.want("one that says deleted", got, err, "deleted c")
	got, err = r.scan(ending(0))
	r.want("an empty one", got, err, "deleted b")
}

// Without its end, or with a wrong count, nothing is deleted, and somebody is told why.
func TestIncompleteCatalogueDeletesNothing(t *testing.T) {
	r := newCatalogueRig(t, FolderOptions{}, CatalogueOptions{}, nil)
	_, err := r.scan(itemLine("a", "1"))
	if !errors.Is(err, ErrIncomplete) || r.Status().Ready {
		t.Errorf("the first one has no end: %v, %+v", err, r.Status())
	}
	_, err = r.scan(itemLine("a", "1"), itemLine("b", "1"), ending(2))
	must(t, err)
	for want, lines := range map[string][]string{
		"it has no end":                 {itemLine("c", "1")},
		"says that it has 3":            {itemLine("c", "1"), ending(3)},
		"1 of its lines are wrong":      {itemLine("c", "1"), `{"url":`, ending(2)},
		`{"end":true,"count":1}`:        {itemLine("c", "1")},
		`or begin it with {"begin":"ch`: {itemLine("c", "1")},
	} {
		got, err := r.scan(lines...)
		if !errors.Is(err, ErrIncomplete) || !strings.Contains(err.Error(), want) || !errors.Is(r.Status().Incomplete, ErrIncomplete) {
			t.Errorf("%q: %v", want, err)
		}
		for _, change := range got {
			if change != "created c" {
				t.Errorf("%q: %q", want, got)
			}
		}
	}
	if !strings.Contains(r.log.String(), "event=catalogue_incomplete") {
		t.Error(r.log)
	}
	got, err := r.scan(itemLine("a", "1"), itemLine("b", "1"), ending(2))
	r.want("a whole one", got, err, "deleted c")
	if r.Status().Incomplete != nil {
		t.Error(r.Status().Incomplete)
	}
}

// A line that is wrong loses nothing of the others. The resource that it names stays as it was.
func TestBadLinesOfACatalogue(t *testing.T) {
	r := newCatalogueRig(t, FolderOptions{}, CatalogueOptions{}, nil)
	_, err := r.scan(itemLine("a", "1"), itemLine("b", "1"), itemLine("c", "1"), ending(3))
	must(t, err)
	got, err := r.scan(itemLine("a", "2"), strings.Replace(itemLine("b", "2"), "length", "lengt", 1), ending(2))
	r.want("one wrong line", got, err, "updated a", "deleted c")
	if p := r.Status().Problems; len(p) != 1 || !strings.Contains(p[0].Err.Error(), "line 2") || !strings.Contains(p[0].Err.Error(), "did you mean length") {
		t.Errorf("%v", p)
	}
	for want, bad := range map[string]string{
		"set FolderOptions.Dir, or leave out the path": `{"path":"a"}`,
		"leave out the url":                            `{"url":"https://source.example.org/data/a"}`,
		"has a dot segment":                            `{"url":"https://source.example.org/x/../data/a"}`,
		"percent-encoded":                              `{"url":"https://source.example.org/x/%2E%2e/data/a","path":"a"}`,
		"DOC-60":                                       `{"url":"https://repo.example.org/` + strings.Repeat("x", 2048) + `"}`,
		"type":                                         `{"url":"https://repo.example.org/x","type":"plain"}`,
		"pri":                                          `{"url":"https://repo.example.org/x","links":[{"rel":"via","href":"https://example.org/","pri":1000000000}]}`,
	} {
		got, err := r.scan(bad, itemLine("a", "2"), itemLine("b", "1"), ending(3))
		r.want(want, got, err)
		if p := r.Status().Problems; len(p) != 1 || !strings.Contains(p[0].Err.Error(), want) {
			t.Errorf("%s: %v", want, p)
		}
	}
}

// Where rules shorten URLs, a resource that would have the URL of another one is left out, and somebody is told. It
// replaces the other one as soon as that is deleted.
func TestCatalogueOfRivals(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"a", "a.html"} {
		must(t, os.WriteFile(filepath.Join(root, name), []byte("1"), 0o600))
	}
	r := newCatalogueRig(t, FolderOptions{Dir: root}, CatalogueOptions{}, nil)
	r.x.near.rivals = (&address{Drop: []string{".html"}}).rivals
	refused := func(want string) {
		t.Helper()
		p := r.Status().Problems
		if want == "" && len(p) > 0 || want != "" && (len(p) != 1 || !strings.Contains(p[0].Err.Error(), want)) {
			t.Errorf("the problems are %v, want %s", p, want)
		}
	}
	const both = `line 2 ("a.html"): it is left out, as "a" has the same URL`
	_, err := r.scan(`{"path":"a"}`, `{"path":"a.html"}`, ending(2))
	must(t, err)
	refused(both)
	got, err := r.scan(`{"path":"a.html"}`, ending(1))
	r.want("one that replaces the other", got, err, "deleted a", "created a.html")
	refused("")
	got, err = r.scan(`{"begin":"changes"}`, `{"path":"a"}`)
	r.want("a change", got, err)
	refused(`line 2 ("a"): it is left out, as "a.html" has the same URL`)
}

// The type that an entry gives is stronger than a rule, and a rule is stronger than the type that is guessed. A digest
// that nobody knows makes no link.
func TestTypesOfACatalogue(t *testing.T) {
	root, state := t.TempDir(), t.TempDir()
	for _, name := range []string{"a.txt", "b.txt", "c.txt"} {
		must(t, os.WriteFile(filepath.Join(root, name), []byte("1"), 0o600))
	}
	file := filepath.Join(t.TempDir(), "catalogue.jsonl")
	types := func(rules, a, b, c string, lines ...string) {
		t.Helper()
		must(t, os.WriteFile(file, []byte(strings.Join(append(lines, ending(len(lines))), "\n")), 0o600))
		s, err := Open(Options{
			PublicURL: "https://source.example.org/", StateDir: state,
			Sets: []Set{{Folder: FolderOptions{Dir: root}, Catalogue: CatalogueOptions{Location: file}, Rules: ruled(t, rules)}},
		})
		must(t, err)
		defer s.Close() //nolint:errcheck // the next one reports it
		must(t, s.Build(t.Context()))
		_, entries := readDocument(t, "/resourcelist.xml", string(serve(t, s, "/resourcelist.xml")))
		got := []string{}
		for _, e := range entries {
			got = append(got, e.Type)
			for _, l := range e.Links {
				got = append(got, l.Href)
			}
		}
		want := []string{a, fmt.Sprintf("https://example.org/%x", shaOf("1")), b, fmt.Sprintf("https://example.org/%x", shaOf("1")), c}
		if !slices.Equal(got, want) {
			t.Errorf("the types and links are %v, want %v", got, want)
		}
	}
	const rules = `resources: [{for: "*.txt", canonical: "https://example.org/{sha256}"}, {for: "b.txt", type: text/x-rule}, {for: "c.txt", type: text/x-rule}]`
	md5 := `{"path":"c.txt","hash":"md5:c4ca4238a0b923820dcc509a6f75849b"%s}`
	types(rules, "text/plain", "text/x-rule", "text/x-entry", `{"path":"a.txt"}`, `{"path":"b.txt"}`, fmt.Sprintf(md5, `,"type":"text/x-entry"`))
	types(rules, "text/x-entry", "text/x-rule", "text/x-rule", `{"path":"a.txt","type":"text/x-entry"}`, `{"path":"b.txt"}`, fmt.Sprintf(md5, ""))
	types(rules, "text/plain", "text/x-rule", "text/x-rule", `{"path":"a.txt"}`, `{"path":"b.txt"}`, fmt.Sprintf(md5, ""))
}

// Rules are for paths: an entry that has none gets nothing from them, whatever its URL is, unless the set lists
// paths there. A path of a rule does not lead to a resource with a URL of its own.
func TestRulesOfACatalogue(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"a.txt", "b.txt"} {
		must(t, os.WriteFile(filepath.Join(root, name), []byte("1"), 0o600))
	}
	file := filepath.Join(t.TempDir(), "catalogue.jsonl")
	must(t, os.WriteFile(file, []byte(strings.Join([]string{
		itemLine("item/1.txt", "1"), `{"url":"https://repo.example.org/2","path":"a.txt"}`, `{"path":"b.txt"}`, ending(3),
	}, "\n")), 0o600))
	rules := ruled(t, `resources: [{for: ["**", "item/**"], collection: "https://example.org/all"}, {for: "*.txt", encoding: gzip}, {for: a.txt, describedby: b.txt}, {for: b.txt, describedby: a.txt}]`)
	for resourceURL, want := range map[string][]string{
		"": {
			"https://source.example.org/data/b.txt gzip [collection https://example.org/all]",
			"https://repo.example.org/2 gzip [collection https://example.org/all describedby https://source.example.org/data/b.txt]",
			"https://repo.example.org/item/1.txt  []",
		},
		"https://repo.example.org/item/": {
			"https://repo.example.org/item/1.txt gzip [collection https://example.org/all]",
			"https://repo.example.org/item/b.txt gzip [collection https://example.org/all]",
			"https://repo.example.org/2 gzip [collection https://example.org/all describedby https://repo.example.org/item/b.txt]",
		},
	} {
		s, err := Open(Options{
			PublicURL: "https://source.example.org/", StateDir: t.TempDir(), Schedule: Schedule{Dump: -1},
			Sets: []Set{{ResourceURL: resourceURL, Folder: FolderOptions{Dir: root}, Catalogue: CatalogueOptions{Location: file}, Rules: rules}},
		})
		must(t, err)
		must(t, s.Build(t.Context()))
		_, entries := readDocument(t, "/resourcelist.xml", string(serve(t, s, "/resourcelist.xml")))
		got := []string{}
		for _, e := range entries {
			links := []string{}
			for _, l := range e.Links {
				links = append(links, l.Rel, l.Href)
			}
			got = append(got, fmt.Sprint(e.Loc, " ", e.Encoding, " ", links))
		}
		if !slices.Equal(got, want) {
			t.Errorf("with %q: %q, want %q", resourceURL, got, want)
		}
		must(t, s.Close())
	}
}

// Changes are what they say, and a file of them can be read again.
func TestCatalogueOfChanges(t *testing.T) {
	r := newCatalogueRig(t, FolderOptions{}, CatalogueOptions{}, nil)
	const begin = `{"begin":"changes"}`
	gone := `{"url":"https://repo.example.org/b","deleted":true}`
	lines := []string{begin, itemLine("a", "1"), itemLine("b", "1"), itemLine("a", "2"), gone}
	got, err := r.scan(lines...)
	r.want("from nothing", got, err, "created a")
	got, err = r.scan(append(lines, itemLine("c", "1"))...)
	r.want("read again, with one more", got, err, "created c")
	got, err = r.scan(begin, `{"url":"https://repo.example.org/a","deleted":true}`)
	r.want("another file", got, err, "deleted a")
	got, err = r.scan(begin, itemLine("d", "1"), ending(1))
	r.want("with an end", got, err, "created d")
	if p := r.Status().Problems; len(p) != 1 || !strings.Contains(p[0].Err.Error(), "there can be no end") {
		t.Errorf("%v", p)
	}
	got, err = r.scan(itemLine("d", "1"), ending(1), itemLine("e", "1"), itemLine("e", "2"))
	r.want("after a whole one", got, err, "created e", "deleted c")
	appended := []string{itemLine("d", "1"), itemLine("e", "2"), ending(2), itemLine("d", "2"), `{"url":"https://repo.example.org/e","deleted":true}`, itemLine("f", "1")}
	got, err = r.scan(appended...)
	r.want("appended to a whole one", got, err, "updated d", "deleted e", "created f")
	got, err = r.scan(appended...)
	r.want("read again", got, err)
	got, err = r.scan(append(appended, itemLine("d", "1"), itemLine("f", "2"))...)
	r.want("with two more", got, err, "updated d", "updated f")
}

// The safety stop holds for a whole catalogue.
func TestCatalogueHoldsDeletions(t *testing.T) {
	r := newCatalogueRig(t, FolderOptions{}, CatalogueOptions{}, nil)
	var lines []string
	for i := range 30 {
		lines = append(lines, itemLine(fmt.Sprintf("%02d", i), "1"))
	}
	_, err := r.scan(append(slices.Clone(lines), ending(30))...)
	must(t, err)
	few := append(slices.Clone(lines[:10]), ending(10))
	got, err := r.scan(few...)
	r.want("too much is missing", got, err)
	if r.Status().Held != 20 || !strings.Contains(r.log.String(), "event=deletions_held") {
		t.Errorf("%+v", r.Status())
	}
	got, err = r.scan(append(slices.Clone(lines), ending(30))...)
	if r.want("it is back", got, err); r.Status().Held != 0 {
		t.Errorf("%+v", r.Status())
	}
	_, err = r.scan(few...)
	must(t, err)
	r.AcceptDeletions()
	got, err = r.scan(few...)
	if len(got) != 20 || err != nil || r.Status().Held != 0 {
		t.Errorf("%q, %v", got, err)
	}
	all := append(slices.Clone(lines[10:]), ending(20)) // 10 of 10 are gone
	if got, err = r.scan(all...); len(got) != 20 || r.Status().Held != 10 {
		t.Errorf("accepted once: %q, %v", got, err)
	}
}

// If the process ends in the middle, the next reading stores the rest: nothing is lost, and nothing
// is logged twice.
func TestCatalogueIsIdempotent(t *testing.T) {
	r := newCatalogueRig(t, FolderOptions{MaxDeleted: 1}, CatalogueOptions{}, nil)
	_, err := r.scan(itemLine("gone", "1"), ending(1))
	must(t, err)
	var lines []string
	const n = 3*batchSize + 1
	for i := range n {
		lines = append(lines, itemLine(fmt.Sprintf("%05d", i), "1"))
	}
	commits := 0
	r.x.db.Intercept(func(commit func() error) error {
		if commits++; commits == 3 {
			return syscall.ENOSPC
		}
		return commit()
	})
	got, err := r.scan(append(lines, ending(n))...)
	if !errors.Is(err, syscall.ENOSPC) || len(got) != 2*batchSize {
		t.Fatalf("%d changes, %v", len(got), err)
	}
	r.x.db.Intercept(nil)
	rest, err := r.scan(append(lines, ending(n))...)
	if all := append(got, rest...); err != nil || len(all) != n+1 || all[n] != "deleted gone" || len(slices.Compact(slices.Sorted(slices.Values(all)))) != n+1 {
		t.Errorf("%d changes, then %d, %v", len(got), len(rest), err)
	}
}

// Paths stay below the root of contents, whatever they are and wherever links lead.
func TestCataloguePathsStayBelowTheRoot(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	must(t, os.MkdirAll(filepath.Join(root, "in/state"), 0o700))
	for name, content := range map[string]string{root + "/in/a": "a", root + "/in/state/.rshub": "", root + "/in/state/b": "b", outside + "/secret": "s", root + "/token": "t"} {
		must(t, os.WriteFile(name, []byte(content), 0o600))
	}
	must(t, os.Symlink(outside, root+"/out"))
	must(t, os.Symlink(outside+"/secret", root+"/file"))
	must(t, os.Symlink("in/a", root+"/inside"))
	must(t, os.Link(root+"/token", root+"/in/copy"))
	must(t, syscall.Mkfifo(root+"/pipe", 0o600))
	r := newCatalogueRig(t, FolderOptions{Dir: root, Exclude: []string{root + "/token", root + "/nothing"}}, CatalogueOptions{}, nil)
	lines := []string{`{"path":"in/a"}`, `{"path":"inside"}`}
	bad := []string{"../" + filepath.Base(outside) + "/secret", "out/secret", "file", "in/state/b", "token", "in/copy", "pipe", "in", "missing", "/etc/passwd", "in/../in/a"}
	for _, path := range bad {
		lines = append(lines, fmt.Sprintf(`{"path":%q}`, path))
	}
	_, err := r.scan(append(lines, ending(len(lines)))...)
	must(t, err)
	if p := r.Status().Problems; len(p) != len(bad) || r.Status().Resources != 2 {
		t.Errorf("%d are refused: %v", len(p), p)
	}
	a, ok, err := r.x.Get("in/a")
	if !ok || err != nil || a.SHA256 != shaOf("a") || a.Length != 1 || a.ModTime.IsZero() || a.MediaType == "" {
		t.Errorf("%+v, %v, %v", a, ok, err)
	}
	for _, path := range append(bad, "in/a") {
		f, _, err := r.Bytes(t.Context(), &Resource{Path: path})
		if (f != nil) != (path == "in/a") {
			t.Errorf("%q: %v, %v", path, f, err)
		}
		if f != nil {
			_ = f.Close()
		}
	}
}

// A page and what lies below it are two resources, though no folder could have both: each stays, in the
// lists and in the dump, however often and in whatever order the catalogue is read.
func TestCatalogueOfAPageAndWhatIsBelow(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) }))
	defer server.Close()
	file, state := filepath.Join(t.TempDir(), "catalogue.jsonl"), t.TempDir()
	urls := []string{server.URL + "/", server.URL + "/item/1", server.URL + "/item/1/a.pdf", server.URL + "/item/1/a.pdf/pages/1"}
	for range 3 {
		slices.Reverse(urls)
		var lines []string
		for _, u := range urls {
			lines = append(lines, fmt.Sprintf(`{"url":%q,"lastmod":"2026-11-25","type":"text/plain"}`, u))
		}
		must(t, os.WriteFile(file, []byte(strings.Join(append(lines, ending(len(urls))), "\n")), 0o600))
		s, err := Open(Options{
			PublicURL: "https://source.example.org/", StateDir: state, Client: server.Client(),
			Sets: []Set{{Catalogue: CatalogueOptions{Location: file}, ResourceURL: server.URL + "/"}},
		})
		must(t, err)
		must(t, s.Build(t.Context()))
		got := dumped(t, s)
		for _, u := range urls {
			if !bytes.Contains(serve(t, s, "/resourcelist.xml"), []byte("<loc>"+u+"</loc>")) || got[u] != strings.TrimPrefix(u, server.URL) {
				t.Errorf("%s is not listed, or the dump has %q of it", u, got[u])
			}
		}
		if list := serve(t, s, "/changelist.xml"); bytes.Contains(list, []byte("<loc>")) {
			t.Errorf("something changed:\n%s", list)
		}
		must(t, s.Close())
	}
}

// Digests that the catalogue lacks are read from the bytes, and not again while these are as they were.
func TestCatalogueLearnsDigests(t *testing.T) {
	var mu sync.Mutex
	asked, body := 0, "hello"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked++
		_, _ = io.WriteString(w, body)
	}))
	defer server.Close()
	root := t.TempDir()
	file := filepath.Join(root, "a.txt")
	must(t, os.WriteFile(file, []byte("a"), 0o600))
	yesterday := time.Now().Add(-24 * time.Hour)
	must(t, os.Chtimes(file, yesterday, yesterday))
	r := newCatalogueRig(t, FolderOptions{Dir: root}, CatalogueOptions{}, server.Client())
	fetched := `{"url":"https://repo.example.org/f","content":"` + server.URL + `","lastmod":"%s"}`
	first := fmt.Sprintf(fetched, "2026-01-01")
	_, err := r.scan(`{"path":"a.txt"}`, first, ending(2))
	must(t, err)
	f, _, err := r.x.Get("https://repo.example.org/f")
	if f.SHA256 != shaOf("hello") || f.Length != 5 || err != nil || asked != 1 {
		t.Errorf("%+v, asked %d times, %v", f, asked, err)
	}
	got, err := r.scan(`{"path":"a.txt"}`, first, ending(2))
	if r.want("the same", got, err); asked != 1 {
		t.Errorf("asked %d times for what was not modified", asked)
	}
	mu.Lock()
	body = "hullo"
	mu.Unlock()
	must(t, os.WriteFile(file, []byte("b"), 0o600))
	got, err = r.scan(`{"path":"a.txt"}`, fmt.Sprintf(fetched, "2026-01-02"), ending(2))
	r.want("modified", got, err, "updated a.txt", "updated f")
	got, err = r.scan(`{"path":"a.txt"}`, fmt.Sprintf(fetched, "2026-01-03"), ending(2))
	r.want("touched", got, err)
	got, err = r.scan(`{"path":"a.txt","length":7}`, fmt.Sprintf(fetched, "2026-01-03"), ending(2))
	r.want("a wrong length", got, err)
	if p := r.Status().Problems; len(p) != 1 || !strings.Contains(p[0].Err.Error(), "it has 1; correct the length") {
		t.Errorf("%v", p)
	}
}

// A stream of changes is stored as it comes.
func TestCatalogueStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, out := io.Pipe()
		r := newCatalogueRig(t, FolderOptions{}, CatalogueOptions{Location: "-", Input: in}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- r.Run(ctx) }()
		write := func(lines ...string) {
			_, err := io.WriteString(out, strings.Join(lines, "\n")+"\n")
			must(t, err)
			synctest.Wait()
		}
		write(itemLine("a", "1"), ending(1))
		if !r.Status().Ready {
			t.Errorf("%+v", r.Status())
		}
		whole := r.Status().Scanned
		time.Sleep(time.Hour)
		write(itemLine("b", "1"))
		write(itemLine("b", "2"), `{"url":"https://repo.example.org/a","deleted":true}`)
		r.want("changes", r.logged(0), nil, "created b", "updated b", "deleted a")
		if s := r.Status(); !s.Scanned.After(whole) {
			t.Errorf("an hour later the index is in step as of %v", s.Scanned)
		}
		// Each change is compared with the one before it, also if they come together.
		write(`{"url":"https://repo.example.org/b","deleted":true}`, itemLine("b", "2"), itemLine("b", "3"), itemLine("b", "2"))
		r.want("together", r.logged(3), nil, "deleted b", "created b", "updated b", "updated b")
		must(t, out.Close())
		synctest.Wait()
		if s := r.Status(); s.Err != nil || s.Incomplete != nil {
			t.Errorf("the end of the stream: %+v", s)
		}
		cancel()
		must(t, <-ran)
	})
}

// Changes may come for years: the index is in step with them while they come, or no dump would ever be
// written and the log would grow for ever. Lines that are refused are logged in powers of two.
func TestCatalogueStreamOfChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, out := io.Pipe()
		r := newCatalogueRig(t, FolderOptions{}, CatalogueOptions{Location: "-", Input: in}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- r.Run(ctx) }()
		write := func(lines ...string) {
			_, err := io.WriteString(out, strings.Join(lines, "\n")+"\n")
			must(t, err)
			synctest.Wait()
		}
		write(`{"begin":"changes"}`)
		if s := r.Status(); s.Scanned.IsZero() || !s.Ready {
			t.Errorf("after the beginning: %+v", s)
		}
		for n := range 1000 {
			write(fmt.Sprintf(`{"url":"https://repo.example.org/%d","length":-1}`, n))
		}
		if s, lines := r.Status(), strings.Count(r.log.String(), "catalogue_line_refused"); len(s.Problems) != maxProblems || lines != maxProblems+4 {
			t.Errorf("of 1000 lines that are refused %d are logged, and %d are in the status", lines, len(s.Problems))
		}
		must(t, out.Close())
		cancel()
		must(t, <-ran)
	})
}

// One address has one key, in whatever way lines write it, so a file that is there is never announced as deleted.
func TestOneAddressOneKey(t *testing.T) {
	root := t.TempDir()
	must(t, os.WriteFile(filepath.Join(root, "a b.html"), []byte("1"), 0o600))
	digest := fmt.Sprintf(`"length":1,"hash":"sha-256:%x","type":"text/html"`, shaOf("1"))
	for _, x := range []struct {
		name string
		at   address
		url  string
	}{
		{"a prefix", address{Prefix: "https://museum.example/works/"}, "https://museum.example/works/a%20b.html"},
		{"a prefix that drops extensions", address{Prefix: "https://museum.example/works/", Drop: []string{".html"}}, "https://museum.example/works/a%20b"},
		{"data/", address{}, "https://source.example.org/data/a%20b.html"},
	} {
		t.Run(x.name, func(t *testing.T) {
			r := newCatalogueRigAt(t, x.at, FolderOptions{Dir: root}, CatalogueOptions{}, nil)
			lines := []string{`{"path":"a b.html",` + digest + `}`, `{"path":"a b.html","url":"` + x.url + `",` + digest + `}`}
			if x.at.Prefix != "" {
				lines = append(lines, `{"url":"`+x.url+`",`+digest+`}`)
			}
			for _, line := range append(lines, lines...) {
				got, err := r.scan(line, ending(1))
				r.want(line, got, err)
			}
			got, err := r.scan(`{"path":"c","url":"`+x.url+`",`+digest+`}`, ending(1))
			r.want("another path", got, err)
			if p := r.Status().Problems; len(p) != 1 || !strings.Contains(p[0].Err.Error(), `its url is where "a b.html" is listed`) {
				t.Errorf("another path with its address: %v", p)
			}
			got, err = r.scan(`{"url":"`+x.url+`","deleted":true}`, ending(1))
			r.want("deleted", got, err, "deleted a b.html")
		})
	}
}

// A file is read again when it has changed, and after some time; a URL is asked for what is new.
func TestCatalogueIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, sent := 0, 0
		body := itemLine("a", "1") + "\n" + ending(1)
		var mu sync.Mutex
		server := doer(func(req *http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			asked++
			w := httptest.NewRecorder()
			w.Header().Set("ETag", fmt.Sprintf(`"%x"`, shaOf(body)))
			if req.Header.Get("If-None-Match") == w.Header().Get("ETag") {
				w.WriteHeader(http.StatusNotModified)
			} else {
				sent++
				_, _ = io.WriteString(w, body)
			}
			return w.Result(), nil
		})
		r := newCatalogueRig(t, FolderOptions{}, CatalogueOptions{Location: "https://repo.example.org/catalogue.jsonl"}, server)
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- r.Run(ctx) }()
		time.Sleep(2*DefaultRescan + time.Minute)
		mu.Lock()
		if asked != 3 || sent != 1 {
			t.Errorf("asked %d times, and sent %d", asked, sent)
		}
		body = itemLine("a", "2") + "\n" + ending(1)
		mu.Unlock()
		time.Sleep(DefaultRescan)
		r.want("another", r.logged(0), nil, "updated a")
		cancel()
		must(t, <-ran)
	})
}

// A catalogue that was modified in the second in which it was read is asked for in full: within that second it may have
// changed again, with the same validators.
func TestCatalogueChangesWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		modified := time.Now().UTC().Format(http.TimeFormat)
		bodies := []string{itemLine("a", "1") + "\n" + ending(1), itemLine("a", "2") + "\n" + ending(1)}
		asked := 0
		server := doer(func(req *http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			w.Header().Set("ETag", `"the length"`)
			w.Header().Set("Last-Modified", modified)
			if req.Header.Get("If-None-Match") != "" || req.Header.Get("If-Modified-Since") != "" {
				w.WriteHeader(http.StatusNotModified)
			} else {
				_, _ = io.WriteString(w, bodies[min(asked, 1)])
			}
			asked++
			return w.Result(), nil
		})
		r := newCatalogueRig(t, FolderOptions{}, CatalogueOptions{Location: "https://repo.example.org/catalogue.jsonl"}, server)
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- r.Run(ctx) }()
		time.Sleep(DefaultRescan + time.Minute)
		r.want("the second", r.logged(0), nil, "updated a")
		cancel()
		must(t, <-ran)
	})
}

type doer func(req *http.Request) (*http.Response, error)

func (d doer) Do(req *http.Request) (*http.Response, error) { return d(req) }

func TestCatalogueFileIsReadWhenItChanges(t *testing.T) {
	r := newCatalogueRig(t, FolderOptions{Settle: 10 * time.Millisecond}, CatalogueOptions{}, nil)
	write := func(lines ...string) {
		t.Helper()
		next := r.file + ".new"
		must(t, os.WriteFile(next, []byte(strings.Join(lines, "\n")), 0o600))
		must(t, os.Rename(next, r.file))
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	until := func(what string, done func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: %+v", what, r.Status())
			}
		}
	}
	go func() { ran <- r.Run(ctx) }()
	until("there is no file", func() bool { return r.Status().Err != nil })
	write(itemLine("a", "1"), ending(1))
	until("the first", func() bool { return r.Status().Ready && r.Status().Err == nil })
	write(itemLine("b", "1"), ending(1))
	until("another", func() bool { return r.x.state().last.seq == 2 })
	cancel()
	must(t, <-ran)
}

// A program yields the entries itself.
func TestCatalogueOfAProgram(t *testing.T) {
	broken := errors.New("the database went away")
	var fail error
	entries := []catalogue.Entry{{URL: "https://repo.example.org/a", Hash: "md5:900150983cd24fb0d6963f7d28e17f72"}, {URL: "not a URL"}, {URL: "https://repo.example.org/b"}}
	r := newCatalogueRig(t, FolderOptions{}, CatalogueOptions{Entries: func(context.Context) iter.Seq2[catalogue.Entry, error] {
		return func(yield func(catalogue.Entry, error) bool) {
			for _, e := range entries {
				if !yield(e, nil) {
					return
				}
			}
			if fail != nil {
				yield(catalogue.Entry{}, fail)
			}
		}
	}}, nil)
	must(t, r.Scan(t.Context()))
	if s := r.Status(); s.Resources != 2 || len(s.Problems) != 1 || !s.Ready {
		t.Errorf("%+v", s)
	}
	entries, fail = entries[:1], broken
	if err := r.Scan(t.Context()); !errors.Is(err, broken) {
		t.Error(err)
	}
	if s := r.Status(); s.Resources != 2 || !errors.Is(s.Incomplete, broken) {
		t.Errorf("%+v", s)
	}
	fail = nil
	must(t, r.Scan(t.Context()))
	r.want("one is gone", r.logged(0), nil, "deleted b")
}

// A program whose changes end with an error is asked again.
func TestChangesOfAProgramAfterAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		r := newCatalogueRig(t, FolderOptions{}, CatalogueOptions{Changes: true, Entries: func(ctx context.Context) iter.Seq2[catalogue.Entry, error] {
			calls++
			return func(yield func(catalogue.Entry, error) bool) {
				if !yield(catalogue.Entry{URL: fmt.Sprintf("https://repo.example.org/%d", calls)}, nil) {
					return
				}
				if calls < 3 {
					yield(catalogue.Entry{}, errors.New("the queue went away"))
					return
				}
				<-ctx.Done()
			}
		}}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- r.Run(ctx) }()
		synctest.Wait()
		if err := r.Status().Err; err == nil || !strings.Contains(err.Error(), "the queue went away") {
			t.Errorf("after the error: %v", err)
		}
		time.Sleep(3 * r.o.Unwatched)
		synctest.Wait()
		r.want("the changes", r.logged(0), nil, "created 1", "created 2", "created 3")
		if err := r.Status().Err; err != nil {
			t.Errorf("after it went on: %v", err)
		}
		cancel()
		must(t, <-ran)
	})
}

// Every document of a set is written from a catalogue, with what it gives: own URLs, links, encoding
// (LNK-01, LNK-05, LNK-10), and the bytes in dumps from files and from URLs.
func TestDocumentsOfACatalogue_LNK01_LNK05_LNK10(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "fetched") }))
	defer server.Close()
	root := t.TempDir()
	must(t, os.WriteFile(filepath.Join(root, "kept.gz"), []byte("coded"), 0o600))
	lines := []string{
		`{"url":"https://repo.example.org/item/1","content":"` + server.URL + `","type":"text/plain","links":[{"rel":"duplicate","href":"https://mirror.example.org/1","pri":1},{"rel":"describedby","href":"https://repo.example.org/item/1.dc"}]}`,
		`{"path":"kept.gz","type":"text/html","encoding":"gzip"}`,
		`{"url":"https://repo.example.org/item/1/sub","path":"kept.gz","type":"text/html","encoding":"gzip","hash":"sha-1:` + fmt.Sprintf("%x", sha1.Sum([]byte("coded"))) + `"}`,
		ending(3),
	}
	file := filepath.Join(t.TempDir(), "catalogue.jsonl")
	must(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600))
	s, err := Open(Options{
		PublicURL: "https://source.example.org/", StateDir: t.TempDir(), Client: server.Client(),
		Sets: []Set{{Folder: FolderOptions{Dir: root}, Catalogue: CatalogueOptions{Location: file}}},
	})
	must(t, err)
	defer s.Close() //nolint:errcheck // of a test
	must(t, s.Build(t.Context()))
	list := string(serve(t, s, "/resourcelist.xml"))
	for _, want := range []string{
		"<loc>https://repo.example.org/item/1</loc>", "<loc>https://source.example.org/data/kept.gz</loc>", "<loc>https://repo.example.org/item/1/sub</loc>",
		`<rs:ln rel="duplicate" href="https://mirror.example.org/1" pri="1"/>`, `<rs:ln rel="describedby" href="https://repo.example.org/item/1.dc"/>`,
		`encoding="gzip"`, `hash="sha-1:`, fmt.Sprintf("sha-256:%x", shaOf("fetched")),
	} {
		if !strings.Contains(list, want) {
			t.Errorf("the Resource List lacks %s:\n%s", want, list)
		}
	}
	if body := serve(t, s, "/data/kept.gz"); string(body) != "coded" {
		t.Errorf("served %q", body)
	}
	got := dumped(t, s)
	want := map[string]string{"https://repo.example.org/item/1": "fetched", "https://source.example.org/data/kept.gz": "coded", "https://repo.example.org/item/1/sub": "coded"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the dump has %q, want %q", got, want)
	}
}

// dumped returns what the newest Resource Dump has of each resource.
func dumped(t *testing.T, s *Source) map[string]string {
	t.Helper()
	dump := string(serve(t, s, "/resourcedump.xml"))
	_, name, _ := strings.Cut(dump, "https://source.example.org/dumps/")
	name, _, _ = strings.Cut(name, "<")
	zipped := serve(t, s, "/dumps/"+name)
	d, err := resourcesync.NewDumpReader(bytes.NewReader(zipped), int64(len(zipped)), resourcesync.DumpReadOptions{})
	must(t, err)
	got := map[string]string{}
	for e, err := range d.Entries() {
		must(t, err)
		in, err := d.Open(e)
		must(t, err)
		b, err := io.ReadAll(in)
		must(t, err)
		got[e.Loc] = string(b)
	}
	return got
}

// serve asks a Source for a path, and returns the body of its answer.
func serve(t *testing.T, s *Source, path string) []byte {
	t.Helper()
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://source.example.org"+path, http.NoBody))
	if w.Code != http.StatusOK {
		t.Fatalf("%s answers %d: %s", path, w.Code, w.Body)
	}
	return w.Body.Bytes()
}
