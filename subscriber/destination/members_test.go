package destination_test

import (
	"bytes"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/destination"
)

// then has sets say something of a resource a second later; with a body its bytes are these.
func (h *history) then(name, body string, change resourcesync.ChangeType, sets ...*historySet) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock = h.clock.Add(time.Second)
	if body != "" {
		h.served[name], h.lastMod[name] = body, h.clock
	}
	for _, s := range sets {
		h.tell(s, name, change)
	}
	h.settle()
}

// LNK-11: deletions that are held back, and sets that list a resource meanwhile. A
// deletion by one of two sets uses up nothing of the share; one by the last does, and
// what a set lists again stays.
func TestHeldDeletionOfTwoSets_LNK11(t *testing.T) {
	h, dir := emptyHistory(t), t.TempDir()
	defer h.Close()
	a, b := h.add("timed", true), h.add("timed", true)
	h.then("x", "of both", resourcesync.Created, a, b)
	h.then("y", "of a", resourcesync.Created, a)
	none, err := destination.ParseShare("0")
	if err != nil {
		t.Fatal(err)
	}
	c := h.open(dir, func(o *destination.Options) { o.MaxDelete = none })
	sync := func(held int, want map[string]string) {
		t.Helper()
		if r, err := c.Sync(t.Context()); err != nil || r.Held != held || r.Failed != 0 {
			t.Fatalf("%v %+v, want %d held", err, r, held)
		}
		if got := h.copied(dir); !maps.Equal(got, want) {
			t.Errorf("the copy has %v, want %v", got, want)
		}
	}
	both := map[string]string{"x": "of both", "y": "of a"}
	sync(0, both)
	h.then("x", "", resourcesync.Deleted, a)
	sync(0, both)
	if r, err := c.Audit(t.Context(), false); err != nil || !r.InSync || r.Equal != 2 {
		t.Errorf("%v %+v", err, r)
	}
	h.then("x", "", resourcesync.Deleted, b)
	sync(1, both)
	sync(1, both) // it is tried again
	h.then("x", "", resourcesync.Created, a)
	sync(0, both)
	h.then("x", "", resourcesync.Deleted, a)
	sync(1, both)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c = h.open(dir, func(o *destination.Options) { o.MaxDelete = destination.Share{Part: 1} })
	sync(0, map[string]string{"y": "of a"})
}

// LNK-11: what a list says of an earlier state does not count as long as another set describes a later one, however often it is
// read. It counts in the sync in which that set drops the resource.
func TestEarlierStateCountsWhenTheLaterIsGone_LNK11(t *testing.T) {
	h, dir := emptyHistory(t), t.TempDir()
	defer h.Close()
	list, changes := h.add("none", true), h.add("timed", true)
	c := h.open(dir, func(o *destination.Options) { o.MaxDelete = destination.Share{Part: 1} })
	sync := func(want string) {
		t.Helper()
		if r, err := c.Sync(t.Context()); err != nil || r.Failed+r.Held != 0 {
			t.Fatalf("%v %+v", err, r)
		}
		if got := h.copied(dir)["x"]; got != want {
			t.Errorf("the copy has %q, want %q", got, want)
		}
	}
	h.then("x", "first", resourcesync.Created, list, changes)
	sync("first")
	stale := list.list
	h.then("x", "second", resourcesync.Updated, changes)
	h.mu.Lock()
	list.list = stale
	h.mu.Unlock()
	for range 3 {
		sync("second")
	}
	h.then("x", "", resourcesync.Deleted, changes)
	h.mu.Lock()
	h.served["x"], h.lastMod["x"] = "third", h.clock.AddDate(-1, 0, 0)
	h.newList(list)
	h.mu.Unlock()
	sync("third")
	if r, err := c.Audit(t.Context(), false); err != nil || !r.InSync || r.Equal != 1 {
		t.Errorf("%v %+v", err, r)
	}
}

// LNK-11: the deletion of a resource that is pushed for one set leaves it in the copy
// where another set lists it.
func TestPushedDeletionOfTwoSets_LNK11(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.put("x", "of both", 0)
	up := func(to string) []resourcesync.Link { return []resourcesync.Link{{Rel: "up", Href: s.URL + to}} }
	s.set("/b/capabilitylist.xml", func(w http.ResponseWriter, _ *http.Request) {
		s.write(w, resourcesync.Head{Capability: resourcesync.CapabilityList, Links: up("/.well-known/resourcesync")},
			resourcesync.Entry{Loc: s.URL + "/b/resourcelist.xml", Capability: resourcesync.ResourceList})
	})
	s.set("/b/resourcelist.xml", func(w http.ResponseWriter, _ *http.Request) {
		s.write(w, resourcesync.Head{Capability: resourcesync.ResourceList, At: s.at, Links: up("/b/capabilitylist.xml")}, s.entry("x", ""))
	})
	c := s.open(dir, func(o *destination.Options) { o.Source = s.URL + "/b/capabilitylist.xml" })
	if r, err := c.Sync(t.Context()); err != nil || r.Copied != 1 {
		t.Fatalf("%v %+v", err, r)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	s.put("y", "of one", 0)
	p := followIn(t, s, dir, []string{resourcesync.ResourceList, resourcesync.ChangeList}, nil)
	callback := p.subscribed()
	deleted := func(name string) resourcesync.Entry {
		return resourcesync.Entry{Loc: s.URL + "/data/" + name, Change: resourcesync.Deleted}
	}
	id := p.push(callback, deleted("x"), deleted("y"))
	p.happens(destination.Deleted, "y", id)
	if got := read(dir, "x"); got != "of both" {
		t.Errorf("the copy has %q", got)
	}
}

// LNK-11: a change of one set that could not be had is tried again, though the list of
// another set, which is older, describes what the copy has. That list says nothing of a
// resource that is not there either.
func TestFailureOutlivesAnOlderList_LNK11(t *testing.T) {
	h, dir := emptyHistory(t), t.TempDir()
	defer h.Close()
	a, b := h.add("timed", true), h.add("none", true)
	h.then("x", "version 1", resourcesync.Created, a, b)
	h.then("y", "version 1", resourcesync.Created, a, b)
	c := h.open(dir)
	sync := func(copied, failed int, x, y string) {
		t.Helper()
		r, err := c.Sync(t.Context())
		if err != nil || r.Copied != copied || r.Failed != failed {
			t.Errorf("%v %+v, want %d copied and %d failed", err, r, copied, failed)
		}
		if got := h.copied(dir); got["x"] != x || got["y"] != y {
			t.Errorf("the copy has %v", got)
		}
	}
	serve := func(body string) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.served["x"], h.served["y"] = body, body
	}
	sync(2, 0, "version 1", "version 1")
	h.mu.Lock()
	h.clock = h.clock.Add(time.Second)
	for _, name := range []string{"x", "y"} {
		h.served[name], h.lastMod[name] = "version 2", h.clock
		h.tell(a, name, resourcesync.Updated)
	}
	h.mu.Unlock()
	if err := os.Remove(filepath.Join(dir, "y")); err != nil {
		t.Fatal(err)
	}
	serve("what nobody describes")
	sync(0, 2, "version 1", "")
	sync(0, 2, "version 1", "")
	serve("version 2")
	sync(2, 0, "version 2", "version 2")
	if r, err := c.Audit(t.Context(), false); err != nil || !r.InSync {
		t.Errorf("%v %+v", err, r)
	}
}

