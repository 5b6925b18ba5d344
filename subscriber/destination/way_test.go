package destination_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/destination"
)

// If the address of a copy, or the well-known place of the host, is broken for a while, what is found in another way does not replace
// the sets of the copy: their files would be deleted.
func TestNoWorseWayReplacesASet(t *testing.T) {
	const urlset = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`
	broken := map[string]http.HandlerFunc{
		"a page": func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "<html>Back soon</html>") },
		"gone":   http.NotFound,
		"empty":  func(http.ResponseWriter, *http.Request) {},
		"too short": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprint(w, urlset+`<rs:md capability="capabil`)
		},
		"encoded": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			_, _ = fmt.Fprint(w, "\x0b\x02\x80")
		},
		"damaged": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprint(w, "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff")
		},
	}
	links := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", `</capabilitylist.xml>; rel="resourcesync"`)
	}
	for name, answer := range broken {
		for _, c := range []struct{ what, address, broken, instead string }{
			{"its Capability List is the address", "/capabilitylist.xml", "/capabilitylist.xml", "/robots.txt"},
			{"its Capability List is the address, and the host has others", "/capabilitylist.xml", "/capabilitylist.xml", "/.well-known/resourcesync"},
			{"the address links to it", "/links", "/links", "/robots.txt"},
			{"the address links to it, and the host has others", "/links", "/links", "/.well-known/resourcesync"},
			{"the well-known place leads to it", "/", "/.well-known/resourcesync", "/robots.txt"},
		} {
			t.Run(name+", "+c.what, func(t *testing.T) {
				s, dir := newSource(t), t.TempDir()
				for i := range 5 {
					s.put(fmt.Sprintf("%d.txt", i), fmt.Sprintf("body %d", i), 0)
				}
				if c.address != "/" {
					s.set("/.well-known/resourcesync", http.NotFound)
				}
				s.set("/links", links)
				c0 := s.open(dir, func(o *destination.Options) { o.Source = s.URL + c.address })
				if r, err := c0.Sync(t.Context()); err != nil || r.Copied != 5 {
					t.Fatalf("%v %+v", err, r)
				}
				s.set("/other.xml", func(w http.ResponseWriter, _ *http.Request) {
					s.write(w, resourcesync.Head{Capability: resourcesync.CapabilityList, Links: []resourcesync.Link{{Rel: "up", Href: s.URL + "/.well-known/resourcesync"}}}, resourcesync.Entry{Loc: s.URL + "/sitemap.xml", Capability: resourcesync.ResourceList})
				})
				s.set("/sitemap.xml", func(w http.ResponseWriter, _ *http.Request) {
					_, _ = fmt.Fprintf(w, urlset+`<rs:md capability="resourcelist"/><url><loc>%s/data/0.txt</loc></url></urlset>`, s.URL)
				})
				s.set(c.instead, func(w http.ResponseWriter, _ *http.Request) {
					if c.instead == "/robots.txt" {
						_, _ = fmt.Fprintf(w, "Sitemap: %s/sitemap.xml\n", s.URL)
						return
					}
					s.write(w, resourcesync.Head{Capability: resourcesync.Description}, resourcesync.Entry{Loc: s.URL + "/other.xml", Capability: resourcesync.CapabilityList})
				})
				s.set(c.broken, answer)
				r, err := c0.Sync(t.Context())
				if err == nil || !strings.Contains(err.Error(), "the copy has the set "+s.URL+"/capabilitylist.xml") || r.Deleted != 0 {
					t.Errorf("%v %+v", err, r)
				}
				s.same(dir)
				if _, err := c0.Audit(t.Context(), true); err == nil {
					t.Error("the copy was compared with another set")
				}
				s.set(c.broken, nil)
				if c.broken == "/links" {
					s.set(c.broken, links)
				}
				s.drop("4.txt", 5)
				if r, err := c0.Sync(t.Context()); err != nil || r.Deleted != 1 {
					t.Errorf("%v %+v", err, r)
				}
				s.same(dir)
			})
		}
	}
}
