package examine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/publisher"
	"github.com/rshub/rshub/publisher/source"
)

// served is a Source with all kinds of documents, whose answers a test may change.
type served struct {
	*httptest.Server
	source *source.Source
	dir    string
	spoil  func(w http.ResponseWriter, r *http.Request, pass http.Handler)
}

func serve(t *testing.T) *served {
	t.Helper()
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "a hub") }))
	t.Cleanup(hub.Close)
	s := &served{dir: t.TempDir()}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.spoil != nil {
			s.spoil(w, r, s.source.Handler())
			return
		}
		s.source.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	for i := range 30 {
		s.write(t, fmt.Sprintf("%d.txt", i), fmt.Sprint("file ", i))
	}
	var err error
	s.source, err = source.Open(source.Options{
		PublicURL: s.URL + "/", StateDir: t.TempDir(), Hubs: []publisher.Hub{{URL: hub.URL + "/"}},
		Sets:     []source.Set{{Folder: source.FolderOptions{Dir: s.dir, Settle: time.Nanosecond, Patience: time.Nanosecond}}},
		Schedule: source.Schedule{ResourceList: 1, Dump: 1, RotateAt: 3},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.source.Close(); err != nil {
			t.Error(err)
		}
	})
	s.build(t)
	for i := range 7 {
		s.write(t, fmt.Sprintf("%d.txt", i), "changed")
	}
	if err := os.Remove(filepath.Join(s.dir, "9.txt")); err != nil {
		t.Fatal(err)
	}
	s.build(t)
	return s
}

func (s *served) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (s *served) build(t *testing.T) {
	t.Helper()
	time.Sleep(time.Millisecond)
	if err := s.source.Build(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// look examines a URL, and returns what is not PASS.
func look(t *testing.T, url string, o Options) (Result, []string, error) {
	t.Helper()
	c, err := egress.New(egress.Options{Allow: egress.DevAllow()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	var found []string
	o.Client = c
	r, err := CheckSource(t.Context(), url, o, func(f Finding) {
		if f.Level != Pass {
			found = append(found, f.String())
		}
	})
	return r, found, err
}

// A hub that the Capability List names with a slash and the topic without is the same.
func TestHubURLWithoutItsSlash(t *testing.T) {
	s := serve(t)
	s.spoil = func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		rec := httptest.NewRecorder()
		pass.ServeHTTP(rec, r)
		if links := rec.Header().Get("Link"); r.URL.Path == "/changes/" && strings.Contains(links, `/>; rel="hub"`) {
			rec.Header().Set("Link", strings.Replace(links, `/>; rel="hub"`, `>; rel="hub"`, 1))
		} else if r.URL.Path == "/changes/" {
			t.Errorf("the topic names no hub: %s", links)
		}
		maps.Copy(w.Header(), rec.Header())
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes())
	}
	if _, found, err := look(t, s.URL, Options{}); err != nil || len(found) > 0 {
		t.Errorf("%v\n%s", err, strings.Join(found, "\n"))
	}
}

// A good Source passes, whatever URL of it one begins with.
func TestGoodSource(t *testing.T) {
	s := serve(t)
	for _, path := range []string{"", "/", "/.well-known/resourcesync", "/capabilitylist.xml", "/resourcelist.xml", "/data/1.txt", "/no/such/path"} {
		r, found, err := look(t, s.URL+path, Options{})
		if err != nil || len(found) > 0 || r.Passed < 20 || r.Documents < 12 || r.Resources < 20 {
			t.Errorf("%q: %+v, %v\n%s", path, r, err, strings.Join(found, "\n"))
		}
	}
}

// Without a Source Description it is found by links, with a word.
func TestFoundByLinks_SRC12_SRC13(t *testing.T) {
	s := serve(t)
	s.spoil = func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if strings.Contains(r.URL.Path, ".well-known") {
			http.NotFound(w, r)
			return
		}
		pass.ServeHTTP(w, r)
	}
	for _, path := range []string{"/", "/data/1.txt", "/capabilitylist.xml", "/changelist.xml"} {
		r, found, err := look(t, s.URL+path, Options{})
		if err != nil || len(found) != 1 || !strings.HasPrefix(found[0], "WARN discovery") || r.Documents < 11 {
			t.Errorf("%q: %+v, %v\n%s", path, r, err, strings.Join(found, "\n"))
		}
	}
}

// A relative up leads to the Capability List, too.
func TestFoundByRelativeLink_SRC12(t *testing.T) {
	s := serve(t)
	relative := edit("/changelist.xml", `href="`+s.URL+`/capabilitylist.xml"`, `href="capabilitylist.xml"`)
	s.spoil = func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if strings.Contains(r.URL.Path, ".well-known") {
			http.NotFound(w, r)
			return
		}
		relative(w, r, pass)
	}
	if r, found, err := look(t, s.URL+"/changelist.xml", Options{}); err != nil || r.Documents < 11 || r.Failed > 0 {
		t.Errorf("%+v, %v\n%s", r, err, strings.Join(found, "\n"))
	}
}

