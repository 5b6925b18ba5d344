package destination_test

import (
	"strings"
	"testing"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/destination"
)

// A length that the Source gives raises no limit: what is longer than MaxFile is not
// asked for, what turns out to be is not kept, and what the copy has of it stays.
func TestLengthRaisesNoLimit(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.offers = []string{resourcesync.ResourceList}
	s.put("good", "good", 0)
	s.put("large", "small at first", 0)
	limit := func(o *destination.Options) { o.MaxFile = 100 }
	c := s.open(dir, limit)
	if r, err := c.Sync(t.Context()); err != nil || r.Copied != 2 {
		t.Fatalf("%v %+v", err, r)
	}
	gets := s.gets["/data/large"]
	entry := func(name, length string) string {
		return `<url><loc>` + s.URL + `/data/` + name + `</loc><lastmod>2026-02-01T00:00:00Z</lastmod><rs:md length="` + length + `"/></url>`
	}
	s.set("/data/large", endless)
	s.set("/data/mirror", endless)
	s.set("/resourcelist.xml", answer(document("urlset", "resourcelist", entry("good", "4")+entry("large", "1000000000000000")+
		strings.Replace(entry("other", "1000000000000000"), "</url>", `<rs:ln rel="duplicate" href="`+s.URL+`/data/mirror"/></url>`, 1))))
	r, err := c.Sync(t.Context())
	if err != nil || r.Failed != 2 || r.InSync() || len(r.Problems) != 2 || !strings.Contains(r.Problems[0].Why, "Options.MaxFile") {
		t.Errorf("%v %+v", err, r)
	}
	if n := s.gets["/data/large"] - gets + s.gets["/data/other"] + s.gets["/data/mirror"]; n != 0 {
		t.Errorf("it was asked for %d times", n)
	}
	if got := read(dir, "large"); got != "small at first" {
		t.Errorf("the copy has %q", got)
	}
	_ = c.Close()
	s.set("/data/large", nil)
	s.set("/data/other", answer("other"))
	s.put("large", strings.Repeat("x", 101), 0)
	s.set("/resourcelist.xml", nil)
	c = s.open(dir, limit)
	if r, err := c.Sync(t.Context()); err != nil || r.InSync() || read(dir, "large") != "small at first" {
		t.Errorf("%v %+v", err, r)
	}
	_ = c.Close()
	c = s.open(dir, func(o *destination.Options) { o.MaxFile = 101 })
	if r, err := c.Sync(t.Context()); err != nil || read(dir, "large") != strings.Repeat("x", 101) {
		t.Errorf("a larger limit: %v %+v", err, r)
	}
}

// MaxEntries bounds lists and the manifests of packages alike (DOC-60).
func TestMaxEntries_DOC60(t *testing.T) {
	for _, capability := range []string{resourcesync.ResourceList, resourcesync.ResourceDump} {
		s := newSource(t)
		s.offers = []string{capability}
		want := dumped(s, 3)
		up := resourcesync.Link{Rel: "up", Href: s.URL + "/capabilitylist.xml"}
		if capability == resourcesync.ResourceDump {
			s.put("part.zip", pack(t, resourcesync.Head{Capability: resourcesync.ResourceDumpManifest, At: s.at, Links: []resourcesync.Link{up}}, want, nil), 0)
			s.packages = []string{"part.zip"}
		}
		for most, whole := range map[int]bool{2: false, len(want): true} {
			c := s.open(t.TempDir(), func(o *destination.Options) { o.MaxEntries = most })
			r, err := c.Sync(t.Context())
			if why := "Options.MaxEntries allows 2 entries"; whole != (err == nil && r.Copied == len(want)) || !whole && (err == nil || !strings.Contains(err.Error(), why)) {
				t.Errorf("%s, at most %d: %v %+v", capability, most, err, r)
			}
			_ = c.Close()
		}
	}
}
