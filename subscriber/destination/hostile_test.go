package destination_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/destination"
)

func answer(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

func redirect(to string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }
}

// endless answers until nobody listens.
func endless(w http.ResponseWriter, _ *http.Request) {
	block := bytes.Repeat([]byte("endless "), 8<<10)
	for {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}

const xmlHead = `<?xml version="1.0" encoding="UTF-8"?>
<%s xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="%s" at="2026-01-01T00:00:00Z"/>`

func document(root, capability, body string) string {
	return fmt.Sprintf(xmlHead, root, capability) + body + "</" + root + ">"
}

// A list that is not one leaves the copy as it is.
func TestHostileLists(t *testing.T) {
	cases := map[string]struct {
		list func(s *source) http.HandlerFunc
		want string // in the error, or the problem
	}{
		"empty": {func(*source) http.HandlerFunc { return answer(document("urlset", "resourcelist", "")) }, "is suddenly empty"},
		"cut off": {func(s *source) http.HandlerFunc {
			return answer(document("urlset", "resourcelist", "<url><loc>"+s.URL+"/data/a</loc></url>")[:260])
		}, "resourcelist.xml"},
		"broken off": {func(*source) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "1000")
				_, _ = fmt.Fprintf(w, xmlHead, "urlset", "resourcelist")
			}
		}, "resourcelist.xml: the answer ended after 208 of 1000 bytes"},
		"names itself": {func(s *source) http.HandlerFunc {
			return answer(document("sitemapindex", "resourcelist", "<sitemap><loc>"+s.URL+"/resourcelist.xml</loc></sitemap>"))
		}, "names itself"},
		"an index below": {func(s *source) http.HandlerFunc {
			return answer(document("sitemapindex", "resourcelist", "<sitemap><loc>"+s.URL+"/resourcelist.xml?2</loc></sitemap>"))
		}, "index within the index"},
		"100,000 parts": {func(s *source) http.HandlerFunc {
			return answer(document("sitemapindex", "resourcelist", strings.Repeat("<sitemap><loc>"+s.URL+"/part.xml</loc></sitemap>", 100_000)))
		}, "50000"},
		"gzip bomb": {func(*source) http.HandlerFunc {
			var b bytes.Buffer
			z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
			_, _ = io.WriteString(z, fmt.Sprintf(xmlHead, "urlset", "resourcelist"))
			_, _ = z.Write(bytes.Repeat([]byte(" "), 80<<20))
			_ = z.Close()
			return answer(b.String())
		}, "52428800"},
		"endless":          {func(*source) http.HandlerFunc { return endless }, "more than 67108864 bytes"},
		"another kind":     {func(s *source) http.HandlerFunc { return s.serveChanges }, `capability "changelist"`},
		"a page":           {func(*source) http.HandlerFunc { return answer("<html><body>Welcome</body></html>") }, "resourcelist.xml"},
		"another host":     {func(*source) http.HandlerFunc { return redirect("http://other.example/list.xml") }, "other.example:80 is not the Source's host; if you trust it, allow it with Options.Hosts"},
		"cloud metadata":   {func(*source) http.HandlerFunc { return redirect("http://169.254.169.254/latest/meta-data") }, "169.254.169.254"},
		"a file":           {func(*source) http.HandlerFunc { return redirect("file:///etc/passwd") }, "no http or https URL"},
		"in circles":       {func(*source) http.HandlerFunc { return redirect("/resourcelist.xml") }, "more than 5 redirects"},
		"huge Retry-After": {func(*source) http.HandlerFunc { return retryLater("86400") }, "asked for a pause"},
		"part of elsewhere": {func(*source) http.HandlerFunc {
			return answer(document("sitemapindex", "resourcelist", "<sitemap><loc>http://other.example/part.xml</loc></sitemap>"))
		}, "other.example:80"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, dir := newSource(t), t.TempDir()
			s.offers = []string{resourcesync.ResourceList}
			s.put("a", "body of a", 0)
			s.put("b/c", "body of c", 0)
			d := s.open(dir, func(o *destination.Options) { o.Hosts = []string{"169.254.169.254"} })
			if r, err := d.Sync(t.Context()); err != nil || r.Copied != 2 {
				t.Fatalf("%v %+v", err, r)
			}
			s.set("/resourcelist.xml", c.list(s))
			r, err := d.Sync(t.Context())
			if err == nil && r.InSync() || !strings.Contains(fmt.Sprint(err, r.Problems), c.want) {
				t.Errorf("%v %+v; want %q", err, r, c.want)
			}
			s.same(dir)
		})
	}
}

