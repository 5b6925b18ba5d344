package source

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/publisher"
	"github.com/rshub/rshub/resourcesync"
)

// index is the folder of the index.
func (x *site) indexDir() string { return filepath.Join(x.o.StateDir, "index") }

// restored closes the site, puts an index in the place of its own, or none, and does something while it is down.
func (x *site) restored(backup string, meanwhile func()) {
	x.t.Helper()
	x.close()
	err := os.RemoveAll(x.indexDir())
	if err == nil && backup != "" {
		err = os.CopyFS(x.indexDir(), os.DirFS(backup))
	}
	if err != nil {
		x.t.Fatal(err)
	}
	meanwhile()
	x.open()
}

// backup returns a copy of the index, made while the site is down.
func (x *site) backup() (dir string) {
	x.t.Helper()
	x.close()
	dir = x.t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(x.indexDir())); err != nil {
		x.t.Fatal(err)
	}
	x.open()
	return dir
}

// An index that is new, or comes from a backup, lacks changes that were published: all that says what changed
// begins after them, also if the index has got as many changes as it lacks, with and without a hub. DOC-39, MEM-01.
func TestIndexFromABackup_DOC39_MEM01(t *testing.T) {
	for name, lost := range map[string]struct {
		backup, published bool // an older index is in the place of the newer one; something was published before
		alone             bool // the next run is without a hub
	}{
		"from a backup":                   {backup: true, published: true},
		"from a backup, without a hub":    {backup: true, published: true, alone: true},
		"moved away":                      {published: true},
		"moved away, without a hub":       {published: true, alone: true},
		"moved away before any change":    {},
		"moved away, alone, but for none": {alone: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newBubble(t, withHub)
				build := func() { time.Sleep(time.Second); x.build() }
				feed := func() {
					if x.sets[0].changes != nil {
						x.step(onRing(x.sets[0].feed))
					}
				}
				x.write(map[string]string{"a": "1", "b": "1"})
				build()
				if lost.published {
					x.write(map[string]string{"c": "1"})
					build()
					feed()
				}
				backup := x.backup()
				if lost.published {
					x.write(map[string]string{"post1": "1", "d": "1"})
					build()
					feed()
				}
				asked := time.Now()
				if !lost.backup {
					backup = ""
				}
				recorded := x.sets[0].changes.Recorded()
				hubs := x.o.Hubs
				if lost.alone {
					x.o.Hubs = nil
				}
				x.restored(backup, func() {
					time.Sleep(time.Second)
					if err := os.RemoveAll(filepath.Join(x.dir, "post1")); err != nil {
						t.Fatal(err)
					}
				})
				more := map[string]string{"e": "1", "f": "1", "g": "1", "h": "1"}
				if lost.backup {
					x.write(more)
					build() // as many changes as the index lacks, and more
				} else {
					build()
					x.write(more)
					build()
				}
				from, listed := x.changes(x.lists())
				if !from.After(asked) || len(listed) < len(more) {
					t.Errorf("the lists begin at %v with %d changes, and the index was lost after %v", from, len(listed), asked)
				}
				if got := x.get(sinceURL(asked)); !lost.alone && got.status != http.StatusGone {
					t.Errorf("what changed since before the index was lost: %d", got.status)
				}
				for _, e := range x.entriesOf("/resourcelist.xml") {
					if filepath.Base(e.Loc) == "post1" {
						t.Error("what is gone is in the Resource List")
					}
				}
				x.close()
				x.o.Hubs = hubs
				x.open()
				feed()
				if n := x.sets[0].changes.Status().Queued; x.sets[0].changes.Recorded() < recorded+uint64(len(more)) || n < len(more) {
					t.Errorf("changes up to %d were recorded, %d before the index was lost, and %d are queued", x.sets[0].changes.Recorded(), recorded, n)
				}
				if again, all := x.changes(x.lists()); !again.Equal(from) || len(all) != len(listed) {
					t.Errorf("after a restart the lists begin at %v with %d changes, before at %v with %d", again, len(all), from, len(listed))
				}
			})
		})
	}
}

// entriesOf returns the entries of a document.
func (x *site) entriesOf(path string) []resourcesync.Entry {
	x.t.Helper()
	_, entries := x.read(path)
	return entries
}

// Without the times that earlier versions did not store, the numbers tell, as before.
func TestIndexOfAnEarlierVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newBubble(t, func(o *Options) { o.Hubs = []publisher.Hub{{URL: "https://hub.example.org/"}} })
		x.build()
		for range 3 {
			time.Sleep(time.Second)
			x.write(map[string]string{time.Now().Format("15-04-05"): "1"})
			x.build()
			x.step(onRing(x.sets[0].feed))
		}
		s := x.sets[0]
		if err := s.shelf.swap(func(c *register) error { c.History.LastAt = time.Time{}; return nil }); err != nil {
			t.Fatal(err)
		}
		before := s.shelf.current().History.From
		x.close()
		x.open()
		time.Sleep(time.Second)
		x.build()
		if h := x.sets[0].shelf.current().History; !h.From.Equal(before) || h.Last != 3 {
			t.Errorf("the lists begin at %v and go up to %d", h.From, h.Last)
		}
	})
}
