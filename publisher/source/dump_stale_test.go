package source

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// touch gives a file another time.
func (x *site) touch(path string) {
	x.t.Helper()
	at := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(x.dir, path), at, at); err != nil {
		x.t.Fatal(err)
	}
}

// A file that was only touched since it was indexed is in the dump: there will be
// no change to tell of, so who begins with the dump would never get it.
func TestDumpHasWhatWasTouched_DOC36_DOC43(t *testing.T) {
	x := newSite(t, nil)
	x.write(map[string]string{"old": "1", "other": "1"})
	x.build()
	x.write(map[string]string{"new": "1"})
	x.sets[0].composer.schedule.Rotate, x.sets[0].composer.schedule.Dump = time.Nanosecond, -1
	x.build()
	x.sets[0].composer.schedule.Dump = time.Nanosecond
	x.touch("old")
	x.touch("new")
	x.step(x.sets[0].buildDumps)
	if all := x.unpackAll("/resourcedump.xml"); len(all) != 3 {
		t.Errorf("the Resource Dump has %q", all)
	}
	if all := x.unpackAll("/changedump.xml"); len(all) != 1 {
		t.Errorf("the Change Dump has %q", all)
	}
	x.build()
	if _, all := x.changes(x.lists()); len(all) != 1 {
		t.Errorf("the Change Lists have %v", all)
	}
}

// What was left out of a dump is told as updated after it, though the file is again
// what it was when it is looked at next. So the dump and the changes since lack
// nothing.
func TestWhatADumpLeavesOutIsTold_DOC36_DOC43(t *testing.T) {
	x := newSite(t, nil)
	x.write(map[string]string{"a": "A", "b": "B"})
	x.build()
	x.write(map[string]string{"b": "for a moment"})
	if err := x.sets[0].shelf.swap(func(c *register) error { c.History.Dumps = nil; return nil }); err != nil {
		t.Fatal(err)
	}
	x.step(onRing(x.sets[0].buildResourceDump))
	x.write(map[string]string{"b": "B"})
	x.build()
	_, dumps := x.read("/resourcedump-archive.xml")
	dump := dumps[0]
	_, told := x.changes(x.lists())
	if len(told) != 1 || told[0].Loc != x.server.URL+"/data/b" || told[0].Change != resourcesync.Updated || told[0].Datetime.Before(dump.At) {
		t.Errorf("after the dump of %v there are the changes %+v", dump.At, told)
	}
	if all := x.unpackAll(dump.Loc[len(x.server.URL):]); len(all) != 1 {
		t.Errorf("the dump has %q", all)
	}
}

// While most of the folder is away there is no dump of it: whoever began with that
// would take the rest for all there is.
func TestNoDumpOfAnEmptiedFolder(t *testing.T) {
	x := newSite(t, nil)
	for i := range 2 * leastLeft {
		x.write(map[string]string{fmt.Sprint(i): "x"})
	}
	x.sets[0].composer.schedule.Dump = -1
	x.build()
	x.sets[0].composer.schedule.Dump = time.Nanosecond
	away := x.dir + ".away"
	if err := errors.Join(os.Rename(x.dir, away), os.Mkdir(x.dir, 0o750)); err != nil {
		t.Fatal(err)
	}
	if _, err := x.sets[0].buildDumps(context.Background()); !errors.Is(err, errEmptied) {
		t.Errorf("the dump of a folder that is away: %v", err)
	}
	x.build() // finds out, and holds the deletions
	if x.sets[0].shelf.current().has(resourceDumpPath) {
		t.Error("there is a dump of a folder that is away")
	}
	if err := errors.Join(os.Remove(x.dir), os.Rename(away, x.dir)); err != nil {
		t.Fatal(err)
	}
	x.build()
	if all := x.unpackAll("/resourcedump.xml"); len(all) != 2*leastLeft {
		t.Errorf("the dump has %d resources", len(all))
	}
}

// What happened while nobody ran is found by a scan, and told of once: a dump waits
// for that scan.
func TestNoDumpBeforeTheFirstScan(t *testing.T) {
	x := newSite(t, nil)
	x.write(map[string]string{"a": "1", "b": "1"})
	x.build()
	x.write(map[string]string{"c": "1"}) // so that a dump is due
	if err := x.sets[0].packager.origin.Scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	x.close()
	x.write(map[string]string{"a": "two"})
	if err := os.Remove(filepath.Join(x.dir, "b")); err != nil {
		t.Fatal(err)
	}
	x.open()
	before := x.sets[0].shelf.current()
	x.step(x.sets[0].buildDumps)
	if x.sets[0].shelf.current() != before {
		t.Error("documents were written before the folder was scanned")
	}
	x.build()
	if _, told := x.changes(x.lists()); len(told) != 3 {
		t.Errorf("of a creation, an update and a deletion there are the changes %+v", told)
	}
	if all := x.unpackAll("/resourcedump.xml"); len(all) != 2 {
		t.Errorf("the dump has %q", all)
	}
}