// LNK-11: what two sets deleted by pushes alone stays away, though the lists of both are
// older and still have it; what one did stays.
func TestPushedDeletionsWithoutChangeLists_LNK11(t *testing.T) {
	s := newSource(t)
	for _, name := range []string{"both", "one", "other"} {
		s.put(name, "of both sets", 0)
	}
	s.freezeList()
	s.set("/.well-known/resourcesync", func(w http.ResponseWriter, _ *http.Request) {
		s.write(w, resourcesync.Head{Capability: resourcesync.Description},
			resourcesync.Entry{Loc: s.URL + "/capabilitylist.xml", Capability: resourcesync.CapabilityList},
			resourcesync.Entry{Loc: s.URL + "/b/capabilitylist.xml", Capability: resourcesync.CapabilityList})
	})
	twin := func(path string) { // the second set is as the first, but for its addresses
		s.set("/b"+path, func(w http.ResponseWriter, r *http.Request) {
			s.mu.Lock()
			of := s.override[path]
			s.mu.Unlock()
			first := httptest.NewRecorder()
			of(first, r)
			for _, name := range []string{"/capabilitylist.xml", "/resourcelist.xml", "/changes/"} {
				first.Body = bytes.NewBuffer(bytes.ReplaceAll(first.Body.Bytes(), []byte(s.URL+name), []byte(s.URL+"/b"+name)))
				w.Header().Set("Link", strings.ReplaceAll(first.Header().Get("Link"), s.URL+name, s.URL+"/b"+name))
			}
			_, _ = w.Write(first.Body.Bytes())
		})
	}
	for _, path := range []string{"/capabilitylist.xml", "/resourcelist.xml", "/changes/"} {
		twin(path)
	}
	p := followWith(t, s, []string{resourcesync.ResourceList}, func(o *destination.Options) { soon(o); o.CheckEvery = 20 * time.Millisecond })
	for _, name := range []string{"both", "one", "other"} {
		p.happens(destination.Copied, name, "")
	}
	start, callbacks := p.until, []string{p.subscribed(), p.subscribed()}
	gone := func(name string) resourcesync.Entry {
		return resourcesync.Entry{Loc: s.URL + "/data/" + name, Change: resourcesync.Deleted}
	}
	s.put("new", "of one set", 0)
	p.happens(destination.Copied, "new", p.push(callbacks[0], gone("one"), gone("both"), p.entryOf("new", resourcesync.Created)))
	p.until = start // of the other topic
	p.happens(destination.Deleted, "both", p.push(callbacks[1], gone("other"), gone("both")))
	for _, list := range []string{"/resourcelist.xml", "/b/resourcelist.xml"} {
		for n, patience := p.asked(list), time.Now().Add(within); p.asked(list) < n+3; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(patience) {
				t.Fatalf("%s is not asked again", list)
			}
		}
	}
	s.mu.Lock()
	delete(s.files, "both")
	s.mu.Unlock()
	p.same()
}

// LNK-11: a set that is gone holds back nothing. What another set says of its resources counts, also with an earlier
// time of modification.
func TestSetThatIsGoneIsNotLater_LNK11(t *testing.T) {
	h, dir := emptyHistory(t), t.TempDir()
	defer h.Close()
	a, b := h.add("timed", true), h.add("none", true)
	h.then("x", "of a", resourcesync.Created, a)
	c := h.open(dir)
	sync := func(want string) {
		t.Helper()
		if r, err := c.Sync(t.Context()); err != nil || !r.InSync() {
			t.Fatalf("%v %+v", err, r)
		}
		if got := h.copied(dir); got["x"] != want {
			t.Errorf("the copy has %v", got)
		}
	}
	sync("of a")
	h.then("x", "of b", resourcesync.Created, b)
	h.mu.Lock()
	h.lastMod["x"] = h.clock.AddDate(-1, 0, 0)
	a.away = true
	h.settle()
	h.mu.Unlock()
	sync("of b")
	sync("of b")
}
