package destination_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/destination"
)

// listed are resources with what entries may say of them: name, type and collection.
func (s *source) listed(change string, resources ...[3]string) string {
	var b strings.Builder
	for i, r := range resources {
		md := fmt.Sprintf(`hash=%q length="%d"`, hashOf(s.files[r[0]]), len(s.files[r[0]]))
		if change != "" {
			md += fmt.Sprintf(` change=%q datetime="2026-01-02T00:00:%02dZ"`, change, i)
		}
		if r[1] != "" {
			md += fmt.Sprintf(` type=%q`, r[1])
		}
		fmt.Fprintf(&b, `<url><loc>%s/data/%s</loc><rs:md %s/>`, s.URL, r[0], md)
		if r[2] != "" {
			fmt.Fprintf(&b, `<rs:ln rel="collection" href=%q/>`, r[2])
		}
		b.WriteString(`</url>`)
	}
	return b.String()
}

func selects(s destination.Selection) func(*destination.Options) {
	return func(o *destination.Options) { o.Select = &s }
}

func (s *source) names(dir string) string {
	return strings.Join(slices.Sorted(maps.Keys(s.copied(dir))), " ")
}

// A resource is copied if its URL, its type and one of its collections are selected. What the
// selection leaves out is neither missing nor extra (LNK-07, MEM-03).
func TestSelection_LNK07(t *testing.T) {
	s := newSource(t)
	s.offers = []string{resourcesync.ResourceList}
	for _, name := range []string{"a.pdf", "b.png", "c", "d/e.jpg"} {
		s.files[name] = "body of " + name
	}
	s.set("/resourcelist.xml", answer(document("urlset", "resourcelist", s.listed("",
		[3]string{"a.pdf", "application/pdf; version=1", "https://x.example/one"}, [3]string{"b.png", "IMAGE/png", "https://x.example/%C3%A9"},
		[3]string{"c", "", ""}, [3]string{"d/e.jpg", "image/jpeg", "https://x.example/one"}))))
	at := s.URL + "/data/"
	for _, test := range []struct {
		destination.Selection
		want string
	}{
		{destination.Selection{}, "a.pdf b.png c d/e.jpg"},
		{destination.Selection{Include: []string{"*"}}, "a.pdf b.png c d/e.jpg"},
		{destination.Selection{Include: []string{at + "*.p*", at + "d/*"}}, "a.pdf b.png d/e.jpg"},
		{destination.Selection{Exclude: []string{at + "d/*", at + "c"}}, "a.pdf b.png"},
		{destination.Selection{Types: []string{"image/*"}}, "b.png d/e.jpg"},
		{destination.Selection{Types: []string{"image/PNG", "application/pdf"}}, "a.pdf b.png"},
		{destination.Selection{Collections: []string{"https://x.example/é"}}, "b.png"},
		{destination.Selection{Collections: []string{"https://x.example/one"}, Types: []string{"image/*"}}, "d/e.jpg"},
		{destination.Selection{Include: []string{"https://elsewhere.example/*"}}, ""},
	} {
		dir := t.TempDir()
		c := s.open(dir, selects(test.Selection))
		r, err := c.Sync(t.Context())
		if err != nil || !r.InSync() || s.names(dir) != test.want || r.Copied+r.LeftOut != 4 {
			t.Errorf("%+v: %v %+v: %s", test.Selection, err, r, s.names(dir))
		}
		if a, err := c.Audit(t.Context(), false); err != nil || !a.InSync || a.Equal != r.Copied || a.LeftOut != 0 {
			t.Errorf("%+v: %v %+v", test.Selection, err, a)
		}
	}
	for _, wrong := range []destination.Selection{
		{Include: []string{"*.pdf"}}, {Exclude: []string{"https://x.example*"}}, {Types: []string{"pdf"}}, {Types: []string{""}}, {Collections: []string{""}},
	} {
		if _, err := destination.Open(destination.Options{Source: s.URL, Dir: t.TempDir(), Select: &wrong}); err == nil {
			t.Errorf("%+v is accepted", wrong)
		}
	}
}

