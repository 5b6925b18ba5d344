package source

import (
	"cmp"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/publisher"
	"github.com/rshub/rshub/resourcesync"
)

// locs returns the addresses in a document, and changes the changes in it in short.
func (x *site) locs(path string) (locs, changes []string) {
	x.t.Helper()
	a := x.get(path)
	if a.status != http.StatusOK {
		x.t.Fatalf("%s answers %d", path, a.status)
	}
	_, entries := readDocument(x.t, path, a.body)
	for _, e := range entries {
		locs = append(locs, e.Loc)
		changes = append(changes, string(e.Change)+" "+e.Loc)
	}
	return locs, changes
}

// Resources that another server has are listed there, in lists and in dumps, and are not served
// here.
func TestOwnURLs(t *testing.T) {
	x := newSite(t, func(o *Options) { o.Sets[0].ResourceURL = "https://museum.example/works" })
	x.write(map[string]string{"a b.txt": "1", "d/c.png": "2"})
	x.build()
	want := []string{"https://museum.example/works/a%20b.txt", "https://museum.example/works/d/c.png"}
	if got, _ := x.locs("/resourcelist.xml"); !slices.Equal(got, want) {
		t.Errorf("the Resource List has %v", got)
	}
	a := x.get("/data/d/c.png")
	if a.status != http.StatusNotFound || !strings.Contains(a.body, "https://museum.example/works/") {
		t.Errorf("a resource answers %d: %s", a.status, a.body)
	}
	samples, err := x.Samples()
	if err != nil || len(samples) != 2 || samples[0].Loc != want[0] || samples[0].Length != 1 {
		t.Errorf("the samples are %v: %v", samples, err)
	}
	if out, err := follow(t, x); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// The address of data/ is the default, however it is given.
func TestDataIsNoOtherAddress(t *testing.T) {
	x := newSite(t, func(o *Options) { o.Sets[0].ResourceURL = o.PublicURL + "data" })
	x.write(map[string]string{"a": "1"})
	x.build()
	if a := x.get("/data/a"); a.status != http.StatusOK {
		t.Errorf("a resource answers %d", a.status)
	}
	if samples, err := x.Samples(); err != nil || len(samples) > 0 {
		t.Errorf("there are samples: %v, %v", samples, err)
	}
}

func TestBadResourceURL(t *testing.T) {
	for _, bad := range []string{"files/", "ftp://example.org/", "https:///x", "https://example.org/?a", "https://example.org/#a", "https://u:secret@example.org/"} {
		_, err := Options{PublicURL: "https://example.org/", StateDir: "s", Sets: []Set{{ResourceURL: bad}}}.withDefaults()
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// If the resources are at other addresses than before, they are deleted at the old ones and
// created at the new ones, in every channel. What was published of them before keeps the
// address that it had.
func TestResourcesMove(t *testing.T) {
	h := newHub(t)
	x := newSite(t, func(o *Options) {
		o.Hubs = []publisher.Hub{{URL: h.server.URL + "/"}}
		o.Every = time.Millisecond
	})
	x.write(map[string]string{"a": "1", "b": "1", "c": "1"})
	x.build()
	x.write(map[string]string{"b": "two"})
	if err := os.Remove(filepath.Join(x.dir, "c")); err != nil {
		t.Fatal(err)
	}
	x.build()
	for _, now := range []string{"https://one.example/", "https://two.example/x/"} {
		x.close()
		x.o.Sets[0].ResourceURL = now
		x.open()
	}
	x.build()
	data, one, two := x.o.PublicURL+"data/", "https://one.example/", "https://two.example/x/"
	if got, _ := x.locs("/resourcelist.xml"); !slices.Equal(got, []string{two + "a", two + "b"}) {
		t.Errorf("the Resource List has %v", got)
	}
	want := []string{
		"updated " + data + "b", "deleted " + data + "c",
		"deleted " + data + "a", "deleted " + data + "b", "created " + one + "a", "created " + one + "b",
		"deleted " + one + "a", "deleted " + one + "b", "created " + two + "a", "created " + two + "b",
	}
	if _, got := x.locs("/changelist.xml"); !slices.Equal(got, want) {
		t.Errorf("the Change List has\n%s", strings.Join(got, "\n"))
	}
	stop := x.run()
	eventually(t, "the move is not pushed", func() bool { return len(h.of(x.o.PublicURL+"changes/")) == len(want) })
	stop()
	for i, e := range h.of(x.o.PublicURL + "changes/") {
		if got := string(e.Change) + " " + e.Loc; got != want[i] {
			t.Errorf("change %d is pushed as %s, not %s", i, got, want[i])
		}
	}
	if out, err := follow(t, x); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	// A restart with the same addresses publishes nothing.
	x.close()
	x.open()
	if last := x.sets[0].index.state().last.seq; last != uint64(len(want)) {
		t.Errorf("after a restart there are %d changes", last)
	}
}

// A process that is killed during a move goes on with it at its next start.
func TestMoveGoesOn(t *testing.T) {
	x := newSite(t, nil)
	x.write(map[string]string{"a": "1", "b": "1"})
	x.build()
	if err := (mover{x.sets[0]}).leave(address{}, address{Prefix: "https://one.example/"}); err != nil {
		t.Fatal(err)
	}
	x.close() // and nothing is created yet
	x.o.Sets[0].ResourceURL = "https://one.example/"
	x.open()
	x.build()
	_, got := x.locs("/changelist.xml")
	data, one := x.o.PublicURL+"data/", "https://one.example/"
	if want := []string{"deleted " + data + "a", "deleted " + data + "b", "created " + one + "a", "created " + one + "b"}; !slices.Equal(got, want) {
		t.Errorf("the Change List has\n%s", strings.Join(got, "\n"))
	}
	if h := x.sets[0].shelf.current().History; h.Arriving || len(h.Moves) != 1 {
		t.Errorf("after it, the history has %+v", h.Moves)
	}
}

// A move that was begun ends at the next start, even if it leads back or elsewhere by then: whatever was
// announced as deleted and is there is announced as created.
func TestMoveGoesBack(t *testing.T) {
	one, two := address{Prefix: "https://one.example/"}, "https://two.example/"
	for name, kill := range map[string]func(m mover) error{
		"while it deletes": func(m mover) error {
			before := m.set.shelf.current().History.Address
			_, err := m.announceMoved(resourcesync.Deleted, &before, &one)
			return errors.Join(m.swap(func(h *history) { h.Leaving = &one }), err)
		},
		"while it creates": func(m mover) error { return m.leave(m.set.shelf.current().History.Address, one) },
	} {
		for _, to := range []string{"", two} {
			x := newSite(t, nil)
			x.write(map[string]string{"a": "1", "b": "1"})
			x.build()
			must(t, kill(mover{x.sets[0]}))
			x.close()
			x.o.Sets[0].ResourceURL = to
			x.open()
			x.build()
			last := make(map[string]string)
			locs, changes := x.locs("/changelist.xml")
			for i, loc := range locs {
				last[loc], _, _ = strings.Cut(changes[i], " ")
			}
			at := cmp.Or(to, x.o.PublicURL+"data/")
			for loc, change := range last {
				if want := strings.HasPrefix(loc, at); (change == "created") != want {
					t.Errorf("%s, then at %s: the last change of %s is %s", name, at, loc, change)
				}
			}
			if last[at+"a"] == "" || last[at+"b"] == "" {
				t.Errorf("%s, then at %s: %v", name, at, last)
			}
		}
	}
}

// With a new index the numbers of changes begin anew, so former addresses mean nothing.
func TestMoveIsForgottenWithTheIndex(t *testing.T) {
	x := newSite(t, nil)
	x.write(map[string]string{"a": "1", "b": "1"})
	x.build()
	x.close()
	x.o.Sets[0].ResourceURL = "https://one.example/"
	x.open()
	x.build()
	x.close()
	must(t, os.RemoveAll(filepath.Join(x.o.StateDir, "index")))
	x.open()
	x.build()
	x.write(map[string]string{"c": "1"})
	x.build()
	if locs, _ := x.locs("/changelist.xml"); !slices.Contains(locs, "https://one.example/c") || slices.Contains(locs, x.o.PublicURL+"data/c") {
		t.Errorf("the Change List has %v", locs)
	}
}

// A Change Dump has the last change at each address, so it deletes at the old ones, too.
func TestChangeDumpOfMove_DOC43(t *testing.T) {
	x := newSite(t, func(o *Options) { o.Schedule.RotateAt = 4 })
	x.write(map[string]string{"a": "1", "b": "1"})
	x.build()
	x.close()
	x.o.Sets[0].ResourceURL = "https://one.example/"
	x.open()
	x.write(map[string]string{"z": "1"})
	x.build()
	var changes []string
	for _, p := range x.sets[0].shelf.current().History.Periods {
		for _, pack := range p.Packages {
			for _, e := range readPackage(t, x, pack.Path) {
				changes = append(changes, string(e.Change)+" "+e.Loc)
			}
		}
	}
	data, one := x.o.PublicURL+"data/", "https://one.example/"
	if want := []string{"deleted " + data + "a", "deleted " + data + "b", "created " + one + "a", "created " + one + "b"}; !slices.Equal(changes, want) {
		t.Errorf("the dump has\n%s", strings.Join(changes, "\n"))
	}
}

// readPackage returns the entries of the manifest of a package.
func readPackage(t *testing.T, x *site, path string) (entries []resourcesync.Entry) {
	t.Helper()
	f, size, err := openFile(filepath.Join(x.sets[0].shelf.dir, x.sets[0].shelf.current().Documents[path].File))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	r, err := resourcesync.NewDumpReader(f, size, resourcesync.DumpReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range r.Entries() {
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	return entries
}