// A document of another kind in the place of the Change List, or of a part of its index, changes nothing, and no audit
// trusts it.
func TestChangeListOfAnotherKind(t *testing.T) {
	entry := func(s *source) string { return "<url><loc>" + s.URL + "/data/b</loc></url>" }
	index := func(part string) string {
		return document("sitemapindex", "changelist", "<sitemap><loc>"+part+`</loc><rs:md from="2026-01-01T00:00:00Z"/></sitemap>`)
	}
	cases := map[string]struct {
		list func(s *source) string
		want string // in the error
	}{
		"Resource List": {func(s *source) string { return document("urlset", "resourcelist", entry(s)) }, `capability "resourcelist", and a "changelist" is wanted`},
		"Change Dump":   {func(s *source) string { return document("urlset", "changedump", entry(s)) }, `capability "changedump", and a "changelist" is wanted`},
		"sitemap": {func(s *source) string {
			return `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">` + entry(s) + "</urlset>"
		}, `capability "", and a "changelist" is wanted`},
		"part of an index": {func(s *source) string {
			s.set("/part.xml", answer(document("urlset", "changedump", entry(s))))
			return index(s.URL + "/part.xml")
		}, `capability "changedump", and a "changelist" is wanted`},
		"index within an index": {func(s *source) string {
			s.set("/part.xml", answer(index(s.URL+"/data/b")))
			return index(s.URL + "/part.xml")
		}, "index within an index"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, dir := newSource(t), t.TempDir()
			s.put("a", "body of a", 0)
			d := s.open(dir)
			if r, err := d.Sync(t.Context()); err != nil || r.Copied != 1 {
				t.Fatalf("%v %+v", err, r)
			}
			s.set("/data/b", answer("no resource"))
			s.set("/changelist.xml", answer(c.list(s)))
			if r, err := d.Sync(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) || r.Copied != 0 {
				t.Errorf("%v %+v; want %q", err, r, c.want)
			}
			if a, err := d.Audit(t.Context(), false); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v %+v; want %q", err, a, c.want)
			}
			s.same(dir)
		})
	}
}

