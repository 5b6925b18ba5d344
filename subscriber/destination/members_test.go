package destination_test

import (
	"maps"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/destination"
)

// then has sets say something of a resource a second later; with a body its bytes are these.
func (h *history) then(name, body, change string, sets ...*historySet) {
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

// LNK-11: a state of before sets were kept for each resource has their lists read again
// once. No file is fetched again.
func TestStateWithoutMembers_LNK11(t *testing.T) {
	h, dir := emptyHistory(t), t.TempDir()
	defer h.Close()
	a, b := h.add("timed", true), h.add("timed", true)
	h.then("x", "of both", resourcesync.Created, a, b)
	h.newList(a)
	h.newList(b)
	h.then("z", "of both, later", resourcesync.Created, a, b)
	c := h.open(dir)
	if r, err := c.Sync(t.Context()); err != nil || !r.InSync() || r.Copied != 2 {
		t.Fatalf("%v %+v", err, r)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(filepath.Join(dir, ".rssub", "copy.db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		if err := tx.DeleteBucket([]byte("members")); err != nil {
			return err
		}
		return tx.Bucket([]byte("meta")).Put([]byte("format"), []byte("1"))
	})
	if err != nil || db.Close() != nil {
		t.Fatal(err)
	}
	c = h.open(dir)
	if r, err := c.Sync(t.Context()); err != nil || !r.InSync() || r.Copied+r.Deleted != 0 {
		t.Fatalf("%v %+v", err, r)
	}
	for _, s := range h.sets { // whichever the files were recorded for
		for _, name := range []string{"x", "z"} {
			h.then(name, "", resourcesync.Deleted, s)
		}
		if r, err := c.Sync(t.Context()); err != nil || !r.InSync() {
			t.Fatalf("%v %+v", err, r)
		}
		if got := h.copied(dir); !maps.Equal(got, h.files) {
			t.Errorf("the copy has %v, the Source %v", got, h.files)
		}
	}
}
