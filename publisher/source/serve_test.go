package source

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/publisher"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/websub"
)

// What is served can be kept and asked for again, in parts and compressed, and is
// never computed for a request.
func TestDocumentsAreServedFromFiles(t *testing.T) {
	x := newSite(t, nil)
	x.write(map[string]string{"a.txt": "A"})
	x.build()
	got := x.get("/resourcelist.xml")
	tag, modified := got.header.Get("ETag"), got.header.Get("Last-Modified")
	if tag == "" || strings.HasPrefix(tag, "W/") || modified == "" || got.header.Get("Content-Type") != "application/xml" {
		t.Errorf("the Resource List has the headers %v", got.header)
	}
	if again := x.get("/resourcelist.xml", "If-None-Match", tag); again.status != http.StatusNotModified || again.body != "" {
		t.Errorf("asked with its ETag it answers %d, %q", again.status, again.body)
	}
	if again := x.get("/resourcelist.xml", "If-Modified-Since", modified); again.status != http.StatusNotModified {
		t.Errorf("asked with its time it answers %d", again.status)
	}
	if head := x.do(http.MethodHead, "/resourcelist.xml"); head.status != http.StatusOK || head.body != "" || head.header.Get("ETag") != tag {
		t.Errorf("HEAD answers %d, %v", head.status, head.header)
	}
	if post := x.do(http.MethodPost, "/resourcelist.xml"); post.status != http.StatusMethodNotAllowed || post.header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST answers %d, %v", post.status, post.header)
	}
	packed := x.get("/resourcelist.xml", "Accept-Encoding", "gzip, deflate")
	if packed.header.Get("Content-Encoding") != "gzip" || packed.header.Get("Vary") != "Accept-Encoding" || packed.header.Get("ETag") == tag {
		t.Errorf("compressed it has the headers %v", packed.header)
	}
	if packed.header.Get("Content-Length") != strconv.Itoa(len(packed.body)) {
		t.Errorf("the compressed list is of length %q", packed.header.Get("Content-Length"))
	}
	for _, c := range []struct {
		status int
		length string
		header []string
	}{
		{206, "10", []string{"Range", "bytes=0-9"}},
		{304, "", []string{"If-None-Match", packed.header.Get("ETag")}},
		{200, strconv.Itoa(len(packed.body)), []string{"Range", "bytes=0-9", "If-Range", `"another"`}},
	} {
		r := x.get("/resourcelist.xml", append(c.header, "Accept-Encoding", "gzip")...)
		if r.status != c.status || r.header.Get("Content-Length") != c.length || c.length != "" && strconv.Itoa(len(r.body)) != c.length {
			t.Errorf("%v of the compressed list: %d, %v, %d bytes", c.header, r.status, r.header, len(r.body))
		}
	}
	z, err := gzip.NewReader(strings.NewReader(packed.body))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(z); err != nil || string(text) != got.body {
		t.Errorf("compressed it is something else, or: %v", err)
	}
	_, packages := x.read("/resourcedump.xml")
	whole := x.get(packages[0].Loc)
	part := x.get(packages[0].Loc, "Range", "bytes=10-19", "If-Range", whole.header.Get("ETag"))
	if part.status != http.StatusPartialContent || part.body != whole.body[10:20] {
		t.Errorf("a part of a package: %d, %q", part.status, part.body)
	}
	if h := x.get(packages[0].Loc, "Accept-Encoding", "gzip").header; h.Get("Content-Encoding") != "" || h.Get("Content-Type") != "application/zip" {
		t.Errorf("a package has the headers %v", h)
	}
}