// A server that is busy is asked once more, if it says when.
func TestBusyServersAreAskedAgain(t *testing.T) {
	s := serve(t)
	seen := make(map[string]bool)
	s.spoil = func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if !seen[r.URL.Path] {
			seen[r.URL.Path] = true
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		pass.ServeHTTP(w, r)
	}
	if _, found, err := look(t, s.URL, Options{}); err != nil || len(found) > 0 {
		t.Errorf("%v\n%s", err, strings.Join(found, "\n"))
	}
}

// moved redirects a path to itself with a query.
func moved(path string) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if r.URL.Path == path && r.URL.RawQuery == "" {
			http.Redirect(w, r, path+"?moved", http.StatusFound)
			return
		}
		pass.ServeHTTP(w, r)
	}
}

// edit replaces text in the answer of a path.
func edit(path, old, with string) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if r.URL.Path != path {
			pass.ServeHTTP(w, r)
			return
		}
		rec := httptest.NewRecorder()
		r.Header.Del("If-None-Match")
		pass.ServeHTTP(rec, r)
		w.Header().Set("Content-Type", rec.Header().Get("Content-Type"))
		for _, l := range rec.Header().Values("Link") {
			w.Header().Add("Link", strings.ReplaceAll(l, old, with))
		}
		w.WriteHeader(rec.Code)
		_, _ = io.WriteString(w, strings.ReplaceAll(rec.Body.String(), old, with))
	}
}

// header sets a header of the answers of a path.
func header(path, name, value string) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if r.URL.Path == path {
			w = setting{w, name, value}
		}
		pass.ServeHTTP(w, r)
	}
}

type setting struct {
	http.ResponseWriter
	name, value string
}

func (s setting) WriteHeader(code int) {
	s.Header()[s.name] = nil
	if s.value != "" {
		s.Header().Set(s.name, s.value)
	}
	s.ResponseWriter.WriteHeader(code)
}

// status answers a path with a status.
func status(path string, code int) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if strings.HasPrefix(r.URL.Path, path) {
			w.WriteHeader(code)
			return
		}
		pass.ServeHTTP(w, r)
	}
}

