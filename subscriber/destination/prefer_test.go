package destination_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/destination"
)

// linked makes s a Source of one resource, a, whose entry has these attributes and links. HOST in
// them is its URL.
func linked(s *source, md, links string) {
	s.offers = []string{resourcesync.ResourceList}
	s.set("/resourcelist.xml", answer(document("urlset", "resourcelist",
		strings.ReplaceAll(`<url><loc>HOST/data/a</loc><rs:md `+md+`/>`+links+`</url>`, "HOST", s.URL))))
}

// A mirror that is preferred is asked before the resource's own address, which is asked where the
// mirror is away, not allowed, or has other bytes. The report names the host that was used and the
// one that would have to be allowed. LNK-02.
func TestPreferredMirror_LNK02(t *testing.T) {
	mirror := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/good/a":
			_, _ = io.WriteString(w, "body")
		case "/wrong/a":
			_, _ = io.WriteString(w, "bodX")
		default:
			http.NotFound(w, r)
		}
	}))
	defer mirror.Close()
	host := mirror.Listener.Addr().String()
	for name, c := range map[string]struct {
		prefix  string
		allowed bool
		gets    int // of the own address
		used    []destination.InsteadReport
	}{
		"good":        {"/good/", true, 0, []destination.InsteadReport{{Host: host, Resources: 1, First: mirror.URL + "/good/a"}}},
		"wrong":       {"/wrong/", true, 1, nil},
		"away":        {"/away/", true, 1, nil},
		"not allowed": {"/good/", false, 1, nil},
		"no mirror":   {"/other/", true, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := newSource(t), t.TempDir()
			s.put("a", "body", 0)
			links := ""
			for i, path := range []string{"/away/a", "/wrong/a", "/good/a"} {
				links += fmt.Sprintf(`<rs:ln rel="duplicate" pri="%d" href="%s%s"/>`, i+1, mirror.URL, path)
			}
			linked(s, `hash="`+hashOf("body")+`"`, links)
			d := s.open(dir, func(o *destination.Options) {
				if o.PreferMirrors = []string{mirror.URL + c.prefix}; c.allowed {
					o.Hosts = []string{host}
				}
			})
			r, err := d.Sync(t.Context())
			if err != nil || !r.InSync() || r.Copied != 1 || s.gets["/data/a"] != c.gets || !slices.Equal(r.Instead, c.used) {
				t.Errorf("%v %+v; the own address was asked %d times", err, r, s.gets["/data/a"])
			}
			if refused := slices.Equal(r.NotAllowed, []string{host}); refused == c.allowed {
				t.Errorf("not allowed: %q", r.NotAllowed)
			}
			s.same(dir)
			if r, err = d.Sync(t.Context()); err != nil || r.Copied != 0 || len(r.NotAllowed) > 0 {
				t.Errorf("again: %v %+v", err, r)
			}
		})
	}
}

// Where the resource's own address fails, mirrors are asked by pri, each judged by what the entry
// says. What is at hosts that are not allowed is not asked, and the problem says which. LNK-02.
func TestMirrorsByPri_LNK02(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	var asked []string
	serve := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.URL.Path)
			_, _ = io.WriteString(w, body)
		}
	}
	s.put("a", "body", 0)
	s.set("/data/a", http.NotFound)
	for path, body := range map[string]string{"/one": "bodX", "/two": "body", "/three": "body"} {
		s.set(path, serve(body))
	}
	links := `<rs:ln rel="duplicate" pri="3" href="HOST/three"/><rs:ln rel="duplicate" pri="1" href="HOST/one"/><rs:ln rel="duplicate" pri="2" href="HOST/two"/>`
	linked(s, `hash="`+hashOf("body")+`" length="4"`, links)
	c := s.open(dir)
	if r, err := c.Sync(t.Context()); err != nil || r.Copied != 1 || !slices.Equal(asked, []string{"/one", "/two"}) || len(r.Instead) != 1 {
		t.Errorf("%v %+v; asked %q", err, r, asked)
	}
	s.same(dir)
	linked(s, `hash="`+hashOf("none")+`"`, `<rs:ln rel="duplicate" href="http://mirror.example/a"/>`)
	r, err := c.Sync(t.Context())
	if err != nil || r.Failed != 1 || !slices.Equal(r.NotAllowed, []string{"mirror.example:80"}) || !strings.Contains(r.Problems[0].Why, "it is also at mirror.example:80") {
		t.Errorf("%v %+v", err, r)
	}
}

