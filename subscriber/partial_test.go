package subscriber

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/base/web"
)

// If one set of a Source cannot be read, no other way to the Source leads to a part of its sets, and no sitemap replaces them: a
// Destination would take the resources of the others for deleted.
func TestNoPartOfASource(t *testing.T) {
	const urlset = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`
	cut := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = fmt.Fprint(w, urlset+`<rs:md capability="capabilitylist"/>`)
	}
	away := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
	stalls := func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, urlset)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	page := func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "Sorry") }
	for name, c := range map[string]struct {
		address string
		b       http.HandlerFunc
		away    bool
	}{
		"it is away, and is the address":               {"/b.xml", away, true},
		"it breaks off, and is the address":            {"/b.xml", cut, true},
		"it stalls, and is the address":                {"/b.xml", stalls, true},
		"it stalls, and the description names it":      {"/", stalls, true},
		"it is away, and the address links to it":      {"/links", away, true},
		"it is a page, and the address links to it":    {"/links", page, false},
		"it is gone, and the address links to it":      {"/links", http.NotFound, false},
		"it is away, and the description names it":     {"/", away, true},
		"it breaks off, and the description names it":  {"/", cut, true},
		"it is a page, and the description names it":   {"/", page, false},
		"it is gone, and the description names it":     {"/", http.NotFound, false},
		"it breaks off, and the address names it, too": {"/description.xml", cut, true},
	} {
		t.Run(name, func(t *testing.T) {
			mux := http.NewServeMux()
			description := func(w http.ResponseWriter, r *http.Request) {
				_, _ = fmt.Fprintf(w, urlset+`<rs:md capability="description"/><url><loc>http://%[1]s/a.xml</loc></url><url><loc>http://%[1]s/b.xml</loc></url></urlset>`, r.Host)
			}
			mux.HandleFunc(WellKnown, description)
			mux.HandleFunc("/description.xml", description)
			mux.HandleFunc("/links", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Link", `</a.xml>; rel="resourcesync", </b.xml>; rel="resourcesync"`)
			})
			mux.HandleFunc("/a.xml", func(w http.ResponseWriter, r *http.Request) {
				_, _ = fmt.Fprintf(w, urlset+`<rs:md capability="capabilitylist"/><url><loc>http://%s/list.xml</loc><rs:md capability="resourcelist"/></url></urlset>`, r.Host)
			})
			mux.HandleFunc("/b.xml", c.b)
			mux.HandleFunc("/robots.txt", func(w http.ResponseWriter, r *http.Request) {
				_, _ = fmt.Fprintf(w, "Sitemap: http://%s/sitemap.xml\n", r.Host)
			})
			mux.HandleFunc("/sitemap.xml", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, urlset+`</urlset>`) })
			server := httptest.NewServer(mux)
			defer server.Close()
			client := web.DoerFunc(func(r *http.Request) (*http.Response, error) {
				if strings.HasPrefix(name, "it stalls") && r.URL.Path == "/b.xml" { // a busy machine stalls the others, too
					return web.Pace{Stall: time.Second}.Do(server.Client(), r)
				}
				return server.Client().Do(r)
			})
			s, err := DiscoverSource(t.Context(), client, server.URL+c.address)
			if err == nil || len(s.Sets) > 0 || !strings.Contains(err.Error(), "/b.xml") || Away(err) != c.away {
				t.Errorf("%v, %v; want an error about /b.xml", s.Sets, err)
			}
			if strings.HasPrefix(name, "it breaks off") && !strings.Contains(fmt.Sprint(err), "of 1000 bytes") {
				t.Errorf("%v does not say where the answer ended", err)
			}
		})
	}
}