// Each defect is reported with a line of its own.
func TestDefectsAreTold(t *testing.T) {
	s := serve(t)
	for name, test := range map[string]struct {
		spoil func(http.ResponseWriter, *http.Request, http.Handler)
		want  string
	}{
		"a document is gone":          {status("/resourcelist.xml", 404), "FAIL document " + s.URL + "/capabilitylist.xml:5:3: " + s.URL + "/resourcelist.xml is not there: its server answers 404 Not Found (inconsistent: DOC-32)"},
		"no XML":                      {edit("/changelist-index.xml", "</sitemapindex>", ""), "FAIL document " + s.URL + "/changelist-index.xml:19:1: the document ends before"},
		"another kind":                {edit("/resourcedump.xml", `"resourcedump"`, `"resourcelist"`), "/capabilitylist.xml:13:3: the capability of " + s.URL + "/resourcedump.xml is resourcelist; it should be resourcedump (inconsistent: DOC-32)"},
		"no capability":               {edit("/resourcelist.xml", ` capability="resourcelist"`, ""), "sitemap"},
		"another up":                  {edit("/changelist-index.xml", "/capabilitylist.xml", "/other.xml"), "/capabilitylist.xml:9:3: up of " + s.URL + "/changelist-index.xml leads to " + s.URL + "/other.xml, and not to where it is listed (inconsistent: DOC-32)"},
		"another index":               {edit("/changelist-1.xml", `rel="index" href="`+s.URL+`/changelist-index.xml"`, `rel="index" href="`+s.URL+`/x"`), "/changelist-index.xml:6:3: index of " + s.URL + "/changelist-1.xml leads to " + s.URL + "/x, and not to where it is listed (inconsistent: DOC-40)"},
		"old relation":                {edit("/resourcelist.xml", `rel="up"`, `rel="resourcesync"`), "WARN document " + s.URL + "/resourcelist.xml:3:3: the relation"},
		"a hidden name":               {edit("/resourcelist.xml", "/data/20.txt<", "/data/.ssh/20.txt<"), `that begins with a dot: `},
		"wrong length":                {edit("/resourcelist.xml", `length="7"`, `length="8"`), "it has 7 bytes, and the list says 8"},
		"wrong hash":                  {edit("/data/20.txt", "file", "FILE"), "its hashes are"},
		"resources are gone":          {status("/data/", 404), "lists it, and the server answers 404"},
		"resources are broken":        {status("/data/", 500), "FAIL resource"},
		"deleted ones are there":      {status("/data/9.txt", 200), "it was deleted by"},
		"another type":                {header("/data/20.txt", "Content-Type", "image/png"), "its Content-Type is image/png"},
		"packages are gone":           {status("/dumps/", 404), "FAIL document " + s.URL + "/resourcedump.xml:6:3: " + s.URL + "/dumps/resourcedump-"},
		"topic is gone":               {status("/changes/", 404), "FAIL topic " + s.URL + "/changes/: it answers 404"},
		"topic elsewhere":             {moved("/changes/"), "it redirects to " + s.URL + "/changes/?moved"},
		"topic without Link":          {header("/changes/", "Link", ""), `has 0 Link headers with rel="self"`},
		"topic is another":            {edit("/changes/", s.URL+"/changes/", s.URL+"/other/"), "says that it is"},
		"topic without hub":           {edit("/changes/", `rel="hub"`, `rel="other"`), "does not name the hub"},
		"topic of another kind":       {header("/changes/", "Content-Type", "text/plain"), "WARN topic"},
		"no hub in the list":          {edit("/capabilitylist.xml", `rel="hub"`, `rel="via"`), "names no hub"},
		"served without tags":         {edit("/.well-known/resourcesync", "\x00", ""), "without ETag and Last-Modified"},
		"coded":                       {header("/capabilitylist.xml", "Content-Encoding", "br"), `/capabilitylist.xml: the answer has Content-Encoding "br", which was not requested`},
		"served as text":              {header("/capabilitylist.xml", "Content-Type", "text/plain"), "its Content-Type is"},
		"parts with a gap":            {edit("/changelist-4.xml", `from="2`, `from="3`), "FAIL document"},
		"pushes without a list":       {edit("/capabilitylist.xml", `capability="changelist"`, `capability="changelist-archive"`), "WARN document " + s.URL + "/capabilitylist.xml: changes are pushed, and there is no Change List"},
		"moved nowhere":               {status("/resourcelist.xml", 302), s.URL + "/resourcelist.xml can't be fetched: its server answers 302 Found"},
		"a Capability List in a loop": {edit("/.well-known/resourcesync", "/capabilitylist.xml", "/.well-known/resourcesync"), "leads back"},
	} {
		t.Run(name, func(t *testing.T) {
			s.spoil = test.spoil
			_, found, err := look(t, s.URL, Options{Sample: 100})
			if all := strings.Join(found, "\n"); err != nil || !strings.Contains(all, test.want) {
				t.Errorf("%v\n%s\ndoes not say\n%s", err, all, test.want)
			}
		})
	}
}