// A resource tells where its Capability List is (SRC-13), and has the bytes and the
// type that the list says.
func TestResources_SRC13(t *testing.T) {
	x := newSite(t, nil)
	x.write(map[string]string{"b/ü.html": "<p>é</p>", ".DS_Store": "no", "empty": ""})
	if err := os.Symlink("/etc/passwd", filepath.Join(x.dir, "link")); err != nil {
		t.Fatal(err)
	}
	x.build()
	got := x.get("/data/b/%C3%BC.html")
	links := websub.ParseLinks(got.header.Values("Link"))
	if lists := websub.Targets(links, "resourcesync"); len(lists) != 1 || lists[0] != x.server.URL+"/capabilitylist.xml" {
		t.Errorf("its Link headers are %v", got.header.Values("Link"))
	}
	if got.body != "<p>é</p>" || got.header.Get("Content-Type") != "text/html" || got.header.Get("ETag") == "" {
		t.Errorf("%q, %v", got.body, got.header)
	}
	if part := x.get("/data/b/%C3%BC.html", "Range", "bytes=0-2"); part.status != http.StatusPartialContent || part.body != "<p>" {
		t.Errorf("a part: %d, %q", part.status, part.body)
	}
	if empty := x.get("/data/empty"); empty.status != http.StatusOK || empty.body != "" {
		t.Errorf("the empty one: %d, %q", empty.status, empty.body)
	}
	for _, path := range []string{
		"/data/.DS_Store", "/data/link", "/data/", "/data", "/data/b", "/data/b/", "/data/missing", "/data/../source.go",
		"/data/%2e%2e/x", "/data/b%2F%C3%BC.html", "/data//b/%C3%BC.html", "/data/%00", "/nothing", "/documents/catalogue.json", "/catalogue.json",
	} {
		if got := x.get(path); got.status != http.StatusNotFound {
			t.Errorf("%s answers %d", path, got.status)
		}
	}

	// Written to since it was indexed: what is there is served, under no tag that is
	// another's.
	x.write(map[string]string{"b/ü.html": "<p>other</p>"})
	if now := x.get("/data/b/%C3%BC.html"); now.body != "<p>other</p>" || now.header.Get("ETag") != "" {
		t.Errorf("%q, %v", now.body, now.header)
	}
	if again := x.get("/data/b/%C3%BC.html", "If-None-Match", got.header.Get("ETag")); again.status != http.StatusOK {
		t.Errorf("asked with the tag of the old bytes: %d", again.status)
	}
	if err := os.Remove(filepath.Join(x.dir, "b/ü.html")); err != nil {
		t.Fatal(err)
	}
	if gone := x.get("/data/b/%C3%BC.html"); gone.status != http.StatusNotFound {
		t.Errorf("removed it answers %d", gone.status)
	}
}

// As long as there are no documents at all, each answers 503 and says when to come
// again, and the topic names its hubs from the first moment. A Capability List that
// lists less than it is going to have would make a copy of nothing. After a restart the
// documents of the last run are there at once (SRC-02, SRC-11).
func TestBeforeTheFirstDocuments_SRC02_SRC11(t *testing.T) {
	x := newSite(t, withHub)
	x.write(map[string]string{"a.txt": "A"})
	documents := []string{"/capabilitylist.xml", "/resourcelist.xml", "/changelist.xml", "/resourcedump.xml", "/changedump.xml", "/resourcelist-archive.xml"}
	comes := func(when string, documents ...string) {
		t.Helper()
		for _, path := range documents {
			if got := x.get(path); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
				t.Errorf("%s: %s answers %d, %v", when, path, got.status, got.header)
			}
		}
	}
	topics := func(when string) {
		t.Helper()
		for _, path := range []string{"/changes/", "/framework/"} {
			got := x.get(path)
			links := websub.ParseLinks(got.header.Values("Link"))
			self, hubs := websub.Targets(links, websub.RelSelf), websub.Targets(links, websub.RelHub)
			if got.status != http.StatusOK || !slices.Equal(self, []string{x.server.URL + path}) || len(hubs) != 1 {
				t.Errorf("%s: the topic %s answers %d, %v", when, path, got.status, got.header)
			}
		}
	}
	comes("before the first scan", documents...)
	topics("before the first scan")
	if got := x.get("/nothing"); got.status != http.StatusNotFound {
		t.Errorf("what will never be there answers %d", got.status)
	}
	s := x.sets[0]
	if err := s.packager.origin.Scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	comes("after the first scan", documents...)
	x.step(s.buildChangeLists)
	comes("with a Change List alone", documents...)
	x.step(s.buildResourceList)
	if _, entries := x.read("/capabilitylist.xml"); len(entries) < 4 || entries[0].Capability != resourcesync.ResourceList || entries[1].Capability != resourcesync.ChangeList {
		t.Errorf("the first Capability List has %+v", entries)
	}
	x.build()
	before := map[string]string{}
	for _, path := range []string{"/capabilitylist.xml", "/resourcelist.xml", "/changelist.xml", "/resourcedump.xml"} {
		before[path] = x.get(path).body
	}
	x.close()
	x.open()
	topics("after a restart")
	for path, body := range before {
		if got := x.get(path); got.status != http.StatusOK || got.body != body {
			t.Errorf("after a restart %s answers %d %q", path, got.status, got.body)
		}
	}
	if got := x.get("/changedump.xml"); got.status != http.StatusNotFound {
		t.Errorf("what is not there yet, beside others, answers %d", got.status)
	}
}

