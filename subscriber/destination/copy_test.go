package destination_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/destination"
)

// source is a Source on loopback whose documents follow from what the test put
// into it.
type source struct {
	*httptest.Server
	t  testing.TB
	mu sync.Mutex

	files    map[string]string // by path below /data/
	changes  []resourcesync.Entry
	at       time.Time // of the Resource List
	offers   []string  // the documents of the Capability List
	packages []string  // of the dump
	gets     map[string]int
	override map[string]http.HandlerFunc
	noHashes bool // lists have none
}

func newSource(t testing.TB) *source {
	s := &source{
		t: t, files: map[string]string{}, gets: map[string]int{}, at: time.Now().Add(-time.Hour).UTC().Truncate(time.Second), override: map[string]http.HandlerFunc{},
		offers: []string{resourcesync.ResourceList, resourcesync.ChangeList},
	}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *source) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.gets[r.URL.Path]++
	o := s.override[r.URL.EscapedPath()]
	s.mu.Unlock()
	if o != nil {
		o(w, r)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	up := func(to string) []resourcesync.Link { return []resourcesync.Link{{Rel: "up", Href: s.URL + to}} }
	switch p := r.URL.Path; {
	case p == "/.well-known/resourcesync":
		s.write(w, resourcesync.Head{Capability: resourcesync.Description}, resourcesync.Entry{Loc: s.URL + "/capabilitylist.xml", Capability: resourcesync.CapabilityList})
	case p == "/capabilitylist.xml":
		var entries []resourcesync.Entry
		for _, o := range s.offers {
			entries = append(entries, resourcesync.Entry{Loc: s.URL + "/" + o + ".xml", Capability: o})
		}
		s.write(w, resourcesync.Head{Capability: resourcesync.CapabilityList, Links: up("/.well-known/resourcesync")}, entries...)
	case p == "/resourcelist.xml":
		var entries []resourcesync.Entry
		for name := range s.files {
			if !slices.Contains(s.packages, name) {
				entries = append(entries, s.entry(name, ""))
			}
		}
		s.write(w, resourcesync.Head{Capability: resourcesync.ResourceList, At: s.at, Links: up("/capabilitylist.xml")}, entries...)
	case p == "/changelist.xml":
		s.write(w, resourcesync.Head{Capability: resourcesync.ChangeList, From: s.at, Links: up("/capabilitylist.xml")}, s.changes...)
	case p == "/resourcedump.xml":
		var entries []resourcesync.Entry
		for _, name := range s.packages {
			e := s.entry(name, "")
			entries = append(entries, e)
		}
		s.write(w, resourcesync.Head{Capability: resourcesync.ResourceDump, At: s.at, Links: up("/capabilitylist.xml")}, entries...)
	case strings.HasPrefix(p, "/data/"):
		body, ok := s.files[strings.TrimPrefix(p, "/data/")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		http.ServeContent(w, r, "", s.at, strings.NewReader(body))
	default:
		http.NotFound(w, r)
	}
}

func (s *source) entry(name string, change resourcesync.ChangeType) resourcesync.Entry {
	body := s.files[name]
	sum := sha256.Sum256([]byte(body))
	e := resourcesync.Entry{
		Loc: s.URL + "/data/" + name, Change: change, Length: int64(len(body)), HasLength: change != resourcesync.Deleted,
		Hash: "sha-256:" + hex.EncodeToString(sum[:]), LastMod: s.at,
	}
	if s.noHashes {
		e.Hash = ""
	}
	return e
}

func (s *source) write(w http.ResponseWriter, h resourcesync.Head, entries ...resourcesync.Entry) {
	w.Header().Set("Content-Type", "application/xml")
	var body bytes.Buffer
	out, err := resourcesync.NewWriter(&body, h, resourcesync.WriteOptions{})
	if err != nil {
		s.t.Error(err)
		return
	}
	for _, e := range entries {
		if err := out.Write(e); err != nil {
			s.t.Error(err)
		}
	}
	if err := out.Close(); err != nil {
		s.t.Error(err)
	}
	_, _ = w.Write(body.Bytes()) // to somebody who may be gone
}

// put changes a file, and lists that as a change after seconds.
func (s *source) put(name, body string, after int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change := resourcesync.Updated
	if _, ok := s.files[name]; !ok {
		change = resourcesync.Created
	}
	s.files[name] = body
	if after > 0 {
		e := s.entry(name, change)
		e.Datetime = s.at.Add(time.Duration(after) * time.Second)
		s.changes = append(s.changes, e)
	}
}

func (s *source) drop(name string, after int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.files, name)
	s.changes = append(s.changes, resourcesync.Entry{Loc: s.URL + "/data/" + name, Change: resourcesync.Deleted, Datetime: s.at.Add(time.Duration(after) * time.Second)})
}

// open opens a copy whose files lie as below /data/.
func (s *source) open(dir string, change ...func(*destination.Options)) *destination.Copy {
	s.t.Helper()
	o := destination.Options{Source: s.URL, Dir: dir, Allow: egress.DevAllow(), Roots: []destination.Root{{URL: s.URL + "/data/", Dir: "."}}}
	for _, f := range change {
		f(&o)
	}
	c, err := destination.Open(o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// same fails the test where a copy has not what the Source has.
func (s *source) same(dir string) {
	s.t.Helper()
	if got := s.copied(dir); !maps.Equal(got, s.files) {
		s.t.Errorf("the copy has %.2000v, the Source %.2000v", got, s.files)
	}
}

// copied are the files of a copy, by path.
func (s *source) copied(dir string) map[string]string {
	got := map[string]string{}
	_ = filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == ".rssub" {
			return filepath.SkipDir
		}
		if err == nil && !d.IsDir() {
			raw, _ := os.ReadFile(p)
			rel, _ := filepath.Rel(dir, p)
			got[filepath.ToSlash(rel)] = string(raw)
		}
		return nil
	})
	return got
}

