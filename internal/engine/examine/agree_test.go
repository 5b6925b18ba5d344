package examine

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rshub/rshub/resourcesync"
)

// shelve serves documents by their paths. In them, @ stands for the URL of the server.
func shelve(t *testing.T, documents map[string]string) *httptest.Server {
	t.Helper()
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		doc, ok := documents[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/xml")
		_, _ = io.WriteString(w, strings.ReplaceAll(doc, "@", s.URL))
	}))
	t.Cleanup(s.Close)
	return s
}

// xmlOf is a document: of sitemaps if root is sitemapindex, else of urls.
func xmlOf(root, links, md string, entries ...string) string {
	element := map[string]string{"urlset": "url", "sitemapindex": "sitemap"}[root]
	var b strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&b, "<%s>%s</%s>\n", element, e, element)
	}
	return fmt.Sprintf(`<%s xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`+
		"\n%s<rs:md %s/>\n%s</%s>\n", root, links, md, b.String(), root)
}

// examined follows a document and returns its findings and those of what it lists.
func examined(t *testing.T, name string, o Options) (valid bool, findings string, err error) {
	t.Helper()
	o.Client = http.DefaultClient
	var b strings.Builder
	valid, err = CheckDocument(t.Context(), name, o, func(d *Document) error {
		for _, f := range d.All("") {
			fmt.Fprintln(&b, f)
		}
		return nil
	})
	return valid, b.String(), err
}

const upLink, indexLink = `<rs:ln rel="up" href="@/cl"/>`, `<rs:ln rel="index" href="@/index"/>`

// DOC-35, DOC-40, DOC-46: an index and its parts agree on their times, and parts about
// changes follow each other.
func TestPartsAgreeWithTheirIndex(t *testing.T) {
	const first, second, both = "<loc>@/1</loc>", "<loc>@/2</loc>", upLink + indexLink
	day := func(name string, n int) string { return fmt.Sprintf(`%s="2026-01-%02dT00:00:00Z" `, name, n) }
	span := func(from, until int) string { return day("from", from) + day("until", until) }
	for name, tc := range map[string]struct {
		capability, index string // what its rs:md says
		entries           []string
		parts             []string // what their rs:md say
		links             string   // of the parts
		want              string
	}{
		"good":              {"changelist", span(1, 3), []string{first, second}, []string{span(1, 2), span(2, 3)}, both, "PASS"},
		"listed twice":      {"changelist", span(1, 3), []string{first, first}, []string{span(1, 3)}, both, "/1 is listed twice"},
		"no index":          {"changelist", span(1, 3), []string{first}, []string{span(1, 3)}, upLink, `WARN @/index:3:1: @/1 lacks an rs:ln rel="index"`},
		"another up":        {"changelist", span(1, 3), []string{first}, []string{span(1, 3)}, indexLink + `<rs:ln rel="up" href="@/other"/>`, "up of @/1 leads to @/other, and that of its index"},
		"entry at":          {"resourcelist", day("at", 1), []string{first + "<rs:md " + day("at", 2) + "/>"}, []string{day("at", 1)}, both, "at of @/1 is 2026-01-02T00:00:00Z in the entry and 2026-01-01T00:00:00Z in the document"},
		"no at":             {"resourcelist", day("at", 1), []string{first + "<rs:md " + day("at", 2) + "/>"}, []string{""}, both, "in the entry and - in the document"},
		"entry is open":     {"changelist", day("from", 1), []string{first + "<rs:md " + day("from", 1) + "/>"}, []string{span(1, 2)}, both, "@/1 is closed, until 2026-01-02T00:00:00Z, and its entry does not say so"},
		"early at":          {"resourcelist", day("at", 2), []string{first}, []string{day("at", 1)}, both, "at of @/1 is 2026-01-01T00:00:00Z, earlier than that of its index"},
		"late completed":    {"resourcelist", day("at", 1) + day("completed", 2), []string{first}, []string{day("at", 1) + day("completed", 3)}, both, "@/1 was completed at 2026-01-03T00:00:00Z, later than its index"},
		"early from":        {"changelist", span(2, 4), []string{first}, []string{span(1, 4)}, both, "from of @/1 is 2026-01-01T00:00:00Z, earlier"},
		"late until":        {"changelist", span(1, 2), []string{first}, []string{span(1, 3)}, both, "until of @/1 is 2026-01-03T00:00:00Z, later"},
		"open part":         {"changelist", span(1, 2), []string{first}, []string{day("from", 1)}, both, "@/1 is open, and its index is closed"},
		"gap at the start":  {"changelist", span(1, 3), []string{first}, []string{span(2, 3)}, both, "the first part, begins at 2026-01-02T00:00:00Z"},
		"gap between":       {"changelist", span(1, 4), []string{first, second}, []string{span(1, 2), span(3, 4)}, both, "ends at 2026-01-02T00:00:00Z: there is a gap"},
		"overlap":           {"changelist", span(1, 4), []string{first, second}, []string{span(1, 3), span(2, 4)}, both, "they overlap"},
		"gap at the end":    {"changelist", span(1, 4), []string{first}, []string{span(1, 3)}, both, "the last part ends at 2026-01-03T00:00:00Z, and its index at"},
		"open in between":   {"changelist", day("from", 1), []string{first, second}, []string{day("from", 1), span(2, 3)}, both, "@/2 comes after a part that is open"},
		"unknown part":      {"changelist", span(1, 4), []string{first, "<loc>@/none</loc>", second}, []string{span(1, 2), span(3, 4)}, both, "@/none is not there"},
		"another kind":      {"changelist", span(1, 4), []string{first, "<loc>@/other</loc>", second}, []string{span(1, 2), span(3, 4)}, both, "the capability of @/other is resourcelist; it should be changelist"},
		"an index in index": {"changelist", span(1, 4), []string{"<loc>@/inner</loc>"}, nil, both, "@/inner is an index; a member of an index must not be one"},
		"archives":          {"resourcelist-archive", "", []string{first, first}, []string{""}, both, "/1 is listed twice (inconsistent: DOC-46)"},
	} {
		t.Run(name, func(t *testing.T) {
			head := func(times string) string { return `capability="` + tc.capability + `" ` + times }
			documents := map[string]string{
				"/index": xmlOf("sitemapindex", upLink, head(tc.index), tc.entries...),
				"/other": xmlOf("urlset", both, `capability="resourcelist" `+day("at", 1)),
				"/inner": xmlOf("sitemapindex", upLink+indexLink, head(tc.index)),
			}
			for i, part := range tc.parts {
				documents[fmt.Sprint("/", i+1)] = xmlOf("urlset", tc.links, head(part))
			}
			s := shelve(t, documents)
			_, found, err := examined(t, s.URL+"/index", Options{Follow: true})
			if found = strings.ReplaceAll(found, s.URL, "@"); err != nil || !strings.Contains(found, tc.want) {
				t.Errorf("%v\n%s\ndoes not say\n%s", err, found, tc.want)
			}
			if bad := strings.Contains(found, "there is a gap"); (name == "unknown part" || name == "another kind") && bad {
				t.Errorf("a gap is reported next to a part whose interval is not known:\n%s", found)
			}
		})
	}
}

