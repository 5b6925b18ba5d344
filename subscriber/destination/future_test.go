package destination_test

import (
	"slices"
	"testing"

	"github.com/rshub/rshub/resourcesync"
)

const year = 365 * 24 * 60 * 60 // seconds

// A change that is dated far in the future hides none that comes later, and no audit expects it.
func TestChangeOfTheFuture(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.put("a", "body", 0)
	s.put("gone", "body", 0)
	c := s.open(dir)
	sync := func(copied int) {
		t.Helper()
		if r, err := c.Sync(t.Context()); err != nil || r.Copied != copied || r.Deleted != 0 {
			t.Errorf("%v %+v", err, r)
		}
	}
	s.mu.Lock()
	s.changes = append(s.changes, resourcesync.Entry{Loc: s.URL + "/data/gone", Change: resourcesync.Deleted, Datetime: s.at.AddDate(1, 0, 0)})
	s.mu.Unlock()
	sync(2) // the first baseline does not leave out the resource that will be deleted
	s.put("b", "body", 2*year)
	sync(0)
	s.put("c", "body", 10)
	s.mu.Lock()
	slices.SortFunc(s.changes, func(a, b resourcesync.Entry) int { return a.Datetime.Compare(b.Datetime) })
	s.mu.Unlock()
	sync(1)
	if got := read(dir, "c"); got != "body" {
		t.Errorf("%q", got)
	}
	s.mu.Lock()
	delete(s.files, "b") // the list does not have it yet
	s.mu.Unlock()
	if a, err := c.Audit(t.Context(), false); err != nil || !a.InSync {
		t.Errorf("%v %+v", err, a)
	}
}

// The same of a package of a Change Dump.
func TestPackageOfTheFuture(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	d := dumpsChanges(s)
	s.put("a", "first", 0)
	s.freezeList()
	c := s.open(dir)
	if _, err := c.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.add(0, year, change{10, "a", "second"}, change{year, "b", "body"})
	if r, err := c.Sync(t.Context()); err != nil || !r.InSync() || r.Copied != 2 {
		t.Errorf("%v %+v", err, r)
	}
	d.add(3500, 7200, change{3700, "a", "third"}) // since now
	if r, err := c.Sync(t.Context()); err != nil || !r.InSync() || r.Copied != 1 {
		t.Errorf("%v %+v", err, r)
	}
	s.same(dir)
}
