package cli

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// dump writes a package of two resources, of which change may take the manifest
// and the content of the second apart.
func dump(t *testing.T, change func(zip string) string) string {
	t.Helper()
	var b bytes.Buffer
	h := resourcesync.Head{
		Capability: resourcesync.ResourceDumpManifest, At: time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC),
		Links: []resourcesync.Link{{Rel: "up", Href: "https://example.org/cl.xml"}},
	}
	d, err := resourcesync.NewDumpWriter(&b, h, resourcesync.DumpWriteOptions{Store: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one", "two"} {
		if err := d.Write(resourcesync.Entry{Loc: "https://example.org/" + name, Path: "/" + name}, strings.NewReader(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return change(b.String())
}

// An address that is not encoded is worth a warning in every document, and one that is
// relative fails it. DOC-16, DOC-60.
func TestValidateLocs_DOC16_DOC60(t *testing.T) {
	const changes, notification = `capability="changelist" from="2026-01-01T00:00:00Z"`, `capability="change-notification" from="2026-01-01T00:00:00Z" until="2026-01-02T00:00:00Z"`
	text := func(head, loc string) string {
		return `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
<rs:ln rel="up" href="https://example.org/capabilitylist.xml"/><rs:md ` + head + `/>
<url><loc>` + loc + `</loc><rs:md change="created"/></url></urlset>`
	}
	for _, c := range []struct{ loc, says, rule string }{
		{"https://example.org/100%.txt", "write %25", "DOC-16"},
		{"https://example.org/a|b", "percent-encode the |", "DOC-16"},
		{"https://example.org/" + strings.Repeat("a", 2048), "2068 characters", "DOC-60"},
	} {
		for _, head := range []string{changes, notification} {
			r := command(t, nil, text(head, c.loc), "validate", "-")
			r.want(t, ExitOK, "WARN -:3:11: loc ", c.says, "("+c.rule+")", "PASS -: change", "1 warning")
			command(t, nil, text(head, c.loc), "validate", "--strict", "-").want(t, ExitFailure, "FAIL -:3:11: loc ", "(bad document: "+c.rule+")")
		}
	}
	command(t, nil, text(changes, "https://example.org/with spaces.txt"), "validate", "-").want(t, ExitOK, "WARN -:3:11: loc is", "(DOC-16)")
	for _, loc := range []string{"relative.txt", "/rooted.txt"} {
		command(t, nil, text(changes, loc), "validate", "-").want(t, ExitFailure, "FAIL -:3:11: loc is", "(bad document: DOC-16)")
	}
	command(t, nil, text(notification, "https://example.org/with spaces.txt"), "validate", "-").want(t, ExitFailure, "FAIL -:3:11: loc is", "(bad document: DOC-16)")
	command(t, nil, text(changes, "https://example.org/é"), "validate", "--strict", "-").want(t, ExitOK, "PASS -: changelist")
}

// DOC-38: a package of a dump is held against its manifest.
func TestValidatePackage(t *testing.T) {
	good := dump(t, func(zip string) string { return zip })
	name := file(t, good)
	command(t, nil, "", "validate", name).want(t, ExitOK, "PASS "+name+": resourcedump-manifest at 2026-11-20T00:00:00Z, 2 entries")
	command(t, nil, good, "validate", "--strict", "-").want(t, ExitOK, "PASS -: resourcedump-manifest")
	// The names in the ZIP file alone: the manifest is deflated.
	renamed := strings.ReplaceAll(good, "two", "six")
	r := command(t, nil, renamed, "validate", "-")
	r.want(t, ExitFailure, `FAIL -:9:3: the package has no file "/two", which its manifest names (bad package: DOC-38)`, `WARN -: the package has a file "six" that its manifest does not name (DOC-38)`)
	command(t, nil, renamed, "validate", "--strict", "-").want(t, ExitFailure, `FAIL -: the package has a file "six"`)
	command(t, nil, good[:len(good)-1], "validate", "-").want(t, ExitFailure, "FAIL -: the package is no ZIP file")
	damaged := strings.Replace(good, "one", "0ne", 2) // its name and content
	command(t, nil, strings.Replace(damaged, "0ne", "one", 1), "validate", "-").want(t, ExitFailure, `FAIL -:5:3: "one" in the package is damaged`)
}

// An empty package is one, though it begins otherwise than others. DOC-38.
func TestValidateEmptyPackage(t *testing.T) {
	empty := "PK\x05\x06" + strings.Repeat("\x00", 18)
	command(t, nil, empty, "validate", "-").want(t, ExitFailure, "FAIL -: the package has no manifest.xml at its top")
}

// What is found is told, but not without end.
func TestFindingsAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="resourcelist" at="2026"/>`)
	for range 300 {
		b.WriteString(`<url><loc>https://example.org/a</loc><rs:md change="created" hash="x"/></url>`)
	}
	// What all entries have in common does not hide what the document lacks.
	r := command(t, nil, b.String()+"</urlset>", "validate", "-")
	r.want(t, ExitOK, `the document lacks an rs:ln rel="up"`, "WARN -: 560 more are not shown\n", ", 601 warnings\n")
	if lines := strings.Count(r.stdout, "\n"); lines != 2*20+3 {
		t.Errorf("%d lines", lines)
	}
}

// A server that is busy is asked once more, if it says when.
func TestValidateRetries(t *testing.T) {
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		_, _ = io.WriteString(w, notification)
	}))
	defer s.Close()
	command(t, nil, "", "validate", "--dev", s.URL).want(t, ExitOK, "PASS "+s.URL+": change-notification")
	if n := asked.Load(); n != 2 {
		t.Errorf("asked %d times", n)
	}
}

