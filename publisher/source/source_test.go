package source

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/publisher"
)

// site is a Source that is served on a loopback address.
type site struct {
	*Source
	t      testing.TB
	dir    string
	server *httptest.Server // nil in a bubble
	o      Options
}

// eager are options with which a test need not wait.
func eager(dir string) Options {
	return Options{
		Sets:     []Set{{Folder: FolderOptions{Dir: dir, Settle: time.Nanosecond, Patience: time.Nanosecond}}},
		Schedule: Schedule{ChangeList: time.Nanosecond, ResourceList: time.Nanosecond, Dump: time.Nanosecond, Archive: time.Nanosecond},
	}
}

// newSite opens a Source over a new folder, and serves it. Change may alter the
// options; the public URL is set.
func newSite(t testing.TB, change func(*Options)) *site {
	t.Helper()
	x := &site{t: t}
	x.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { x.Handler().ServeHTTP(w, r) }))
	t.Cleanup(x.server.Close)
	return x.fill(x.server.URL+"/", change)
}

// newBubble is newSite without a server, for synctest: its handler is asked.
func newBubble(t testing.TB, change func(*Options)) *site {
	t.Helper()
	return (&site{t: t}).fill("https://source.example.org/", change)
}

func (x *site) fill(publicURL string, change func(*Options)) *site {
	t := x.t
	x.dir = t.TempDir()
	x.o = eager(x.dir)
	x.o.PublicURL, x.o.StateDir = publicURL, t.TempDir()
	if change != nil {
		change(&x.o)
	}
	x.open()
	t.Cleanup(func() { x.close() })
	return x
}

func (x *site) open() {
	x.t.Helper()
	var err error
	if x.Source, err = Open(x.o); err != nil {
		x.t.Fatal(err)
	}
}

func (x *site) close() {
	x.t.Helper()
	if err := x.Close(); err != nil {
		x.t.Error(err)
	}
}

// write puts files into the folder, by path.
func (x *site) write(files map[string]string) {
	x.t.Helper()
	writeFiles(x.t, x.dir, files)
}

func writeFiles(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for path, text := range files {
		name := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// build scans, and writes the documents that are due.
func (x *site) build() {
	x.t.Helper()
	if err := x.Build(context.Background()); err != nil {
		x.t.Fatal(err)
	}
}

// answer is what a server said.
type answer struct {
	status int
	header http.Header
	body   string
}

// get fetches a path, or a URL of this site, as it is and not compressed. Headers
// are names and values.
func (x *site) get(path string, header ...string) answer {
	x.t.Helper()
	return x.do(http.MethodGet, path, header...)
}

func (x *site) do(method, path string, header ...string) answer {
	x.t.Helper()
	if path == "" || path[0] == '/' {
		at := strings.TrimSuffix(x.o.PublicURL, "/")
		if x.server != nil {
			at = x.server.URL // whatever the path of the public URL
		}
		path = at + path
	}
	req, err := http.NewRequestWithContext(x.t.Context(), method, path, http.NoBody)
	if err != nil {
		x.t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", "identity")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	if x.server == nil {
		got := httptest.NewRecorder()
		x.Handler().ServeHTTP(got, req)
		return answer{got.Code, got.Header(), got.Body.String()}
	}
	resp, err := x.server.Client().Do(req)
	if err != nil {
		x.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		x.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(body)}
}

// withHidden publishes names that begin with a dot.
func withHidden(o *Options) { o.Sets[0].Folder.Hidden = true }

// withHub adds a hub that nothing is sent to.
func withHub(o *Options) { o.Hubs = []publisher.Hub{{URL: "https://hub.example.org/"}} }

func TestBuild(t *testing.T) {
	x := newSite(t, withHub)
	x.write(map[string]string{"a.txt": "A", "b/c.html": "<p>C</p>"})
	x.build()
	for _, path := range []string{"/.well-known/resourcesync", "/capabilitylist.xml", "/resourcelist.xml", "/changelist.xml", "/resourcedump.xml", "/resourcelist-archive.xml", "/resourcedump-archive.xml", "/robots.txt", "/", "/data/a.txt"} {
		if got := x.get(path); got.status != http.StatusOK {
			t.Errorf("%s: %d", path, got.status)
		}
	}
}

// names are those in a folder.
func names(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// One process has a state folder, whatever the sets are that another would have in
// it: they would share the documents of the site.
func TestStateFolderIsOpenOnce(t *testing.T) {
	x := newSite(t, nil)
	o := x.o
	o.Sets = []Set{{Name: "other", Folder: FolderOptions{Dir: t.TempDir()}}}
	if s, err := Open(o); !errors.Is(err, ErrLocked) {
		t.Errorf("a second time: %v", err)
		if err == nil {
			_ = s.Close()
		}
	}
	x.close()
	x.open()
}
