package subscriber

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/rshub/rshub/resourcesync"
)

// All sitemaps of a robots.txt count (SRC-14). If one of them cannot be read, there is no answer: a Destination would take its
// resources for deleted.
func TestAllSitemapsOfRobots_SRC14(t *testing.T) {
	const sitemap = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>https://source.example/a</loc></url></urlset>`
	for name, c := range map[string]struct {
		second http.HandlerFunc
		want   string // of the error; empty: both count
	}{
		"both":          {func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, sitemap) }, ""},
		"one is away":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, "/b.xml answered 503"},
		"one is gone":   {http.NotFound, "/b.xml answered 404"},
		"one is a page": {func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "Sorry") }, "robots.txt names a sitemap that cannot be used"},
		"one is coded": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			_, _ = fmt.Fprint(w, "\x0b\x02\x80")
		}, `/b.xml: the answer has Content-Encoding "br"`},
	} {
		t.Run(name, func(t *testing.T) {
			mux := http.NewServeMux()
			mux.HandleFunc("/robots.txt", func(w http.ResponseWriter, r *http.Request) {
				_, _ = fmt.Fprintf(w, "Sitemap: http://%[1]s/a.xml\nSitemap: http://%[1]s/b.xml\n", r.Host)
			})
			mux.HandleFunc("/a.xml", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, sitemap) })
			mux.HandleFunc("/b.xml", c.second)
			server := httptest.NewServer(mux)
			defer server.Close()
			s, err := DiscoverSource(t.Context(), server.Client(), server.URL+"/")
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) || len(s.Sets) > 0 {
					t.Errorf("%v, %v; want an error with %q", s.Sets, err, c.want)
				}
				return
			}
			var lists []string
			for _, set := range s.Sets {
				lists = append(lists, set.Documents[resourcesync.ResourceList])
			}
			if want := []string{server.URL + "/a.xml", server.URL + "/b.xml"}; err != nil || !slices.Equal(lists, want) {
				t.Errorf("%v, %v; want %v", lists, err, want)
			}
		})
	}
}

// A robots.txt of which only a part counts would hide sets, too.
func TestRobotsCountsWhole_SRC14(t *testing.T) {
	for name, c := range map[string]struct {
		robots http.HandlerFunc
		want   string // of the error
	}{
		"many sitemaps": {func(w http.ResponseWriter, _ *http.Request) {
			for i := range maxRobots + 1 {
				_, _ = fmt.Fprintf(w, "Sitemap: /%d.xml\n", i)
			}
		}, "/robots.txt names more than 100 sitemaps"},
		"broken off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = fmt.Fprint(w, "Sitemap: /0.xml\n")
		}, "reading "},
	} {
		t.Run(name, func(t *testing.T) {
			mux := http.NewServeMux()
			mux.HandleFunc("/robots.txt", c.robots)
			mux.HandleFunc("/0.xml", func(w http.ResponseWriter, _ *http.Request) {
				_, _ = fmt.Fprint(w, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"/>`)
			})
			server := httptest.NewServer(mux)
			defer server.Close()
			if s, err := DiscoverSource(t.Context(), server.Client(), server.URL+"/"); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, %v; want an error with %q", s.Sets, err, c.want)
			}
		})
	}
}
