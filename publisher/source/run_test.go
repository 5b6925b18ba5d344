package source

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rshub/rshub/publisher"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/websub"
)

// hub takes every notification, as long as they follow each other.
type hub struct {
	t      testing.TB
	server *httptest.Server

	mu     sync.Mutex
	until  map[string]time.Time            // by topic
	taken  map[string][]resourcesync.Entry // by topic
	bodies [][]byte
}

func newHub(t testing.TB) *hub {
	h := &hub{t: t, until: make(map[string]time.Time), taken: make(map[string][]resourcesync.Entry)}
	h.server = httptest.NewServer(h)
	t.Cleanup(h.server.Close)
	return h
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	links := websub.ParseLinks(r.Header.Values("Link"))
	self := websub.Targets(links, websub.RelSelf)
	if err != nil || len(self) != 1 {
		h.t.Errorf("a POST with the links %v: %v", r.Header.Values("Link"), err)
		http.Error(w, "", http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if slices.ContainsFunc(h.bodies, func(b []byte) bool { return bytes.Equal(b, body) }) {
		return // sent again by one that did not hear the 200
	}
	n, err := resourcesync.CheckNotification(bytes.NewReader(body), resourcesync.DefaultLimits)
	if err != nil {
		h.t.Errorf("%v\n%s", err, body)
	}
	if until, ok := h.until[self[0]]; ok && !n.From.Equal(until) {
		h.t.Errorf("%s: an interval begins at %v, and the one before it ends at %v", self[0], n.From, until)
	}
	h.until[self[0]] = n.Until
	_, entries := readDocument(h.t, self[0], string(body))
	h.taken[self[0]] = append(h.taken[self[0]], entries...)
	h.bodies = append(h.bodies, body)
	w.WriteHeader(http.StatusOK)
}

// of returns what came on a topic.
func (h *hub) of(topic string) []resourcesync.Entry {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.taken[topic])
}

// eventually waits until check is content.
func eventually(t testing.TB, what string, check func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !check(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// run runs the site until the returned function is called.
func (x *site) run() (stop func()) {
	ctx, cancel := context.WithCancel(x.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- x.Run(ctx) }()
	return func() {
		x.t.Helper()
		cancel()
		if err := <-ended; err != nil {
			x.t.Error(err)
		}
	}
}

// A change of a file is pushed, and is in the Change List; the baseline is not. New
// documents are told of on the framework channel, those under an index with it
// (SRC-01, SRC-06, SRC-15, DOC-20). A restart repeats and misses nothing.
func TestChangesArePushed_SRC01_SRC06_SRC15_DOC20(t *testing.T) {
	h := newHub(t)
	var mu sync.Mutex
	var recorded []Change
	var posted []publisher.Posted
	built := make(map[string]bool)
	x := newSite(t, func(o *Options) {
		o.Hubs = []publisher.Hub{{URL: h.server.URL + "/"}}
		o.Every, o.Schedule.RotateAt = time.Millisecond, 2
		o.Sets[0].Folder.Settle, o.Sets[0].Folder.Patience = 10*time.Millisecond, 0
		o.Hooks = Hooks{
			Recorded: func(_ string, c []Change) { mu.Lock(); recorded = append(recorded, c...); mu.Unlock() },
			Posted:   func(_ string, p publisher.Posted) { mu.Lock(); posted = append(posted, p); mu.Unlock() },
			Built: func(_ string, urls []string) {
				mu.Lock()
				defer mu.Unlock()
				for _, u := range urls {
					built[u] = true
				}
			},
		}
	})
	x.write(map[string]string{"a": "1", "b": "1"})
	stop := x.run()
	url := func(path string) string { return x.server.URL + path }
	eventually(t, "there is no Resource List", func() bool { return x.get("/resourcelist.xml").status == 200 })
	// Of one that is hashed between two writes, or has just changed when a dump is
	// written, there is more than one change.
	last := func(path string) (e resourcesync.Entry) {
		for _, c := range h.of(url("/changes/")) {
			if c.Loc == url("/data/"+path) {
				e = c
			}
		}
		return e
	}
	for _, path := range []string{"c", "d", "e"} {
		x.write(map[string]string{path: "1"})
		eventually(t, path+" is not pushed", func() bool { return last(path).Length == 1 })
	}
	stop()
	x.close()

	// While it is down.
	x.write(map[string]string{"a": "two"})
	if err := os.Remove(filepath.Join(x.dir, "b")); err != nil {
		t.Fatal(err)
	}
	x.open()
	stop = x.run()
	eventually(t, "what changed meanwhile is not pushed", func() bool { return last("a").Length == 3 && last("b").Change == resourcesync.Deleted })
	eventually(t, "the Change Dump was not told of", func() bool {
		return slices.ContainsFunc(h.of(url("/framework/")), func(e resourcesync.Entry) bool { return e.Capability == resourcesync.ChangeDumpArchive })
	})
	// They are not read while they are written: an open one may be closed in between.
	eventually(t, "what was pushed is not in the Change Lists", func() bool {
		return x.sets[0].shelf.current().History.Last == uint64(len(h.of(url("/changes/"))))
	})
	stop()

	_, listed := x.changes(x.lists())
	pushed := h.of(url("/changes/"))
	mu.Lock()
	defer mu.Unlock()
	if len(pushed) < 5 || len(listed) != len(pushed) || len(recorded) != len(pushed) {
		t.Fatalf("%d changes were recorded, %d pushed, and %d are listed", len(recorded), len(pushed), len(listed))
	}
	for i := range listed {
		r, l, p := recorded[i], listed[i], pushed[i]
		if r.Seq != uint64(i+1) || l.Loc != url("/data/"+r.Resource.Path) || l.Loc != p.Loc || l.Change != p.Change || l.Hash != p.Hash || !l.Datetime.Equal(p.Datetime) {
			t.Errorf("change %d was recorded as %+v, pushed as %+v and is listed as %+v", i+1, r, p, l)
		}
	}
	x.checkFramework(h.of(url("/framework/")))
	if len(posted) == 0 || !built[url("/changelist.xml")] || !built[url("/resourcedump.xml")] {
		t.Errorf("the hooks were told of %d POSTs and %v", len(posted), built)
	}
	if got := x.get("/changes/"); got.status != 200 || !strings.Contains(got.body, "change-notification") {
		t.Errorf("the topic answers %d, %q", got.status, got.body)
	}
}

// checkFramework checks what came on the framework channel.
func (x *site) checkFramework(told []resourcesync.Entry) {
	x.t.Helper()
	seen := make(map[string]string)
	for _, e := range told {
		seen[e.Capability] = e.Loc
		index := resourcesync.Head{Links: e.Links}
		l, under := index.Link("index")
		if part := strings.Contains(e.Loc, "changelist-") && e.Capability == resourcesync.ChangeList; part != under || under && l.Href != x.server.URL+"/changelist-index.xml" {
			x.t.Errorf("%s was told of with the links %v", e.Loc, e.Links)
		}
	}
	for capability, path := range map[string]string{
		resourcesync.Description: "/.well-known/resourcesync", resourcesync.CapabilityList: "/capabilitylist.xml",
		resourcesync.ResourceList: "/resourcelist.xml", resourcesync.ResourceDump: "/resourcedump.xml", resourcesync.ChangeDump: "/changedump.xml",
		resourcesync.ResourceListArchive: "/resourcelist-archive.xml", resourcesync.ResourceDumpArchive: "/resourcedump-archive.xml",
		resourcesync.ChangeListArchive: "/changelist-archive.xml", resourcesync.ChangeDumpArchive: "/changedump-archive.xml",
	} {
		if seen[capability] != x.server.URL+path {
			x.t.Errorf("of the %s it was told %q", capability, seen[capability])
		}
	}
	if seen[resourcesync.ChangeList] == "" {
		x.t.Error("no Change List was told of")
	}
}

// A Source that has nothing to do reads and writes nothing.
func TestIdle(t *testing.T) {
	x := newSite(t, nil)
	x.write(map[string]string{"a": "1"})
	x.build()
	before := x.sets[0].shelf.current()
	x.build()
	if now := x.sets[0].shelf.current(); now != before {
		t.Error("documents were written though nothing changed")
	}
}

// Documents are replaced in a static export each after those that it names; what
// the one before had stays until the next.
func TestExport(t *testing.T) {
	x := newSite(t, func(o *Options) { o.Schedule.Linger = -1 })
	out := t.TempDir()
	files := http.FileServer(http.Dir(out))
	static := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path, ok := strings.CutPrefix(r.URL.Path, "/data/"); ok {
			http.ServeFile(w, r, filepath.Join(x.dir, path))
			return
		}
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(static.Close)
	x.close()
	x.o.PublicURL = static.URL + "/"
	x.open()
	x.sets[0].composer.limits = resourcesync.WriteOptions{MaxEntries: 2}
	x.write(map[string]string{"a": "1", "b": "1", "c": "1"})
	export := func() []resourcesync.Entry {
		t.Helper()
		x.build()
		if err := x.Export(out); err != nil {
			t.Fatal(err)
		}
		_, parts := x.read(static.URL + "/resourcelist.xml")
		for _, p := range parts {
			if _, entries := x.read(p.Loc); len(entries) == 0 {
				t.Errorf("%s is empty", p.Loc)
			}
		}
		return parts
	}
	first := export()
	x.write(map[string]string{"d": "1"})
	export()
	if got := x.get(first[0].Loc); got.status != 200 {
		t.Errorf("a part of the export before answers %d", got.status)
	}
	x.write(map[string]string{"e": "1"})
	export()
	if got := x.get(first[0].Loc); got.status != 404 {
		t.Errorf("a part of the export before the last answers %d", got.status)
	}
	if got := x.get(static.URL + "/.well-known/resourcesync"); got.status != 200 {
		t.Errorf("the Source Description answers %d", got.status)
	}
	if info, err := os.Stat(filepath.Join(out, "resourcelist.xml")); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("the Resource List can be read by its owner alone: %v, %v", info, err)
	}
	if _, err := os.Stat(filepath.Join(out, "resourcelist.xml.gz")); err != nil {
		t.Error(err)
	}
}

// An index that is lost is begun anew, and what changes then is published: no number
// that it gives a change is taken for one that was published before.
func TestIndexIsLost(t *testing.T) {
	h := newHub(t)
	x := newSite(t, func(o *Options) {
		o.Hubs, o.Every = []publisher.Hub{{URL: h.server.URL + "/"}}, time.Millisecond
	})
	x.build()
	pushed := func(files map[string]string) {
		t.Helper()
		before := len(h.of(x.server.URL + "/changes/"))
		x.write(files)
		x.build()
		x.step(onRing(x.sets[0].feed))
		stop := x.run()
		eventually(t, "what changed is not pushed", func() bool { return len(h.of(x.server.URL+"/changes/")) == before+len(files) })
		stop()
	}
	pushed(map[string]string{"a": "1", "b": "1", "c": "1"})
	x.close()
	if err := os.RemoveAll(filepath.Join(x.o.StateDir, "index")); err != nil {
		t.Fatal(err)
	}
	x.open()
	x.build()
	pushed(map[string]string{"d": "1"})
	x.close()
	x.open()
	pushed(map[string]string{"e": "1", "a": "2"})
	if _, listed := x.changes(x.lists()); len(listed) != 3 {
		t.Errorf("%d changes are listed since the index was lost, want 3", len(listed))
	}
}

// That an index was begun anew is logged once, and no start after it says that more is missing. Nor is a real loss logged at
// each start.
func TestWhatIsMissingIsLoggedOnce(t *testing.T) {
	h := newHub(t)
	log := &lockedBuffer{}
	x := newSite(t, func(o *Options) {
		o.Hubs, o.Every = []publisher.Hub{{URL: h.server.URL + "/"}}, time.Millisecond
		o.Log = slog.New(slog.NewTextHandler(log, nil))
	})
	x.write(map[string]string{"a": "1"})
	x.build()
	x.write(map[string]string{"a": "2", "b": "1"})
	x.build()
	x.step(onRing(x.sets[0].feed))
	starts := func(what string, begun, lost int) {
		t.Helper()
		for range 3 {
			x.open()
			x.build()
			x.step(onRing(x.sets[0].feed))
			x.close()
		}
		x.open()
		got := func(event string) int { return strings.Count(log.String(), "event="+event+" ") }
		if got("index_begun_anew") != begun || got("changes_lost") != lost {
			t.Errorf("%s: index_begun_anew is logged %d times, want %d, and changes_lost %d times, want %d", what, got("index_begun_anew"), begun, got("changes_lost"), lost)
		}
	}
	x.close()
	if err := os.RemoveAll(filepath.Join(x.o.StateDir, "index")); err != nil {
		t.Fatal(err)
	}
	starts("after the index was lost", 1, 0)

	x.write(map[string]string{"a": "3"})
	x.build()
	last := x.sets[0].index.state().last
	if _, err := x.sets[0].index.Prune(Cut{Before: time.UnixMicro(last.at + 1), Through: last.seq}); err != nil {
		t.Fatal(err)
	}
	x.close()
	starts("after the log lost a change that the outbox lacks", 1, 1)
}