func retryLater(after string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", after)
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func (s *source) serveChanges(w http.ResponseWriter, _ *http.Request) {
	s.write(w, resourcesync.Head{Capability: resourcesync.ChangeList, From: s.at, Links: []resourcesync.Link{{Rel: "up", Href: s.URL + "/capabilitylist.xml"}}})
}

func (s *source) set(path string, h http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.override[path] = h
}

// A resource that can't be had is reported, and neither stops the others nor leaves
// anything in the copy.
func TestHostileResources(t *testing.T) {
	sized := func(body, length string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if length != "" {
				w.Header().Set("Content-Length", length)
			}
			_, _ = io.WriteString(w, body)
			if length == "" {
				_ = http.NewResponseController(w).Flush() // what is not sent is not missed
			}
		}
	}
	cases := map[string]struct {
		serve http.HandlerFunc
		want  string
	}{
		"404":            {http.NotFound, "404"},
		"wrong hash":     {answer("the bodX"), "its hash is"},
		"too long":       {answer("the body and more"), "bytes"},
		"longer, unsaid": {sized("the body and more", ""), "more than the 8 bytes"},
		"too short":      {answer("the"), "it has 3 bytes, and the Source says 8"},
		"cut off":        {sized("the", "8"), "the answer ended after 3 of 8 bytes"},
		"broken off": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "the")
			_ = http.NewResponseController(w).Flush() // so the answer states no length
			panic(http.ErrAbortHandler)
		}, "the answer ended early, after 3 bytes"},
		"endless":        {endless, "more than the 8 bytes"},
		"another host":   {redirect("http://other.example/"), "other.example:80 is not the Source's host; if you trust it, allow it with Options.Hosts"},
		"cloud metadata": {redirect("http://169.254.169.254/"), "169.254.169.254"},
		"in circles":     {redirect("/data/bad"), "more than 5 redirects"},
		"no redirect":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusMovedPermanently) }, "301"},
		"compressed": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, "gzipped!")
		}, "Content-Encoding gzip"},
		"not modified": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }, "304"},
		"a part unasked": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range", "bytes 0-7/8")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = io.WriteString(w, "the body")
		}, "was not requested"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, dir := newSource(t), t.TempDir()
			for i := range 10 {
				s.put(fmt.Sprintf("good/%d", i), "good", 0)
			}
			s.put("bad", "the body", 0)
			s.set("/data/bad", c.serve)
			d := s.open(dir, func(o *destination.Options) { o.Hosts = []string{"169.254.169.254"} })
			r, err := d.Sync(t.Context())
			if err != nil || r.Copied != 10 || r.Failed != 1 || r.InSync() || !strings.Contains(fmt.Sprint(r.Problems), c.want) {
				t.Errorf("%v %+v; want %q", err, r, c.want)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, ".rssub/parts/*")); len(left) != 0 {
				t.Errorf("left over: %v", left)
			}
			all := maps.Clone(s.files)
			delete(s.files, "bad")
			s.same(dir)
			s.files = all
			s.set("/data/bad", nil) // the next run has it
			if r, err := d.Sync(t.Context()); err != nil || r.Copied != 1 || !r.InSync() {
				t.Errorf("%v %+v", err, r)
			}
			s.same(dir)
			if r, err := d.Sync(t.Context()); err != nil || r.Copied+r.Unchanged != 0 { // and the one after it has forgotten
				t.Errorf("%v %+v", err, r)
			}
		})
	}
}