// A Source is found by its site's page, robots.txt and the well-known URI (SRC-12 to
// SRC-14).
func TestDiscovery_SRC12_SRC13_SRC14(t *testing.T) {
	x := newSite(t, nil)
	x.build()
	list := x.server.URL + "/capabilitylist.xml"
	if h, entries := x.read("/.well-known/resourcesync"); h.Capability != resourcesync.Description || len(entries) != 1 || entries[0].Loc != list {
		t.Errorf("%+v, %+v", h, entries)
	}
	links, err := resourcesync.LinksFromHTML(strings.NewReader(x.get("/").body), x.server.URL+"/")
	if err != nil || len(links) != 1 || links[0].Rel != "resourcesync" || links[0].Href != list {
		t.Errorf("the page links to %v, %v", links, err)
	}
	maps, err := resourcesync.Sitemaps(strings.NewReader(x.get("/robots.txt").body), x.server.URL+"/")
	if err != nil || len(maps) != 1 || maps[0] != x.server.URL+"/resourcelist.xml" {
		t.Errorf("robots.txt leads to %v, %v", maps, err)
	}
}

// Under a public URL with a path everything is below it; the Source Description is
// at the top of the host besides (SRC-12).
func TestPublicURLWithPath(t *testing.T) {
	x := newSite(t, func(o *Options) { o.PublicURL += "books/" })
	x.write(map[string]string{"a.txt": "A"})
	x.build()
	for path, status := range map[string]int{
		"/books/.well-known/resourcesync": 200, "/.well-known/resourcesync": 200, "/robots.txt": 200, "/books/": 200,
		"/books/capabilitylist.xml": 200, "/books/data/a.txt": 200,
		"/capabilitylist.xml": 404, "/data/a.txt": 404, "/": 404, "/books": 404, "/booksdata/a.txt": 404,
	} {
		if got := x.get(path); got.status != status {
			t.Errorf("%s answers %d, want %d", path, got.status, status)
		}
	}
	// As behind a proxy that removes the path: who asks is told.
	if got := x.get("/capabilitylist.xml"); !strings.Contains(got.body, x.server.URL+"/books/") || !strings.Contains(got.body, "the whole path") {
		t.Errorf("a path that is not below the public URL is answered with %q", got.body)
	}
	if _, entries := x.read("/books/resourcelist.xml"); entries[0].Loc != x.server.URL+"/books/data/a.txt" {
		t.Errorf("the resource is at %s", entries[0].Loc)
	}
}

