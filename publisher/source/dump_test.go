package source

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// A dump is split into packages of about a size, and one file that is larger has a
// package to itself (DOC-36).
func TestDumpIsSplit_DOC36(t *testing.T) {
	x := newSite(t, func(o *Options) { o.Schedule.PackageBytes = 100 })
	files := map[string]string{"5-large": strings.Repeat("L", 1000)}
	for i := range 10 {
		files[fmt.Sprint(i)] = strings.Repeat(fmt.Sprint(i), 30)
	}
	x.write(files)
	x.build()
	_, packages := x.read("/resourcedump.xml")
	if len(packages) != 5 { // 0-2, 3-5, the large one, 6-8, 9
		t.Errorf("there are %d packages", len(packages))
	}
	for i, p := range packages {
		if p.At.IsZero() || p.Type != "application/zip" || !p.HasLength || p.Hash == "" {
			t.Errorf("package %d is listed as %+v", i, p)
		}
	}
	all := x.unpackAll("/resourcedump.xml")
	for path, want := range files {
		if got := all[x.server.URL+"/data/"+path]; got != want {
			t.Errorf("%s is %q", path, got)
		}
	}
}

// What has changed since it was indexed is not in a dump, and all others are: the
// Change List has the change. So is a file that changes while it is read.
func TestDumpLeavesOutWhatMoved_DOC38(t *testing.T) {
	x := newSite(t, nil)
	x.write(map[string]string{"a": "A", "b": "B", "c": "C", "d": "D"})
	x.build()
	s := x.sets[0]
	x.write(map[string]string{"b": "other"})
	if err := os.Remove(filepath.Join(x.dir, "c")); err != nil {
		t.Fatal(err)
	}
	// Of the same size and time, as if it had been written to after the look at it.
	info, err := os.Stat(filepath.Join(x.dir, "d"))
	if err != nil {
		t.Fatal(err)
	}
	x.write(map[string]string{"d": "X"})
	if err := os.Chtimes(filepath.Join(x.dir, "d"), info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if err := s.shelf.swap(func(c *register) error { c.History.Dumps = nil; return nil }); err != nil {
		t.Fatal(err)
	}
	x.step(onRing(s.buildResourceDump))
	if all := x.unpackAll("/resourcedump.xml"); len(all) != 1 || all[x.server.URL+"/data/a"] != "A" {
		t.Errorf("the dump has %q", all)
	}
}

// A Change Dump has the last change of each resource in its interval, the deleted
// ones without bytes, and dumps follow each other (DOC-41, DOC-43).
func TestChangeDump_DOC41_DOC43(t *testing.T) {
	x := newSite(t, func(o *Options) { o.Schedule.Rotate = time.Nanosecond })
	x.write(map[string]string{"a": "1", "b": "1"})
	x.build()
	x.write(map[string]string{"a": "2", "c": "1"})
	x.build()
	x.write(map[string]string{"a": "3"})
	if err := os.Remove(filepath.Join(x.dir, "b")); err != nil {
		t.Fatal(err)
	}
	x.build()
	h, packages := x.read("/changedump.xml")
	_, lists := x.read("/changelist-archive.xml")
	if len(packages) != 2 || len(lists) != 2 || !h.From.Equal(lists[0].From) || !h.Until.IsZero() {
		t.Fatalf("%+v with %d packages for %d closed lists", h, len(packages), len(lists))
	}
	for i, p := range packages {
		if !p.From.Equal(lists[i].From) || !p.Until.Equal(lists[i].Until) {
			t.Errorf("package %d is from %v until %v, and its list from %v until %v", i, p.From, p.Until, lists[i].From, lists[i].Until)
		}
	}
	all := x.unpackAll("/changedump.xml")
	want := map[string]string{"a": "3", "b": "deleted", "c": "1"}
	for path, text := range want {
		if got := all[x.server.URL+"/data/"+path]; got != text {
			t.Errorf("%s is %q in the dumps, want %q", path, got, text)
		}
	}
	if len(all) != len(want) {
		t.Errorf("the dumps have %q", all)
	}
	if _, dumps := x.read("/changedump-archive.xml"); len(dumps) != 2 {
		t.Errorf("there are %d dumps in the archive", len(dumps))
	}
}

// Change Dumps are split between two changes, each package with the interval of its
// own.
func TestChangeDumpIsSplit_DOC43(t *testing.T) {
	x := newSite(t, func(o *Options) { o.Schedule.Rotate, o.Schedule.PackageBytes = time.Nanosecond, 10 })
	x.build()
	files := make(map[string]string)
	for i := range 7 {
		files[fmt.Sprint(i)] = "four"
	}
	x.write(files)
	x.build()
	_, packages := x.read("/changedump.xml")
	if len(packages) != 4 {
		t.Fatalf("there are %d packages", len(packages))
	}
	for i, p := range packages[1:] {
		if !p.From.Equal(packages[i].Until) {
			t.Errorf("package %d begins at %v, and the one before it ends at %v", i+1, p.From, packages[i].Until)
		}
	}
	if all := x.unpackAll("/changedump.xml"); len(all) != len(files) {
		t.Errorf("the dumps have %q", all)
	}
}

// As many dumps are kept as was asked for; packages of older ones go.
func TestDumpsExpire_DOC44(t *testing.T) {
	x := newSite(t, func(o *Options) { o.Schedule.KeepDumps, o.Schedule.Linger = 2, -1 })
	for i := range 4 {
		x.write(map[string]string{"a": fmt.Sprint(i)})
		x.build()
		time.Sleep(time.Millisecond)
	}
	if _, dumps := x.read("/resourcedump-archive.xml"); len(dumps) != 2 {
		t.Errorf("%d dumps are in the archive", len(dumps))
	}
	if _, lists := x.read("/resourcelist-archive.xml"); len(lists) != 4 {
		t.Errorf("%d Resource Lists are in the archive", len(lists))
	}
	packages := 0
	for path := range x.sets[0].shelf.current().Documents {
		if strings.HasPrefix(path, "dumps/resourcedump") {
			packages++
		}
	}
	if packages != 2 {
		t.Errorf("%d packages are kept", packages)
	}
	x.sets[0].composer.schedule.KeepArchive = time.Nanosecond
	x.step(x.sets[0].buildResourceList)
	if _, lists := x.read("/resourcelist-archive.xml"); len(lists) != 1 {
		t.Errorf("%d Resource Lists are in the archive, want the newest", len(lists))
	}
	x.onlyNamed()
}

// Without dumps and archives there are none, and the Capability List has none.
func TestNeitherDumpsNorArchives(t *testing.T) {
	x := newSite(t, func(o *Options) { o.Schedule.Dump, o.Schedule.Archive, o.Schedule.RotateAt = -1, -1, 1 })
	x.write(map[string]string{"a": "1"})
	x.build()
	x.write(map[string]string{"a": "2", "b": "1"})
	x.build()
	_, listed := x.read("/capabilitylist.xml")
	if len(listed) != 2 || listed[0].Capability != resourcesync.ResourceList || listed[1].Capability != resourcesync.ChangeList {
		t.Errorf("the Capability List has %d entries, and none is the Change Dump", len(listed))
	}
	x.changes(x.lists())
	for path := range x.sets[0].shelf.current().Documents {
		if strings.Contains(path, "dump") || strings.Contains(path, "archive") {
			t.Errorf("there is %s", path)
		}
	}
}

// The log of changes is as long as somebody needs it, and not longer.
func TestLogIsPruned(t *testing.T) {
	x := newSite(t, func(o *Options) { o.Schedule.RotateAt, o.Schedule.Linger = 2, -1 })
	x.sets[0].reach.changes = 1
	x.build()
	x.write(map[string]string{"a": "1", "b": "1", "c": "1"})
	x.build()
	x.build()
	snap, err := x.sets[0].index.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	if seq, _ := snap.Begin(); seq != 2 {
		t.Errorf("the log begins after %d, and a list with two changes is closed and dumped, and only the last is recent", seq)
	}
	for _, err := range snap.Changes(0) {
		if !errors.Is(err, ErrPruned) {
			t.Errorf("%v", err)
		}
	}
}

// The first Change Dump is in the Capability List as soon as it exists, also if there are
// no archives.
func TestFirstChangeDumpIsListed_DOC32(t *testing.T) {
	for name, archive := range map[string]time.Duration{"with archives": time.Nanosecond, "without": -1} {
		t.Run(name, func(t *testing.T) {
			x := newSite(t, func(o *Options) { o.Schedule.RotateAt, o.Schedule.Archive = 1, archive })
			x.build()
			x.write(map[string]string{"a": "A", "b": "B"})
			if err := x.sets[0].packager.origin.Scan(t.Context()); err != nil {
				t.Fatal(err)
			}
			x.step(x.sets[0].buildChangeLists)
			x.step(x.sets[0].buildDumps)
			_, listed := x.read("/capabilitylist.xml")
			if !slices.ContainsFunc(listed, func(e resourcesync.Entry) bool { return e.Capability == resourcesync.ChangeDump }) {
				t.Errorf("the Capability List has %d entries, and none is the Change Dump", len(listed))
			}
		})
	}
}
