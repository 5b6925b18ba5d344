package destination_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/base/originlog"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/destination"
)

// comesFrom fails the test unless the copy says that the file at a path comes from a URL, with a
// time; empty: from nowhere.
func comesFrom(t *testing.T, dir, path, url string, at time.Time) {
	t.Helper()
	r := originlog.NewReader(dir, ".rssub")
	if _, _, err := r.Refresh(); err != nil {
		t.Fatal(err)
	}
	if o, ok, err := r.Get(path); err != nil || ok != (url != "") || o.URL != url || !o.Modified.Equal(at) {
		t.Errorf("%s comes from %+v, %v; want %q of %v", path, o, err, url, at)
	}
}

// A copy says where its files come from: from its Source or, in a chain, from the first one, which
// the link via of the entry names. It does so after updates, deletions, a failure, another link
// and another name, and it can make the file that says it again. LNK-08.
func TestOrigins_LNK08(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	name := filepath.Join(dir, ".rssub", originlog.Name)
	first := time.Date(2020, 2, 3, 4, 5, 6, 0, time.UTC)
	lists := 0
	list := func(body string, vias ...string) { // a newer one
		lists++
		e := resourcesync.Entry{Loc: s.URL + "/data/a", Hash: hashOf(body)}
		for _, path := range vias {
			e.Links = append(e.Links, resourcesync.Link{Rel: "via", Href: "http://first.example/" + path, Modified: first})
		}
		at := s.at.Add(time.Duration(lists) * time.Minute)
		s.offers = []string{resourcesync.ResourceList}
		s.set("/resourcelist.xml", func(w http.ResponseWriter, _ *http.Request) {
			s.write(w, resourcesync.Head{Capability: resourcesync.ResourceList, At: at, Links: []resourcesync.Link{{Rel: "up", Href: s.URL + "/capabilitylist.xml"}}}, e)
		})
	}
	sync := func(options ...func(*destination.Options)) {
		t.Helper()
		c := s.open(dir, options...)
		r, err := c.Sync(t.Context())
		if err != nil {
			t.Fatalf("%v %+v", err, r)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s.put("a", "1", 0)
	s.put("b", "1", 0)
	sync()
	comesFrom(t, dir, "a", s.URL+"/data/a", s.at)
	comesFrom(t, dir, "b", s.URL+"/data/b", s.at)
	comesFrom(t, dir, "c", "", time.Time{})

	s.put("a", "2", 1)
	s.drop("b", 2)
	s.changes[0].LastMod = s.at.Add(time.Second)
	sync()
	comesFrom(t, dir, "a", s.URL+"/data/a", s.at.Add(time.Second))
	comesFrom(t, dir, "b", "", time.Time{})

	// Only the link is new: the bytes stay, and so does what a failure was about to bring.
	list("2", "old", "older")
	s.put("a", "2", 0)
	sync()
	comesFrom(t, dir, "a", "http://first.example/old", first)
	list("3", "new")
	sync()
	s.put("a", "3", 0)
	s.set("/resourcelist.xml", answer("no list"))
	c := s.open(dir)
	_, _ = c.Sync(t.Context()) // what failed is tried again, without a list
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	s.same(dir)
	comesFrom(t, dir, "a", "http://first.example/new", first)

	// The file is made again if it is lost, and does not grow for ever.
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := s.open(dir).Close(); err != nil {
		t.Fatal(err)
	}
	comesFrom(t, dir, "a", "http://first.example/new", first)
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	for i := range 10_050 {
		if err == nil {
			_, err = fmt.Fprintf(f, `{"path":"gone","url":"http://first.example/%d"}`+"\n", i)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	list("3")
	sync()
	comesFrom(t, dir, "a", s.URL+"/data/a", time.Time{})
	comesFrom(t, dir, "gone", "", time.Time{})
	if raw, err := os.ReadFile(name); err != nil || bytes.Count(raw, []byte("\n")) != 1 {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
}

// A file that gets another name in the copy has its origin at the new one.
func TestOriginsOfRenamedFiles_LNK08(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.put(".x", "1", 0)
	allow := func(o *destination.Options) { o.HiddenAllow = []string{".x"} }
	for _, options := range [][]func(*destination.Options){{allow}, nil, {allow}} {
		c := s.open(dir, options...)
		if r, err := c.Sync(t.Context()); err != nil {
			t.Fatalf("%v %+v", err, r)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		is, was := ".x", "%2Ex"
		if options == nil {
			is, was = was, is
		}
		comesFrom(t, dir, is, s.URL+"/data/.x", s.at)
		comesFrom(t, dir, was, "", time.Time{})
	}
}