// Several sets have all that one has, each for itself (SRC-01, SRC-15).
func TestSets_SRC01_SRC15(t *testing.T) {
	maps := t.TempDir()
	x := newSite(t, func(o *Options) {
		withHub(o)
		o.Sets[0].Name = "books"
		other := o.Sets[0]
		other.Name, other.Folder.Dir = "maps", maps
		o.Sets = append(o.Sets, other)
	})
	x.write(map[string]string{"a.txt": "A"})
	writeFiles(t, maps, map[string]string{"m.png": "M"})
	x.build()
	_, lists := x.read("/.well-known/resourcesync")
	if len(lists) != 2 {
		t.Fatalf("the Source Description lists %+v", lists)
	}
	topics := make(map[string]bool)
	for i, want := range []string{"books/data/a.txt", "maps/data/m.png"} {
		h, entries := x.read(lists[i].Loc)
		if up, _ := h.Link("up"); up.Href != x.server.URL+"/.well-known/resourcesync" {
			t.Errorf("up of %s is %s", lists[i].Loc, up.Href)
		}
		for _, e := range entries {
			if strings.HasSuffix(e.Capability, "notification") {
				topics[e.Loc] = true
				if got := x.do(http.MethodHead, e.Loc); got.status != http.StatusOK {
					t.Errorf("the topic %s answers %d", e.Loc, got.status)
				}
			}
		}
		_, resources := x.read(entries[0].Loc)
		if len(resources) != 1 || resources[0].Loc != x.server.URL+"/"+want {
			t.Errorf("%s lists %+v", entries[0].Loc, resources)
		}
		if got := x.get(resources[0].Loc); !strings.Contains(got.header.Get("Link"), lists[i].Loc) {
			t.Errorf("%s links to %s", resources[0].Loc, got.header.Get("Link"))
		}
	}
	if len(topics) != 4 {
		t.Errorf("there are the topics %v, want 4", topics)
	}
	for _, path := range []string{"/capabilitylist.xml", "/data/a.txt", "/books", "/other/data/a.txt", "/maps/data/a.txt"} {
		if got := x.get(path); got.status != http.StatusNotFound {
			t.Errorf("%s answers %d", path, got.status)
		}
	}
}

