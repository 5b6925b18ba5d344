package subscriber

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/rshub/rshub/resourcesync"
)

// pages is a host that serves each path as a web page, as PHP does if nobody sets another media type.
type pages map[string]string

func (p pages) Do(r *http.Request) (*http.Response, error) {
	body, ok := p[r.URL.Path]
	if !ok {
		return &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/html; charset=UTF-8"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func TestDocumentsServedAsHTML(t *testing.T) {
	const host = "https://php.example"
	document := func(capability, loc, names string) string {
		return `<?xml version="1.0" encoding="UTF-8"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="` +
			capability + `"/><url><loc>` + host + loc + `</loc><rs:md capability="` + names + `"/></url></urlset>`
	}
	s, err := DiscoverSource(t.Context(), pages{
		WellKnown: document("description", "/cap", "capabilitylist"), "/cap": document("capabilitylist", "/list", "resourcelist"),
	}, host+"/")
	if err != nil || len(s.Sets) != 1 || s.Sets[0].Documents[resourcesync.ResourceList] != host+"/list" {
		t.Errorf("%v %+v", err, s)
	}
	_, err = DiscoverSource(t.Context(), pages{"/": "<html><body>Welcome</body></html>"}, host+"/")
	if err == nil || strings.Contains(err.Error(), "empty") {
		t.Errorf("a page that is none: %v", err)
	}
}