// An alternate of a preferred type is copied instead of the resource, and judged by what its link
// says, in a sync and in an audit. Without it there is the resource itself. LNK-03.
func TestPreferredType_LNK03(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.put("a", "<p>", 0)
	s.set("/a.pdf", answer("%PDF"))
	pdf := `<rs:ln rel="alternate" href="HOST/a.pdf" type="application/pdf" hash="` + hashOf("%PDF") + `" length="4"/>`
	md := `type="text/html; charset=utf-8" length="3" hash="` + hashOf("<p>") + `"`
	linked(s, md, `<rs:ln rel="alternate" href="HOST/a.txt" type="text/plain"/>`+pdf)
	prefer := func(types ...string) func(*destination.Options) {
		return func(o *destination.Options) { o.PreferTypes = types }
	}
	c := s.open(dir, prefer("image/*", "Application/PDF", "text/html"))
	r, err := c.Sync(t.Context())
	if err != nil || !r.InSync() || read(dir, "a") != "%PDF" || s.gets["/data/a"] != 0 || len(r.Instead) != 1 {
		t.Errorf("%v %+v %q", err, r, read(dir, "a"))
	}
	if r, err = c.Sync(t.Context()); err != nil || r.Copied != 0 || s.gets["/a.pdf"] != 1 {
		t.Errorf("again: %v %+v", err, r)
	}
	if a, err := c.Audit(t.Context(), true); err != nil || !a.InSync || a.Equal != 1 || a.Repaired != nil {
		t.Errorf("%v %+v", err, a)
	}
	_ = c.Close()
	c = s.open(dir, prefer("text/*", "application/pdf"))
	if a, err := c.Audit(t.Context(), true); err != nil || !a.InSync || a.Repaired == nil || read(dir, "a") != "<p>" {
		t.Errorf("%v %+v", err, a)
	}
	_ = c.Close()
	s.set("/a.pdf", http.NotFound)
	s.files["a"] = "<p>2"
	linked(s, `type="text/html" hash="`+hashOf("<p>2")+`"`, pdf)
	if r, err = s.open(dir, prefer("application/pdf")).Sync(t.Context()); err != nil || r.Copied != 1 {
		t.Errorf("%v %+v", err, r)
	}
	s.same(dir)
}