// The copy remembers its selection. Another one brings what it adds, as it is after all changes, and
// deletes nothing without Reselect, and no more than MaxDelete allows with it.
func TestSelectionIsRemembered(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	for _, name := range []string{"a/1", "a/2", "b/1", "b/2"} {
		s.put(name, "first "+name, 0)
	}
	only := func(folder string) func(*destination.Options) {
		return selects(destination.Selection{Include: []string{s.URL + "/data/" + folder + "/*"}})
	}
	sync := func(want string, change ...func(*destination.Options)) destination.Report {
		t.Helper()
		c := s.open(dir, change...)
		r, err := c.Sync(t.Context())
		if err != nil || s.names(dir) != want {
			t.Errorf("%v %+v: %s", err, r, s.names(dir))
		}
		a, err := c.Audit(t.Context(), false)
		if err != nil || !a.InSync || len(a.Findings) > 0 {
			t.Errorf("%v %+v", err, a)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		return r
	}
	sync("a/1 a/2", only("a"))
	s.put("a/3", "new", 10)
	s.put("b/1", "second", 11)
	s.drop("b/2", 12)
	if r := sync("a/1 a/2 a/3"); r.LeftOut != 1 || r.Baseline != "" { // as the copy remembers
		t.Errorf("%+v", r)
	}
	dry := s.open(dir, only("b"), func(o *destination.Options) { o.DryRun, o.Reselect = true, true })
	if r, err := dry.Sync(t.Context()); err != nil || r.Copied != 1 || r.Deleted != 3 {
		t.Errorf("%v %+v", err, r)
	}
	_ = dry.Close()
	sync("a/1 a/2 a/3")
	sync("a/1 a/2 a/3 b/1", only("b")) // with the bytes after the change, which was left out then
	if got := s.copied(dir)["b/1"]; got != "second" {
		t.Errorf("%q", got)
	}
	s.put("a/1", "stays as it is", 20)
	s.drop("a/2", 21)
	if sync("a/1 a/3 b/1"); s.copied(dir)["a/1"] != "first a/1" {
		t.Error("a file outside of the selection was updated")
	}
	c := s.open(dir)
	a, err := c.Audit(t.Context(), true)
	if err != nil || !a.InSync || a.LeftOut != 2 || a.Equal != 1 || s.names(dir) != "a/1 a/3 b/1" {
		t.Errorf("%v %+v", err, a)
	}
	_ = c.Close()
	few := func(o *destination.Options) {
		o.Reselect = true
		o.MaxDelete, _ = destination.ParseShare("1")
	}
	if r := sync("a/1 a/3 b/1", few); r.Held != 2 {
		t.Errorf("%+v", r)
	}
	if r := sync("b/1", func(o *destination.Options) { o.Reselect = true }); !r.InSync() || r.Deleted != 2 {
		t.Errorf("%+v", r)
	}
	if r := sync("b/1", only("b")); r.Baseline != "" { // the same selection needs no list
		t.Errorf("%+v", r)
	}
	sync("a/1 a/3 b/1", selects(destination.Selection{Include: []string{"*"}}))
}

// A change need not repeat the type and the collections of its resource. It counts if the copy has
// the resource. With Reselect, a resource that changes its type leaves the copy.
func TestChangesWithoutTypes(t *testing.T) {
	s := newSource(t)
	pdf := func(name string) [3]string { return [3]string{name, "application/pdf", ""} }
	s.files = map[string]string{"a": "first", "b": "first", "text": "first"}
	s.set("/resourcelist.xml", answer(document("urlset", "resourcelist", s.listed("", pdf("a"), pdf("b"), [3]string{"text", "text/plain", ""}))))
	change := func(resources ...[3]string) string {
		return changesDocument(` from="2026-01-01T00:00:00Z"`, s.listed("updated", resources...))
	}
	for _, test := range []struct {
		reselect bool
		want     string
	}{{false, "first/second"}, {true, "/second"}} {
		dir := t.TempDir()
		s.files["a"], s.files["b"], s.files["text"] = "first", "first", "first"
		s.set("/changelist.xml", answer(change()))
		c := s.open(dir, selects(destination.Selection{Types: []string{"application/pdf"}}), func(o *destination.Options) { o.Reselect = test.reselect })
		if r, err := c.Sync(t.Context()); err != nil || r.Copied != 2 || r.LeftOut != 1 {
			t.Fatalf("%v %+v", err, r)
		}
		s.files["a"], s.files["b"], s.files["text"] = "second", "second", "second"
		s.set("/changelist.xml", answer(change([3]string{"a", "text/html", ""}, [3]string{"b"}, [3]string{"text"})))
		if r, err := c.Sync(t.Context()); err != nil || !r.InSync() || r.LeftOut != 2 {
			t.Errorf("%v %+v", err, r)
		}
		if got := s.copied(dir); got["a"]+"/"+got["b"] != test.want || got["text"] != "" {
			t.Errorf("%v: %v", test, got)
		}
		if a, err := c.Audit(t.Context(), false); err != nil || !a.InSync {
			t.Errorf("%v %+v", err, a)
		}
	}
}

// What failed is not tried again when a new selection leaves it out.
func TestSelectionEndsFailures(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.put("a", "body", 0)
	s.put("gone", "body", 0)
	s.set("/data/gone", answer("wrong"))
	c := s.open(dir)
	if r, err := c.Sync(t.Context()); err != nil || r.Failed != 1 {
		t.Errorf("%v %+v", err, r)
	}
	_ = c.Close()
	c = s.open(dir, selects(destination.Selection{Exclude: []string{s.URL + "/data/gone"}}))
	if r, err := c.Sync(t.Context()); err != nil || !r.InSync() || r.LeftOut != 1 {
		t.Errorf("%v %+v", err, r)
	}
}

// A copy whose copy.db was lost has its selection by the last status, also for a dry run. Another one that is given counts.
func TestSelectionOutlivesTheState(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	for _, name := range []string{"a/1", "a/2", "b/1"} {
		s.put(name, "body", 0)
	}
	only := func(folder string) func(*destination.Options) {
		return selects(destination.Selection{Include: []string{s.URL + "/data/" + folder + "/*"}})
	}
	sync := func(copied int, want string, change ...func(*destination.Options)) {
		t.Helper()
		c := s.open(dir, change...)
		if r, err := c.Sync(t.Context()); err != nil || r.Copied != copied || s.names(dir) != want {
			t.Errorf("%v %+v: %s", err, r, s.names(dir))
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	lose := func() {
		t.Helper()
		if err := os.Remove(filepath.Join(dir, ".rssub", "copy.db")); err != nil {
			t.Fatal(err)
		}
	}
	sync(2, "a/1 a/2", only("a"))
	lose()
	sync(2, "a/1 a/2", func(o *destination.Options) { o.DryRun = true })
	sync(2, "a/1 a/2")
	sync(0, "a/1 a/2")
	lose()
	sync(1, "a/1 a/2 b/1", only("b"))
	sync(0, "a/1 a/2 b/1")
	lose()
	sync(3, "a/1 a/2 b/1", selects(destination.Selection{Include: []string{"*"}}))
}