func TestSyncAndAudit(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	for i := range 20 {
		s.put(fmt.Sprintf("d/%d.txt", i), fmt.Sprintf("body %d", i), 0)
	}
	c := s.open(dir)
	r, err := c.Sync(t.Context())
	if err != nil || r.Copied != 20 || !r.InSync() {
		t.Fatalf("%v %+v", err, r)
	}
	s.same(dir)
	s.put("d/3.txt", "another", 10)
	s.put("new.txt", "new", 11)
	s.drop("d/4.txt", 12)
	s.put("d/5.txt", "once", 13)
	s.put("d/5.txt", "twice", 14)
	if r, err = c.Sync(t.Context()); err != nil || r.Copied != 3 || r.Deleted != 1 || r.Baseline != "" {
		t.Errorf("%v %+v", err, r)
	}
	s.same(dir)
	if r, err = c.Sync(t.Context()); err != nil || r.Copied+r.Deleted+r.Failed != 0 {
		t.Errorf("%v %+v", err, r)
	}
	a, err := c.Audit(t.Context(), false)
	if err != nil || !a.InSync || a.Equal != 20 {
		t.Fatalf("%v %+v", err, a)
	}
	for name, body := range map[string]string{"d/1.txt": "body X", "stray": "x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "d/2.txt")); err != nil {
		t.Fatal(err)
	}
	if a, err = c.Audit(t.Context(), false); err != nil || a.InSync || a.Missing != 1 || a.Differing != 1 || a.Extra != 1 {
		t.Errorf("%v %+v", err, a)
	}
	if a, err = c.Audit(t.Context(), true); err != nil || !a.InSync {
		t.Errorf("%v %+v", err, a)
	}
	s.same(dir)
}

// An audit finds what is beside the files of resources in all folders, and follows no links.
func TestAuditFindsStrays(t *testing.T) {
	s, dir, outside := newSource(t), t.TempDir(), t.TempDir()
	s.put("d/e/1.txt", "body", 0)
	s.put("f", "body", 0)
	c := s.open(dir)
	if _, err := c.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(
		os.WriteFile(filepath.Join(outside, "1"), nil, 0o600), os.Symlink(outside, at("d/link")), os.WriteFile(at("d/e/stray"), nil, 0o600),
		os.MkdirAll(at("g/h"), 0o700), os.WriteFile(at("g/h/stray"), nil, 0o600), os.Mkdir(at("g/empty"), 0o700),
		os.Remove(at("f")), os.Mkdir(at("f"), 0o700), os.WriteFile(at("f/stray"), nil, 0o600), // a folder in place of a file
	)
	if err != nil {
		t.Fatal(err)
	}
	a, err := c.Audit(t.Context(), false)
	var got []string
	for _, f := range a.Findings {
		got = append(got, f.What+" "+f.Path)
	}
	if want := []string{"missing f", "extra d/e/stray", "extra d/link", "extra f/stray", "extra g/h/stray"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v %v, want %v", err, got, want)
	}
}

// The file of one resource is not that of another whose address would give it the same name.
func TestAuditOfOneNameForTwo(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.put("A", "body", 0)
	c := s.open(dir)
	if _, err := c.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.put("%41", "body", 0)
	a, err := c.Audit(t.Context(), false)
	if err != nil || a.Missing != 1 || a.Equal != 1 || len(a.Findings) != 1 || !strings.HasSuffix(a.Findings[0].URL, "/%41") {
		t.Errorf("%v %+v", err, a)
	}
	if a, err = c.Audit(t.Context(), true); err != nil || !a.InSync || a.Equal != 2 {
		t.Errorf("repaired: %v %+v", err, a)
	}
	if got := read(dir, "A"); got != "body" {
		t.Errorf("the file of the other has %q", got)
	}
}

// read is a file of a copy; empty: there is none.
func read(dir, name string) string {
	raw, _ := os.ReadFile(filepath.Join(dir, name))
	return string(raw)
}

// A Change List that fails for a moment is asked for again, in the same run. One that is not there is not.
func TestChangeListIsTriedAgain(t *testing.T) {
	breaksOff := func(w http.ResponseWriter) {
		w.Header().Set("Content-Length", "1000")
		_, _ = fmt.Fprint(w, "<urlset")
	}
	for name, c := range map[string]struct {
		fail  func(http.ResponseWriter)
		times int
		asked int
		ok    bool
	}{
		"busy":                  {func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }, 1, 2, true},
		"broken off":            {breaksOff, 2, 3, true},
		"broken off each time":  {breaksOff, 9, 3, false},
		"not there":             {func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) }, 9, 1, false},
		"no document of a list": {func(w http.ResponseWriter) { _, _ = fmt.Fprint(w, "<html>") }, 9, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSource(t)
			s.put("a.txt", "a", 0)
			copied := s.open(t.TempDir())
			if _, err := copied.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.put("b.txt", "b", 1)
			asked := 0
			s.set("/changelist.xml", func(w http.ResponseWriter, r *http.Request) {
				if asked++; asked <= c.times {
					c.fail(w)
					return
				}
				s.set("/changelist.xml", nil)
				s.serve(w, r)
			})
			r, err := copied.Sync(t.Context())
			if c.ok != (err == nil && r.Copied == 1) || asked != c.asked {
				t.Errorf("asked %d times: %+v, %v", asked, r, err)
			}
		})
	}
}
