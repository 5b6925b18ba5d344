package destination_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/destination"
)

// A list that is suddenly empty deletes nothing, also when the deletions are tried again while the list cannot be read, and
// when an audit repairs the copy.
func TestSuddenlyEmptyListDeletesNothing(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.offers = []string{resourcesync.ResourceList}
	s.put("a", "body of a", 0)
	s.put("b/c", "body of c", 0)
	c := s.open(dir)
	if r, err := c.Sync(t.Context()); err != nil || r.Copied != 2 {
		t.Fatalf("%v %+v", err, r)
	}
	empty := answer(document("urlset", "resourcelist", ""))
	s.set("/resourcelist.xml", empty)
	if r, err := c.Sync(t.Context()); err != nil || r.Held != 2 {
		t.Errorf("%v %+v", err, r)
	}
	s.same(dir)
	s.set("/resourcelist.xml", http.NotFound)
	if r, err := c.Sync(t.Context()); err == nil || r.Held != 2 || r.Deleted != 0 {
		t.Errorf("the list is away: %v %+v", err, r)
	}
	s.same(dir)
	s.set("/resourcelist.xml", empty)
	if a, err := c.Audit(t.Context(), true); err != nil || a.InSync || a.Repaired == nil || a.Repaired.Held != 2 || a.Repaired.Deleted != 0 {
		t.Errorf("%v %+v", err, a)
	}
	s.same(dir)
	_ = c.Close()
	c = s.open(dir, func(o *destination.Options) { o.MaxDelete = destination.Share{N: 2} })
	s.set("/resourcelist.xml", http.NotFound)
	if r, err := c.Sync(t.Context()); err == nil || r.Deleted != 2 {
		t.Errorf("the deletions are allowed: %v %+v", err, r)
	}
}

// A Source that moves to another Capability List, whose Resource List is empty, deletes nothing either.
func TestSuddenlyEmptySetDeletesNothing(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.offers = []string{resourcesync.ResourceList}
	s.put("a", "body of a", 0)
	s.put("b/c", "body of c", 0)
	c := s.open(dir)
	if r, err := c.Sync(t.Context()); err != nil || r.Copied != 2 {
		t.Fatalf("%v %+v", err, r)
	}
	entry := func(path, capability string) string {
		return fmt.Sprintf(`<url><loc>%s%s</loc><rs:md capability="%s"/></url>`, s.URL, path, capability)
	}
	s.set("/.well-known/resourcesync", answer(document("urlset", "description", entry("/new/capabilitylist.xml", "capabilitylist"))))
	s.set("/new/capabilitylist.xml", answer(document("urlset", "capabilitylist", entry("/new/resourcelist.xml", "resourcelist"))))
	s.set("/new/resourcelist.xml", answer(document("urlset", "resourcelist", "")))
	for range 2 {
		if r, err := c.Sync(t.Context()); err != nil || r.Held != 2 || r.Deleted != 0 {
			t.Errorf("%v %+v", err, r)
		}
		s.same(dir)
	}
	_ = c.Close()
	c = s.open(dir, func(o *destination.Options) { o.MaxDelete = destination.Share{N: 2} })
	if r, err := c.Sync(t.Context()); err != nil || r.Deleted != 2 {
		t.Errorf("the deletions are allowed: %v %+v", err, r)
	}
}

// Changes that the Source still lists, of resources that are gone, do not make an empty list a full one.
func TestSuddenlyEmptyListWithChanges(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.put("a", "body of a", 0)
	s.put("b", "body of b", 0)
	c := s.open(dir)
	if r, err := c.Sync(t.Context()); err != nil || r.Copied != 2 {
		t.Fatalf("%v %+v", err, r)
	}
	_ = c.Close()
	s.set("/resourcelist.xml", func(w http.ResponseWriter, _ *http.Request) {
		s.write(w, resourcesync.Head{Capability: resourcesync.ResourceList, At: s.at, Links: []resourcesync.Link{{Rel: "up", Href: s.URL + "/capabilitylist.xml"}}})
	})
	s.put("c", "body of c", 10)
	c = s.open(dir, func(o *destination.Options) { o.Select = &destination.Selection{Include: []string{s.URL + "/data/*"}} }) // another selection makes a new baseline
	if r, err := c.Sync(t.Context()); err != nil || r.Held != 2 {
		t.Errorf("%v %+v", err, r)
	}
	s.same(dir)
}

// Changes are carried out in batches, and the deletions of all batches together must be allowed.
func TestDeletionsOfAllBatchesAreHeld(t *testing.T) {
	const files, gone = 1010, 1006
	s, dir := newSource(t), t.TempDir()
	for i := range files {
		s.put(fmt.Sprint(i), "body", 0)
	}
	c := s.open(dir, func(o *destination.Options) { o.MaxDelete, o.Parallel = destination.Share{N: gone - 1}, 32 })
	if r, err := c.Sync(t.Context()); err != nil || r.Copied != files {
		t.Fatalf("%v %+v", err, r)
	}
	for i := range gone {
		s.drop(fmt.Sprint(i), i+1)
	}
	if r, err := c.Sync(t.Context()); err != nil || r.Deleted != 0 || r.Held != gone {
		t.Errorf("%v: %d deleted, %d held", err, r.Deleted, r.Held)
	}
	_ = c.Close()
	c = s.open(dir, func(o *destination.Options) { o.MaxDelete = destination.Share{N: gone} })
	if r, err := c.Sync(t.Context()); err != nil || r.Deleted != gone {
		t.Errorf("%v: %d deleted, %d held", err, r.Deleted, r.Held)
	}
	s.same(dir)
}

// The deletions of a notification are held or carried out as a whole, although its changes are carried out in batches.
func TestPushedDeletionsAreHeldAsAWhole(t *testing.T) {
	const files, gone = 1010, 1006
	var deleted, held atomic.Int32
	s := newSource(t)
	for i := range files {
		s.put(fmt.Sprint(i), "body", 0)
	}
	p := followWith(t, s, []string{resourcesync.ResourceList, resourcesync.ChangeList}, func(o *destination.Options) {
		o.MaxDelete, o.Parallel = destination.Share{N: gone - 2}, 32
		o.Event = func(e destination.Event) {
			switch e.What {
			case destination.Deleted:
				deleted.Add(1)
			case destination.HeldBack:
				held.Add(1)
			}
		}
	})
	callback := p.subscribed()
	var all []resourcesync.Entry
	for i := range gone {
		all = append(all, p.entryOf(fmt.Sprint(i), resourcesync.Deleted))
	}
	p.push(callback, all...)
	eventually(t, "all are held or deleted", func() bool { return held.Load()+deleted.Load() >= gone })
	if n := deleted.Load(); n != 0 {
		t.Errorf("%d of %d were deleted", n, gone)
	}
	p.push(callback, p.entryOf(fmt.Sprint(files-1), resourcesync.Deleted))
	eventually(t, "one that comes alone is deleted", func() bool { return deleted.Load() > 0 })
}