// Where there is nothing to look at the error says why.
func TestNothingToLookAt(t *testing.T) {
	s := serve(t)
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(plain.Close)
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	for url, want := range map[string]error{plain.URL: ErrNotFound, closed.URL: ErrUnreachable, "http://169.254.169.254/": ErrRefused, "ftp://example.org/": ErrNotFound, "%": ErrNotFound} {
		if _, _, err := look(t, url, Options{}); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", url, err, want)
		}
	}
	s.spoil = status("/", 503)
	if _, _, err := look(t, s.URL, Options{}); !errors.Is(err, ErrUnreachable) {
		t.Errorf("a server that fails: %v", err)
	}
	s.spoil = status("/", 401)
	if _, _, err := look(t, s.URL, Options{}); !errors.Is(err, ErrRefused) {
		t.Errorf("a server that does not let us in: %v", err)
	}
	for _, c := range []struct {
		wellKnown, top int
		want           error
	}{{503, 404, ErrUnreachable}, {403, 404, ErrRefused}, {503, 200, ErrUnreachable}, {404, 503, ErrUnreachable}, {404, 401, ErrRefused}, {404, 404, ErrNotFound}} {
		s.spoil = func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
			w.WriteHeader(map[string]int{wellKnown: c.wellKnown, "/": c.top}[r.URL.Path])
		}
		if _, _, err := look(t, s.URL, Options{}); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	s.spoil = func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		http.Redirect(w, r, "/x"+r.URL.Path, http.StatusFound)
	}
	if _, _, err := look(t, s.URL, Options{}); !errors.Is(err, ErrUnreachable) {
		t.Errorf("redirects without end: %v", err)
	}
	s.spoil = nil
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := CheckSource(ctx, s.URL, Options{Client: http.DefaultClient}, func(Finding) {}); err == nil {
		t.Error("a look that was stopped has no error")
	}
}

// What is left out by an option is left out.
func TestBounds(t *testing.T) {
	s := serve(t)
	r, found, err := look(t, s.URL, Options{MaxDocuments: 3, Sample: -1, MaxPackage: -1})
	if err != nil || r.Documents != 3 || r.Resources != 0 || !strings.Contains(strings.Join(found, "\n"), "--max-documents") {
		t.Errorf("%+v, %v, %v", r, found, err)
	}
	if _, found, _ = look(t, s.URL, Options{MaxPackage: 1}); !strings.Contains(strings.Join(found, "\n"), "larger than") {
		t.Errorf("%v", found)
	}
}

// page answers every path with a web page, as some servers do, and one with a link.
func page(link string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, "<html><head>%s</head><body></body></html>", link)
	})
}

// A page at the address of the Source Description is no Source Description, and no
// defect.
func TestPagesAreNoDescription_SRC12_SRC13(t *testing.T) {
	s := serve(t)
	empty := httptest.NewServer(page(""))
	t.Cleanup(empty.Close)
	if _, found, err := look(t, empty.URL, Options{}); !errors.Is(err, ErrNotFound) || len(found) > 0 {
		t.Errorf("%v, %v", err, found)
	}
	linked := httptest.NewServer(page(`<link rel="resourcesync" href="` + s.URL + `/capabilitylist.xml">`))
	t.Cleanup(linked.Close)
	if r, found, err := look(t, linked.URL, Options{}); err != nil || len(found) != 1 || !strings.HasPrefix(found[0], "WARN discovery") || r.Documents < 11 {
		t.Errorf("%+v, %v\n%s", r, err, strings.Join(found, "\n"))
	}
	broken := httptest.NewServer(page(`<link rel="resourcesync" href="` + s.URL + `/nowhere.xml">`))
	t.Cleanup(broken.Close)
	if _, found, err := look(t, broken.URL, Options{}); err != nil || len(found) != 2 || !strings.HasSuffix(found[1], "is not there: its server answers 404 Not Found (SRC-13)") {
		t.Errorf("%v\n%s", err, strings.Join(found, "\n"))
	}
}

