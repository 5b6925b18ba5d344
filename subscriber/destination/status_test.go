package destination_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/destination"
)

// The status tells of held deletions while the copy is followed, and of none when they
// were carried out.
func TestStatusWhileFollowing(t *testing.T) {
	s := newSource(t)
	for i := range 20 {
		s.put(fmt.Sprint("f", i), "body", 0)
	}
	none, err := destination.ParseShare("0")
	if err != nil {
		t.Fatal(err)
	}
	p := followWith(t, s, []string{resourcesync.ResourceList, resourcesync.ChangeList}, func(o *destination.Options) {
		soon(o)
		o.MaxDelete = none // however the changes are divided on a busy machine, all are held
	})
	callback := p.subscribed()
	var gone []resourcesync.Entry
	for i := range 15 {
		gone = append(gone, p.entryOf(fmt.Sprint("f", i), resourcesync.Deleted))
	}
	p.push(callback, gone...)
	for patience := time.Now().Add(within); ; time.Sleep(10 * time.Millisecond) {
		all, err := destination.ReadStatus(filepath.Join(p.dir, ".rssub"))
		if err == nil && len(all) == 1 && all[0].DeletionsHeld == 15 && len(all[0].Held) == 10 && !all[0].BaselineAt.IsZero() && all[0].Set == s.URL+"/capabilitylist.xml" {
			break
		}
		if time.Now().After(patience) {
			t.Fatalf("%v %+v", err, all)
		}
	}
	p.same()
}

// A run counts each resource once, as what became of it in the end, however often it
// comes to it: in the list, in the Change List, and again in what it tries anew. What is
// deleted and never was there is unchanged.
func TestSummaryCountsAFileOnce(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		s.put(name, "first", 0)
	}
	s.freezeList()
	var asked atomic.Int32
	s.set("/data/a", func(w http.ResponseWriter, _ *http.Request) { // it changes between the list and the change
		_, _ = fmt.Fprint(w, []string{"first", "third!"}[min(asked.Add(1)-1, 1)])
	})
	s.put("a", "third!", 20)
	s.put("b", "first", 30)
	s.drop("c", 40)
	s.put("d", "new", 50)
	c := s.open(dir)
	r, err := c.Sync(t.Context())
	if err != nil || r.Copied != 3 || r.Unchanged != 1 || r.Deleted != 0 || r.Failed != 0 || r.Bytes != int64(len("third!")+len("first")+len("new")) {
		t.Errorf("%v %+v", err, r)
	}
	s.same(dir)
	if r, err = c.Sync(t.Context()); err != nil || r.Copied != 0 || r.Deleted != 0 {
		t.Errorf("again: %v %+v", err, r)
	}
}

func TestStatusOfNoFolder(t *testing.T) {
	if all, err := destination.ReadStatus(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) || all != nil {
		t.Errorf("%v %+v", err, all)
	}
}

// The name of a folder is no pattern: the parts of its state are found.
func TestFolderNamedAsAPattern(t *testing.T) {
	for _, name := range []string{"[", "a [1]", "*"} {
		s, dir := newSource(t), filepath.Join(t.TempDir(), name)
		s.put("a", "body", 0)
		c := s.open(dir)
		if _, err := c.Sync(t.Context()); err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		if all, err := destination.ReadStatus(filepath.Join(dir, ".rssub")); err != nil || len(all) != 1 || all[0].Until.IsZero() {
			t.Errorf("%q: %v %+v", name, err, all)
		}
		if err := c.Close(); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}
