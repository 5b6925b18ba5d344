package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rshub/rshub/internal/program/cli"
)

const listHead = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`

// A list with more entries than the protocol allows is refused, and the error names the flag.
// With that flag the list is accepted, with one warning (DOC-60).
func TestMaxEntries_DOC60(t *testing.T) {
	var resources, changes strings.Builder
	const n = 50_001
	resources.WriteString(listHead + `<rs:md capability="resourcelist" at="2026-01-01T00:00:00Z"/>`)
	changes.WriteString(listHead + `<rs:md capability="changelist" from="2026-01-01T00:00:00Z"/>`)
	var lists map[string]string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := lists[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/xml")
		_, _ = fmt.Fprint(w, body)
	}))
	t.Cleanup(s.Close)
	for i := range n {
		_, _ = fmt.Fprintf(&resources, `<url><loc>%s/%d</loc></url>`, s.URL, i)
		_, _ = fmt.Fprintf(&changes, `<url><loc>%s/gone</loc><rs:md change="deleted" datetime="2026-01-02T00:00:00Z"/></url>`, s.URL)
	}
	resources.WriteString(`</urlset>`)
	changes.WriteString(`</urlset>`)
	small := listHead + `<rs:md capability="resourcelist" at="2026-01-01T00:00:00Z"/><url><loc>` + s.URL + `/a</loc></url></urlset>`
	offers := func(document string) string {
		return `<url><loc>` + s.URL + `/` + document + `.xml</loc><rs:md capability="` + document + `"/></url>`
	}
	capabilities := listHead + `<rs:md capability="capabilitylist"/>` + offers("resourcelist")
	for name, l := range map[string]map[string]string{
		"Resource List": {"/resourcelist.xml": resources.String(), "/capabilitylist.xml": capabilities + `</urlset>`},
		"Change List":   {"/resourcelist.xml": small, "/changelist.xml": changes.String(), "/capabilitylist.xml": capabilities + offers("changelist") + `</urlset>`, "/a": "a"},
	} {
		t.Run(name, func(t *testing.T) {
			lists = l
			args := []string{"sync", s.URL + "/capabilitylist.xml", "--dir", t.TempDir(), "--dev"}
			if name == "Resource List" {
				args = append(args, "--dry-run") // nothing of it is there
			}
			code, _, errs := rssub(t.Context(), args...)
			if code == cli.ExitOK || !strings.Contains(errs, "--max-entries allows 50000 entries") || strings.Contains(errs, "Options.") {
				t.Errorf("by default: %d\n%s", code, errs)
			}
			if code, _, errs = rssub(t.Context(), append(args, "--max-entries", "100")...); code == cli.ExitOK || !strings.Contains(errs, "--max-entries allows 100 entries") {
				t.Errorf("with less than it has: %d\n%s", code, errs)
			}
			code, _, errs = rssub(t.Context(), append(args, "--max-entries", "60000")...)
			if code != cli.ExitOK || strings.Count(errs, "large_list") != 1 || !strings.Contains(errs, "50001") || strings.Contains(errs, "Options.") {
				t.Errorf("with the flag: %d\n%s", code, errs)
			}
		})
	}
	if code, _, errs := rssub(t.Context(), "sync", s.URL, "--dir", t.TempDir(), "--max-entries", "0"); code != cli.ExitUsage {
		t.Errorf("0: %d %s", code, errs)
	}
}