// Addresses that would lead out of the copy, or into its state, become names in it.
func TestHostileAddresses(t *testing.T) {
	s, top := newSource(t), t.TempDir()
	dir := filepath.Join(top, "copy")
	s.put("a", "body", 0)
	evil := []string{
		"/data/../../../evil", "/data/%2e%2e/%2e%2e/evil", "/data/..%2f..%2fevil", `/data/..\..\evil`, "/data/%2fetc%2fevil", "/data//evil",
		"/data/.rssub/copy.db", "/data/.RSSUB/copy.db", "/data/rssub~1/copy.db", "/data/.rs%e2%80%8csub/copy.db", "/data/con", "/data/evil%00", "/data/",
		"/data/" + strings.Repeat("x", 300), "/data/a/below", "/data/a/below/that", "/data/a?query", "/data/a?", "/data/%61",
	}
	var list strings.Builder
	for _, e := range evil {
		list.WriteString("<url><loc>" + s.URL + e + "</loc></url>")
	}
	list.WriteString("<url><loc>http://.rssub/parts/x</loc></url><url><loc>" + s.URL + "/data/a</loc></url>")
	s.set("/resourcelist.xml", answer(document("urlset", "resourcelist", list.String())))
	for _, e := range evil {
		p, _, _ := strings.Cut(e, "?")
		s.set(p, answer("evil "+e))
	}
	s.set("/data/", answer("evil"))
	s.set("/changelist.xml", answer(strings.Replace(document("urlset", "changelist", ""), ` at=`, ` from=`, 1)))
	d := s.open(dir, func(o *destination.Options) { o.Hosts = []string{s.Listener.Addr().String()} })
	r, err := d.Sync(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Problems {
		if !strings.Contains(p.URL, "//.rssub/") && !strings.Contains(p.Why, "404") && !strings.Contains(p.Why, "redirect") {
			t.Errorf("%+v", p)
		}
	}
	_ = filepath.WalkDir(top, func(p string, e os.DirEntry, _ error) error {
		if rel, _ := filepath.Rel(dir, p); !e.IsDir() && !filepath.IsLocal(rel) {
			t.Errorf("%s is outside of the copy", p)
		}
		return nil
	})
	if a, err := d.Audit(t.Context(), false); err != nil || a.Extra != 0 {
		t.Errorf("%v %+v", err, a)
	}
	// and nothing of it can be deleted from outside
	s.set("/changelist.xml", answer(strings.Replace(document("urlset", "changelist", `<url><loc>http://.rssub/copy.db</loc><rs:md change="deleted" datetime="2026-02-01T00:00:00Z"/></url>`), ` at=`, ` from=`, 1)))
	if r, err := d.Sync(t.Context()); err != nil || r.Deleted != 0 {
		t.Errorf("%v %+v", err, r)
	}
	if _, err := os.Stat(filepath.Join(dir, ".rssub/copy.db")); err != nil {
		t.Error(err)
	}
}

func hashOf(body string) string {
	sum := sha256.Sum256([]byte(body))
	return "sha-256:" + hex.EncodeToString(sum[:])
}

// Every resource of the Source's list that is twice, or in conflict with another as
// a file system has it, is in the copy.
func TestCollisions(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.offers = []string{resourcesync.ResourceList}
	want := map[string]string{"/data/x": "file", "/data/x/y": "below", "/data/x/y/z": "further below", "/data/x?q=1": "query", "/data/%78": "escaped"}
	var list strings.Builder
	for p, body := range want {
		s.set(p, answer(body))
		for range 2 { // each is listed twice
			fmt.Fprintf(&list, `<url><loc>%s%s</loc><rs:md hash="%s" length="%d"/></url>`, s.URL, p, hashOf(body), len(body))
		}
	}
	s.set("/data/x", func(w http.ResponseWriter, r *http.Request) {
		body := "file"
		if r.URL.RawQuery != "" {
			body = "query"
		}
		_, _ = io.WriteString(w, body)
	})
	s.set("/resourcelist.xml", answer(document("urlset", "resourcelist", list.String())))
	d := s.open(dir)
	r, err := d.Sync(t.Context())
	if err != nil || !r.InSync() || r.Copied != len(want) {
		t.Errorf("%v %+v", err, r)
	}
	if a, err := d.Audit(t.Context(), false); err != nil || !a.InSync || a.Extra != 0 {
		t.Errorf("%v %+v", err, a)
	}
}

// A second process is told that there is a first one.
func TestTwoProcesses(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.open(dir)
	_, err := destination.Open(destination.Options{Source: s.URL, Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Error(err)
	}
}

// A state that is damaged is named, with what to do; without it the files are taken as
// they are.
func TestDamagedState(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.put("a", "body", 0)
	d := s.open(dir)
	if _, err := d.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = d.Close()
	name := filepath.Join(dir, ".rssub/copy.db")
	if err := os.WriteFile(name, bytes.Repeat([]byte("damage"), 10_000), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := destination.Open(destination.Options{Source: s.URL, Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "Move it away") {
		t.Fatal(err)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	gets := s.gets["/data/a"]
	r, err := s.open(dir).Sync(t.Context())
	if err != nil || r.Copied != 1 || s.gets["/data/a"] != gets {
		t.Errorf("%v %+v, fetched %d times", err, r, s.gets["/data/a"]-gets)
	}
}

func TestCloseTwice(t *testing.T) {
	c, err := destination.Open(destination.Options{Source: "http://example.org/", Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if first, second := c.Close(), c.Close(); first != nil || second != nil {
		t.Errorf("%v, then %v", first, second)
	}
}

func TestOptionsRefused(t *testing.T) {
	dir := t.TempDir()
	mapped := func(url, folder string) destination.Options {
		return destination.Options{Source: "http://example.org/", Dir: dir, Roots: []destination.Root{{URL: url, Dir: folder}}}
	}
	for what, o := range map[string]destination.Options{
		"not the address of a Source": {Source: "example.org", Dir: dir},
		"are never sent":              {Source: "http://user:word@example.org/", Dir: dir},
		"Options.Dir is missing":      {Source: "http://example.org/"},
		"outside of it":               {Source: "http://example.org/", Dir: dir, StateDir: filepath.Join(dir, "state")},
		`Options.Hosts: "https://files.example/" is not a host`: {Source: "http://example.org/", Dir: dir, Hosts: []string{"https://files.example/"}},
		`Options.Hosts: "" is not a host`:                       {Source: "http://example.org/", Dir: dir, Hosts: []string{""}},
		`Options.Tokens: "https://example.org" is not a host`:   {Source: "http://example.org/", Dir: dir, Tokens: map[string]string{"https://example.org": "t"}},

		`Options.Roots: the folder "../x" for http://example.org/ is outside of the copy`:            mapped("http://example.org/", "../x"),
		`Options.Roots: the folder ".." for http://example.org/ is outside of the copy`:              mapped("http://example.org/", ".."),
		`Options.Roots: the folder "" for http://example.org/ is outside of the copy`:                mapped("http://example.org/", ""),
		`Options.Roots: write the folder "a/../b" for http://example.org/ in its shortest form: "b"`: mapped("http://example.org/", "a/../b"),
		`Options.Roots: the folder ".RSSUB" for http://example.org/ is that of the copy's state`:     mapped("http://example.org/", ".RSSUB"),
		`Options.Roots: "http://example.org/x" cannot be the beginning of addresses`:                 mapped("http://example.org/x", "x"),
		`Options.Roots: "ftp://example.org/" cannot be the beginning of addresses`:                   mapped("ftp://example.org/", "x"),
		`Options.Roots: "http://example.org/x/%2e./" has a dot segment`:                              mapped("http://example.org/x/%2e./", "x"),
	} {
		wrong := (*destination.OptionsError)(nil)
		if err := o.Check(); !errors.As(err, &wrong) || !strings.Contains(err.Error(), what) {
			t.Errorf("%q: %v", what, err)
		}
		if c, err := destination.Open(o); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%q: %v", what, err)
			if err == nil {
				_ = c.Close()
			}
		}
	}
}

// A state folder that lies where resources go is refused by whatever links it, or the
// copy, is named: else a Source could write to it.
func TestStateBehindALinkIsRefused(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(os.MkdirAll(at("copy/state"), 0o700), os.Symlink("copy", at("copy-link")), os.Symlink("copy/state", at("state-link")))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []destination.Options{
		{Dir: at("copy-link"), StateDir: at("copy/state")}, {Dir: at("copy"), StateDir: at("copy-link/new/state")}, {Dir: at("copy"), StateDir: at("state-link")},
	} {
		o.Source = "http://example.org/"
		if c, err := destination.Open(o); err == nil || !strings.Contains(err.Error(), "outside of it") {
			t.Errorf("%s with the state in %s: %v", o.Dir, o.StateDir, err)
			if err == nil {
				_ = c.Close()
			}
		}
	}
	c, err := destination.Open(destination.Options{Source: "http://example.org/", Dir: at("copy-link"), StateDir: at("copy/.rssub/deeper")})
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
}

// A list or dump of resources says what there is; that it calls something deleted
// deletes nothing.
func TestListsDeleteNothing(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.offers = []string{resourcesync.ResourceList}
	for i := range 20 {
		s.put(fmt.Sprint(i), "body", 0)
	}
	c := s.open(dir)
	if _, err := c.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	var list strings.Builder
	for i := range 20 {
		fmt.Fprintf(&list, `<url><loc>%s/data/%d</loc><rs:md change="deleted"/></url>`, s.URL, i)
	}
	s.set("/resourcelist.xml", answer(document("urlset", "resourcelist", list.String())))
	if r, err := c.Sync(t.Context()); r.Deleted != 0 {
		t.Errorf("%v %+v", err, r)
	}
	s.same(dir)
	s.offers = []string{resourcesync.ResourceDump}
	s.set("/resourcedump.xml", answer(document("urlset", "resourcedump", `<url><loc>`+s.URL+`/part.zip</loc></url>`)))
	s.set("/part.zip", answer(zippedManifest(t, document("urlset", "resourcedump-manifest", list.String()))))
	if r, err := c.Sync(t.Context()); r.Deleted != 0 {
		t.Errorf("%v %+v", err, r)
	}
	s.same(dir)
}