// What is stored in a content coding is copied as it is stored, however the server sends it: with a
// Content-Encoding, without, only to those who accept it, or coded once more. LNK-10.
func TestStoredCoded_LNK10(t *testing.T) {
	zip := func(text string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = io.WriteString(z, text)
		_ = z.Close()
		return b.String()
	}
	body := zip("body")
	accepts := func(r *http.Request) bool { return strings.HasPrefix(r.Header.Get("Accept-Encoding"), "gzip,") }
	coded := func(w http.ResponseWriter, as string) {
		w.Header().Set("Content-Encoding", as)
		w.Header().Set("ETag", `"1"`)
	}
	for name, c := range map[string]struct {
		serve http.HandlerFunc
		want  string // in the problem; empty: it is copied
	}{
		"as it is stored": {answer(body), ""},
		"with its coding": {func(w http.ResponseWriter, _ *http.Request) { coded(w, "gzip"); _, _ = io.WriteString(w, body) }, ""},
		"by its old name": {func(w http.ResponseWriter, _ *http.Request) { coded(w, "X-Gzip"); _, _ = io.WriteString(w, body) }, ""},
		"decoded for the rest": {func(w http.ResponseWriter, r *http.Request) {
			if !accepts(r) {
				_, _ = io.WriteString(w, "body")
				return
			}
			coded(w, "gzip")
			_, _ = io.WriteString(w, body)
		}, ""},
		"coded once more": {func(w http.ResponseWriter, r *http.Request) {
			if !accepts(r) {
				_, _ = io.WriteString(w, body)
				return
			}
			coded(w, "gzip")
			_, _ = io.WriteString(w, zip(body))
		}, ""},
		"another coding": {func(w http.ResponseWriter, _ *http.Request) { coded(w, "br"); _, _ = io.WriteString(w, "brotli") }, "Content-Encoding br"},
		"decoded":        {answer(strings.Repeat("body", 20)), "that the Source says"},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := newSource(t), t.TempDir()
			s.put("a", body, 0)
			s.set("/data/a", c.serve)
			linked(s, fmt.Sprintf(`hash="%s" length="%d" encoding="gzip"`, hashOf(body), len(body)), "")
			d := s.open(dir)
			r, err := d.Sync(t.Context())
			if c.want != "" {
				if err != nil || r.Failed != 1 || !strings.Contains(r.Problems[0].Why, c.want) {
					t.Errorf("%v %+v", err, r)
				}
				return
			}
			if err != nil || !r.InSync() || r.Copied != 1 {
				t.Errorf("%v %+v", err, r)
			}
			s.same(dir)
			if a, err := d.Audit(t.Context(), false); err != nil || !a.InSync || a.Equal != 1 {
				t.Errorf("%v %+v", err, a)
			}
		})
	}
}

// Apache can send each .gz file with a Content-Encoding, whatever is requested. The bytes count if they have a hash of the
// entry, and are refused if it has none.
func TestContentEncodingOfFile(t *testing.T) {
	for _, noHashes := range []bool{false, true} {
		s, dir := newSource(t), t.TempDir()
		s.noHashes = noHashes
		s.put("a.tar.gz", "body", 0)
		s.set("/data/a.tar.gz", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "x-gzip")
			_, _ = io.WriteString(w, "body")
		})
		r, err := s.open(dir).Sync(t.Context())
		switch {
		case noHashes && (err != nil || r.Failed != 1 || r.Problems[0].Why != "the response has Content-Encoding x-gzip, which was not requested"):
			t.Errorf("%v %+v", err, r)
		case !noHashes && (err != nil || r.Copied != 1):
			t.Errorf("%v %+v", err, r)
		case !noHashes:
			s.same(dir)
		}
	}
}

// What is stored coded and failed is tried again with its coding, and continued where it was cut
// off. LNK-10.
func TestStoredCodedIsTriedAgain_LNK10(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	c := s.open(dir)
	if _, err := c.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	body := strings.Repeat("0123456789abcdef", 100_000)
	s.put("a", body, 1)
	s.changes[0].Encoding = "gzip"
	s.set("/data/a", http.NotFound)
	if r, err := c.Sync(t.Context()); err != nil || r.Failed != 1 {
		t.Errorf("%v %+v", err, r)
	}
	var ranges []string
	s.set("/data/a", func(w http.ResponseWriter, r *http.Request) {
		ranges = append(ranges, r.Header.Get("Range"))
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("ETag", `"v1"`)
		if len(ranges) == 1 {
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			_, _ = io.WriteString(w, body[:len(body)/2])
			return // and the connection breaks
		}
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(body))
	})
	if r, err := c.Sync(t.Context()); err != nil || !r.InSync() || r.Copied != 1 || !slices.Equal(ranges, []string{"", "bytes=800000-"}) {
		t.Errorf("%v %+v; asked for %q", err, r, ranges)
	}
	s.same(dir)
}