// However many topics, hubs and documents a Source names, requests and memory are bounded.
func TestSourcesAreBounded(t *testing.T) {
	const head = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`
	var channels strings.Builder
	for i := range 500 {
		_, _ = fmt.Fprintf(&channels, `<url><loc>%s/t%d</loc><rs:md capability="change-notification"/><rs:ln rel="hub" href="%s/h%d"/></url>`, fuzzHost, i, fuzzHost, i)
	}
	files := map[string][]byte{
		wellKnown: []byte(head + `<rs:md capability="description"/><url><loc>` + fuzzHost + `/cl.xml</loc></url><url><loc>` + fuzzHost + `/0</loc></url></urlset>`),
		"/cl.xml": []byte(head + `<rs:md capability="capabilitylist"/>` + channels.String() + `</urlset>`),
	}
	for i := range 100 {
		files[fmt.Sprint("/", i)] = fmt.Appendf(nil, `%s<rs:md capability="resourcelist-archive"/><url><loc>%s/%d</loc></url></urlset>`, head, fuzzHost, i+1)
	}
	s := &shelf{files: files}
	last := ""
	r, err := CheckSource(t.Context(), fuzzHost, Options{Client: s}, func(f Finding) {
		if strings.Contains(f.Message, "were checked") || strings.Contains(f.Message, "lead to it") {
			last += f.String() + "\n"
		}
	})
	if err != nil || s.requests > 2*maxChannels+maxDepth+2 || r.Documents > maxDepth+2 {
		t.Errorf("%d requests, %+v, %v", s.requests, r, err)
	}
	for _, says := range []string{"WARN topic " + fuzzHost + "/t50: only 100 topics and hubs were checked", "WARN document " + fuzzHost + "/15: what it lists was not checked"} {
		if !strings.Contains(last, says) {
			t.Errorf("%q\nis not in\n%s", says, last)
		}
	}
}

// Without ResourceSync at the well-known place and without links, the sitemaps of a robots.txt are the Source, as for
// rssub.
func TestFoundByRobots_SRC14(t *testing.T) {
	s := serve(t)
	hidden := func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if r.URL.Path == "/" || strings.Contains(r.URL.Path, ".well-known") {
			http.NotFound(w, r)
			return
		}
		pass.ServeHTTP(w, r)
	}
	s.spoil = hidden
	r, found, err := look(t, s.URL, Options{})
	if err != nil || len(found) != 1 || !strings.HasPrefix(found[0], "WARN discovery "+s.URL+": there is no Source Description") || !strings.Contains(found[0], "robots.txt") || r.Documents < 11 {
		t.Errorf("%+v, %v\n%s", r, err, strings.Join(found, "\n"))
	}

	// A plain sitemap has resources, too, and what is named and not there is reported.
	const urls = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>%[1]s/data/29.txt</loc></url><url><loc>%[1]s/data/none.txt</loc></url></urlset>`
	s.spoil = func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		switch r.URL.Path {
		case "/robots.txt":
			_, _ = fmt.Fprintf(w, "Sitemap: %s/plain.xml\nSitemap: /gone.xml\n", s.URL)
		case "/plain.xml":
			w.Header().Set("Content-Type", "application/xml")
			_, _ = fmt.Fprintf(w, urls, s.URL)
		default:
			hidden(w, r, pass)
		}
	}
	r, found, err = look(t, s.URL, Options{})
	all := strings.Join(found, "\n")
	if err != nil || r.Documents != 2 || r.Resources != 2 || !strings.Contains(all, "FAIL discovery "+s.URL+"/gone.xml: ") || !strings.Contains(all, "FAIL resource "+s.URL+"/data/none.txt: ") {
		t.Errorf("%+v, %v\n%s", r, err, all)
	}

	// A Source that is away is not replaced by sitemaps.
	s.spoil = status("/.well-known/resourcesync", 503)
	robots := 0
	away := s.spoil
	s.spoil = func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if r.URL.Path == "/robots.txt" {
			robots++
		}
		if r.URL.Path == "/" {
			http.NotFound(w, r)
			return
		}
		away(w, r, pass)
	}
	if _, _, err := look(t, s.URL, Options{}); !errors.Is(err, ErrUnreachable) || robots > 0 {
		t.Errorf("%v, %d requests of robots.txt", err, robots)
	}
}
