package subscriber

import (
	"testing"

	"github.com/rshub/rshub/resourcesync"
)

// An index of Capability Lists leads to the sets of all of them. DOC-33.
func TestCapabilityListIndex_DOC33(t *testing.T) {
	const host = "https://many.example"
	subscribed(t, nil, func(l *lab) {
		document := func(url, root, body string) {
			l.raw(url, `<`+root+` xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="capabilitylist"/>`+body+`</`+root+`>`)
		}
		document(host+"/index.xml", "sitemapindex", `<sitemap><loc>`+host+`/a.xml</loc></sitemap><sitemap><loc>`+host+`/b.xml</loc></sitemap>`)
		for _, set := range []string{"a", "b"} {
			document(host+"/"+set+".xml", "urlset", `<url><loc>`+host+`/`+set+`/list.xml</loc><rs:md capability="resourcelist"/></url>`)
		}
		l.serve(host+WellKnown, resourcesync.Head{Capability: resourcesync.Description}, resourcesync.Entry{Loc: host + "/index.xml", Capability: resourcesync.CapabilityList})
		for _, from := range []string{host + "/index.xml", host + "/"} {
			s, err := DiscoverSource(l.Context(), l, from)
			if err != nil || len(s.Sets) != 2 || s.Sets[0].Documents[resourcesync.ResourceList] != host+"/a/list.xml" || s.Sets[1].Documents[resourcesync.ResourceList] != host+"/b/list.xml" {
				t.Errorf("%s: %v %+v", from, err, s)
			}
		}
	})
}