// With Options.Strict a warning about a document is a failure.
func TestStrictnessFails(t *testing.T) {
	s := shelve(t, map[string]string{
		"/index": xmlOf("sitemapindex", upLink, `capability="changelist" from="2026-01-01"`, "<loc>@/1</loc>"),
		"/1":     xmlOf("urlset", upLink, `capability="changelist" from="2026-01-01"`),
	})
	for strict, level := range map[bool]string{false: "WARN", true: "FAIL"} {
		valid, found, err := examined(t, s.URL+"/index", Options{Follow: true, Strict: strict})
		if err != nil || valid == strict || !strings.Contains(found, level+" "+s.URL+`/index:3:1: `+s.URL+`/1 lacks an rs:ln rel="index"`) {
			t.Errorf("strict %t: %t, %v\n%s", strict, valid, err, found)
		}
	}
}

// An error of report ends the examination and is returned.
func TestReportEndsTheExamination(t *testing.T) {
	s := shelve(t, map[string]string{
		"/index": xmlOf("sitemapindex", upLink, `capability="changelist" from="2026-01-01"`, "<loc>@/1</loc>"),
		"/1":     xmlOf("urlset", upLink+indexLink, `capability="changelist" from="2026-01-01"`),
	})
	enough := errors.New("enough")
	reports := 0
	_, err := CheckDocument(t.Context(), s.URL+"/index", Options{Follow: true, Client: http.DefaultClient}, func(*Document) error {
		reports++
		return enough
	})
	if !errors.Is(err, enough) || reports != 1 {
		t.Errorf("%d reports, %v", reports, err)
	}
	if _, err := CheckDocument(t.Context(), s.URL+"/none", Options{Client: http.DefaultClient}, nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("a document that is not there: %v", err)
	}
	if _, err := CheckDocument(t.Context(), "http://[", Options{Client: http.DefaultClient}, nil); !errors.Is(err, ErrAddress) {
		t.Errorf("what is no URL: %v", err)
	}
}

// DOC-55, DOC-56: a package is what its entry says.
func TestPackagesAgreeWithTheirEntry(t *testing.T) {
	_, _, _, _, _, pack := fuzzSeed(t)
	sum := resourcesync.NewHasher(resourcesync.SHA256)
	_, _ = sum.Write(pack)
	good := fmt.Sprintf(`length="%d" hash="%v"`, len(pack), sum.Digests())
	for attributes, want := range map[string]string{
		good:         "PASS",
		`length="1"`: "bytes, and its entry says 1 (inconsistent: DOC-56)",
		`hash="md5:0cc175b9c0f1b6a831c399e269772661"`: "and its entry says md5:0cc175b9c0f1b6a831c399e269772661 (inconsistent: DOC-55)",
	} {
		s := shelve(t, map[string]string{
			"/dump":     xmlOf("urlset", upLink, `capability="resourcedump" at="2025-01-01"`, "<loc>@/pack.zip</loc><rs:md "+attributes+"/>"),
			"/pack.zip": string(pack),
		})
		if _, found, err := examined(t, s.URL+"/dump", Options{Follow: true}); err != nil || !strings.Contains(found, want) {
			t.Errorf("%s: %v\n%s", attributes, err, found)
		}
	}
}
