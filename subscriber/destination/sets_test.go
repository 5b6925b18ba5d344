package destination_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/destination"
)

// twoSets makes the files below a and b a set each, and a page that names both.
func twoSets(s *source) {
	page, up := "", func(to string) []resourcesync.Link { return []resourcesync.Link{{Rel: "up", Href: to}} }
	for _, set := range []string{"a", "b"} {
		list, capabilities := s.URL+"/"+set+"/resourcelist.xml", s.URL+"/"+set+"/capabilitylist.xml"
		page += fmt.Sprintf(`<link rel="resourcesync" href="%s">`, capabilities)
		s.set("/"+set+"/capabilitylist.xml", func(w http.ResponseWriter, _ *http.Request) {
			s.write(w, resourcesync.Head{Capability: resourcesync.CapabilityList, Links: up(s.URL + "/.well-known/resourcesync")}, resourcesync.Entry{Loc: list, Capability: resourcesync.ResourceList})
		})
		s.set("/"+set+"/resourcelist.xml", func(w http.ResponseWriter, _ *http.Request) {
			s.mu.Lock()
			defer s.mu.Unlock()
			var entries []resourcesync.Entry
			for name := range s.files {
				if name[:1] == set {
					entries = append(entries, s.entry(name, ""))
				}
			}
			s.write(w, resourcesync.Head{Capability: resourcesync.ResourceList, At: s.at, Links: up(capabilities)}, entries...)
		})
	}
	s.set("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, "<!DOCTYPE html><html><head>"+page+"</head></html>")
	})
}

// DST-01, SRC-13: a page that names several Capability Lists leads to all of them;
// and an audit of one of the sets leaves the files of the others alone.
func TestSetsOfAPage_DST01_SRC13(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	for n := range 3 {
		s.put(fmt.Sprintf("a/%d", n), "of a", 0)
		s.put(fmt.Sprintf("b/%d", n), "of b", 0)
	}
	twoSets(s)
	c := s.open(dir, func(o *destination.Options) { o.Source = s.URL + "/" })
	r, err := c.Sync(t.Context())
	if err != nil || r.Copied != 6 || !r.InSync() {
		t.Fatalf("%v %+v", err, r)
	}
	var want []destination.SetReport
	for _, set := range []string{"a", "b"} {
		at := s.URL + "/" + set + "/"
		want = append(want, destination.SetReport{Set: at + "capabilitylist.xml", Baseline: at + "resourcelist.xml", Until: s.at})
	}
	if !reflect.DeepEqual(r.Sets, want) || !r.Until.IsZero() {
		t.Errorf("the sets %+v, want %+v", r.Sets, want)
	}
	s.same(dir)
	if err := os.Remove(filepath.Join(dir, "b", "1")); err != nil {
		t.Fatal(err)
	}
	audited := []destination.SetAudit{{Set: want[0].Set, AsOf: s.at, Equal: 3}, {Set: want[1].Set, AsOf: s.at, Equal: 2, Missing: 1}}
	if a, err := c.Audit(t.Context(), false); err != nil || a.InSync || a.Equal != 5 || !slices.Equal(a.Sets, audited) {
		t.Errorf("%v %+v", err, a)
	}
	if a, err := c.Audit(t.Context(), true); err != nil || !a.InSync || a.Equal != 6 {
		t.Errorf("%v %+v", err, a)
	}
	// One that can't be had says so, and the other is in sync nevertheless.
	s.set("/b/resourcelist.xml", http.NotFound)
	if r, err = c.Sync(t.Context()); err == nil || r.Sets[0].Error != "" || !strings.Contains(r.Sets[1].Error, "404") || !r.Sets[1].Until.IsZero() {
		t.Errorf("%v %+v", err, r)
	}
	twoSets(s)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c = s.open(dir, func(o *destination.Options) { o.Source = s.URL + "/a/capabilitylist.xml" })
	a, err := c.Audit(t.Context(), true)
	if err != nil || a.Equal != 3 || a.Extra != 3 {
		t.Errorf("an audit of one set: %v %+v", err, a)
	}
	s.same(dir)
}

// The status of each set says which it is, while the copy is open too, and in the
// order of their URLs.
func TestStatusNamesTheSet(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.put("a", "of a", 0)
	c := s.open(dir)
	if _, err := c.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(dir, ".rssub")
	got, err := destination.ReadStatus(state)
	if err != nil || len(got) != 1 || got[0].Set != s.URL+"/capabilitylist.xml" || got[0].Until.IsZero() {
		t.Errorf("%v %+v", err, got)
	}
	if err := os.CopyFS(filepath.Join(state, "set-0"), os.DirFS(filepath.Join(state, setFolder(t, state)))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(state, "set-0", "set"), []byte("https://z.example/\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err = destination.ReadStatus(state); err != nil || len(got) != 2 || got[1].Set != "https://z.example/" {
		t.Errorf("%v %+v", err, got)
	}
}

// setFolder is the name of the only set's folder.
func setFolder(t *testing.T, state string) string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(state, "set-*"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("%v %v", err, dirs)
	}
	return filepath.Base(dirs[0])
}

// A first baseline takes nothing that was deleted since: what is new in the copy is
// not to be held back as a deletion that is too large.
func TestFirstBaselineTakesNothingThatIsGone(t *testing.T) {
	for _, from := range []string{resourcesync.ResourceDump, resourcesync.ResourceList} {
		t.Run(from, func(t *testing.T) {
			s, dir := newSource(t), t.TempDir()
			s.offers = []string{from, resourcesync.ChangeList}
			in := dumped(s, 40)
			head := resourcesync.Head{Capability: resourcesync.ResourceDumpManifest, At: s.at, Links: []resourcesync.Link{{Rel: "up", Href: s.URL + "/capabilitylist.xml"}}}
			s.put("part.zip", pack(t, head, in, nil), 0)
			s.packages = []string{"part.zip"}
			s.freezeList()
			for n := range 30 {
				s.drop(fmt.Sprintf("r%d/%d", n%7, n), n+1)
			}
			s.put("r0/35", "changed", 40)
			c := s.open(dir, func(o *destination.Options) { o.MaxDelete = destination.Share{} })
			r, err := c.Sync(t.Context())
			if err != nil || !r.InSync() || r.Copied < 10 {
				t.Fatalf("%v %+v", err, r)
			}
			delete(s.files, "part.zip")
			s.same(dir)
		})
	}
}