// The wrong options are told, with what to do.
func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	for name, test := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"no URL":           {func(o *Options) { o.PublicURL = "" }, "public URL"},
		"relative URL":     {func(o *Options) { o.PublicURL = "/books" }, "public URL"},
		"URL with query":   {func(o *Options) { o.PublicURL = "https://example.org/?a" }, "public URL"},
		"no state":         {func(o *Options) { o.StateDir = "" }, "StateDir"},
		"no set":           {func(o *Options) { o.Sets = nil }, "no folder"},
		"nothing in a set": {func(o *Options) { o.Sets[0] = Set{} }, "FolderOptions.Dir"},
		"no folder":        {func(o *Options) { o.Sets[0].Folder.Dir = filepath.Join(dir, "none") }, "none"},
		"name of a path":   {func(o *Options) { o.Sets[0].Name = "data" }, `"data"`},
		"name with slash":  {func(o *Options) { o.Sets[0].Name = "a/b" }, `"a/b"`},
		"nameless":         {func(o *Options) { o.Sets = append(o.Sets, Set{Name: "b"}) }, "needs a name"},
		"twice":            {func(o *Options) { o.Sets[0].Name = "b"; o.Sets = append(o.Sets, o.Sets[0]) }, "two sets"},
		"state is folder":  {func(o *Options) { o.StateDir = o.Sets[0].Folder.Dir }, "itself"},
	} {
		o := eager(dir)
		o.PublicURL, o.StateDir = "https://example.org/", t.TempDir()
		test.change(&o)
		s, err := Open(o)
		if err == nil {
			_ = s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCloseTwice(t *testing.T) {
	o := eager(t.TempDir())
	o.PublicURL, o.StateDir = "https://example.org/", t.TempDir()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	if first, second := s.Close(), s.Close(); first != nil || second != nil {
		t.Errorf("%v, then %v", first, second)
	}
}

// The state may lie within the folder, and is no part of it.
func TestStateWithinTheFolder(t *testing.T) {
	x := newSite(t, func(o *Options) { o.StateDir = filepath.Join(o.Sets[0].Folder.Dir, "state") })
	x.write(map[string]string{"a.txt": "A"})
	x.build()
	if _, entries := x.read("/resourcelist.xml"); len(entries) != 1 {
		t.Errorf("the Resource List has %+v", entries)
	}
}

// Another public URL makes all documents anew; what the log still has stays listed.
func TestSiteMoves(t *testing.T) {
	x := newSite(t, withHub)
	x.write(map[string]string{"a.txt": "A"})
	x.build()
	x.write(map[string]string{"b.txt": "B"})
	x.build()
	x.close()
	x.o.PublicURL += "new/"
	x.open()
	x.build()
	_, entries := x.read("/new/resourcelist.xml")
	if len(entries) != 2 || entries[1].Loc != x.server.URL+"/new/data/b.txt" {
		t.Errorf("the Resource List has %+v", entries)
	}
	if _, listed := x.read("/new/changelist.xml"); len(listed) > 1 {
		t.Errorf("the Change List has %+v", listed)
	}
	x.onlyNamed()
	if got := x.do(http.MethodHead, "/new/changes/"); !strings.Contains(got.header.Get("Link"), "<"+x.server.URL+"/new/changes/>; rel=\"self\"") {
		t.Errorf("the topic answers %d, %v", got.status, got.header)
	}
}

// A reader of a document gets all of it even while the next is put in its place.
func TestReaderOfAnOlderDocument(t *testing.T) {
	x := newSite(t, nil)
	x.write(map[string]string{"a.txt": strings.Repeat("A", 1000)})
	x.build()
	_, packages := x.read("/resourcedump.xml")
	old := x.get(packages[0].Loc)
	x.write(map[string]string{"a.txt": "B"})
	x.sets[0].composer.schedule.KeepDumps = 1
	time.Sleep(time.Millisecond) // a dump is due after a nanosecond
	x.build()
	if _, now := x.read("/resourcedump.xml"); now[0].Loc == packages[0].Loc {
		t.Fatal("the dump was not written anew")
	}
	if again := x.get(packages[0].Loc); !bytes.Equal([]byte(again.body), []byte(old.body)) {
		t.Errorf("the package of the older dump answers %d", again.status)
	}
}

// Serving asks nothing of the index, however large it is.
func BenchmarkServeDocument(b *testing.B) {
	x := newSite(b, nil)
	x.write(map[string]string{"a.txt": "A"})
	x.build()
	h := x.Handler()
	for b.Loop() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/resourcelist.xml", http.NoBody))
		if w.Code != http.StatusOK {
			b.Fatal(w.Code)
		}
	}
}

// The Capability List has each document that there is once, and both channels with
// their hubs; it changes with them (SRC-11, DOC-32).
func TestCapabilityList_SRC11_DOC32(t *testing.T) {
	x := newSite(t, withHub)
	x.build()
	h, entries := x.read("/capabilitylist.xml")
	if up, _ := h.Link("up"); up.Href != x.server.URL+"/.well-known/resourcesync" {
		t.Errorf("its up is %s", up.Href)
	}
	channels := make(map[string]string)
	for _, e := range entries {
		if strings.HasSuffix(e.Capability, "-notification") {
			channels[e.Capability] = e.Loc
			if len(e.Links) != 1 || e.Links[0].Rel != "hub" || e.Links[0].Href != "https://hub.example.org/" {
				t.Errorf("%s has the links %+v", e.Loc, e.Links)
			}
			continue
		}
		if got := x.get(e.Loc); got.status != http.StatusOK {
			t.Errorf("%s is listed, and answers %d", e.Loc, got.status)
		}
	}
	if channels[resourcesync.ChangeNotification] != x.server.URL+"/changes/" || channels[resourcesync.FrameworkNotification] != x.server.URL+"/framework/" {
		t.Errorf("the channels are %v", channels)
	}
	x.close()
	x.o.Hubs = append(x.o.Hubs, publisher.Hub{URL: "https://other.example.org/"})
	x.open()
	if _, entries := x.read("/capabilitylist.xml"); len(entries[len(entries)-1].Links) != 2 {
		t.Errorf("with another hub the channel is %+v", entries[len(entries)-1])
	}
	x.close()
	x.o.Hubs = nil
	x.open()
	if _, entries := x.read("/capabilitylist.xml"); strings.HasSuffix(entries[len(entries)-1].Capability, "-notification") {
		t.Error("without hubs there is a channel")
	}
}