// A document is fetched once, however often it is listed.
func TestFollowFetchesOnce(t *testing.T) {
	var asked atomic.Int32
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = fmt.Fprintf(w, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="resourcelist-archive"/>%s</urlset>`,
			strings.Repeat("<url><loc>"+s.URL+"/a</loc></url>", 3))
	}))
	defer s.Close()
	command(t, nil, "", "validate", "--dev", "--follow", "--pause=0s", s.URL+"/").want(t, ExitFailure, "is listed twice", "leads back to where it is listed")
	if n := asked.Load(); n != 2 {
		t.Errorf("%d requests", n)
	}
}

// Only what HTTP or the name says to be compressed is.
func TestValidateGuessesNoCompression(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := io.WriteString(z, notification)
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	command(t, nil, b.String(), "validate", "-").want(t, ExitFailure, "FAIL -: it is compressed with gzip, and neither its name")
	name := filepath.Join(t.TempDir(), "n.XML.GZ")
	if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	command(t, nil, "", "validate", name).want(t, ExitOK, "PASS "+name+": change-notification")
	if err := os.WriteFile(name, b.Bytes()[:b.Len()-1], 0o600); err != nil {
		t.Fatal(err)
	}
	command(t, nil, "", "validate", name).want(t, ExitFailure, "FAIL "+name+": not gzip from end to end")
}

// No more documents are fetched than allowed, those included that are not there.
func TestFollowIsBounded(t *testing.T) {
	var asked atomic.Int32
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if strings.HasSuffix(r.URL.Path, "resourcedump") {
			http.NotFound(w, r)
			return
		}
		_, _ = fmt.Fprintf(w, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="capabilitylist"/>`)
		for _, c := range []string{"resourcelist", "changelist", "resourcedump"} {
			_, _ = fmt.Fprintf(w, `<url><loc>%s%s/%s</loc><rs:md capability="%s"/></url>`, s.URL, strings.TrimSuffix(r.URL.Path, "/"), c, c)
		}
		_, _ = io.WriteString(w, `</urlset>`)
	}))
	defer s.Close()
	r := command(t, nil, "", "validate", "--dev", "--follow", "--pause=0s", "--max-documents=20", s.URL+"/")
	r.want(t, ExitFailure, "were not checked")
	if n := asked.Load(); n != 20 {
		t.Errorf("%d documents were fetched", n)
	}
}
