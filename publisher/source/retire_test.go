package source

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// What is switched off at a restart is gone: no document names it, and nothing of
// it is left to grow old. What is switched on again begins anew.
func TestSwitchedOffIsRetired_DOC32(t *testing.T) {
	x := newSite(t, func(o *Options) { o.Schedule.RotateAt, o.Schedule.Linger = 1, -1 })
	x.write(map[string]string{"a": "1"})
	x.build()
	x.write(map[string]string{"a": "2", "b": "1"})
	x.build()
	for _, off := range []func(*Schedule){
		func(s *Schedule) { s.Archive = -1 },
		func(s *Schedule) { s.Dump = -1 },
		func(s *Schedule) { s.ResourceList = -1 },
	} {
		x.close()
		off(&x.o.Schedule)
		x.open()
		x.build()
		x.allThere()
	}
	for path := range x.sets[0].shelf.current().Documents {
		if strings.Contains(path, "dump") || strings.Contains(path, "archive") || strings.Contains(path, "resourcelist") {
			t.Errorf("there is %s", path)
		}
	}
	x.close()
	x.o.Schedule.Archive, x.o.Schedule.Dump, x.o.Schedule.ResourceList = time.Nanosecond, time.Nanosecond, time.Nanosecond
	x.open()
	x.write(map[string]string{"c": "1"})
	x.build()
	x.allThere()
	if all := x.unpackAll("/resourcedump.xml"); len(all) != 3 {
		t.Errorf("the dump has %q", all)
	}
}

// allThere checks that what the Capability List names, and what that names, is there.
func (x *site) allThere() {
	x.t.Helper()
	_, listed := x.read("/capabilitylist.xml")
	for _, l := range listed {
		h, entries := x.read(l.Loc)
		if archive, ok := h.Link("archives"); ok && l.Capability != "changelist" && x.get(archive.Href).status != http.StatusOK {
			x.t.Errorf("%s names the archive %s, which is not there", l.Loc, archive.Href)
		}
		for _, e := range entries {
			if got := x.get(e.Loc); got.status != http.StatusOK && e.Change != "deleted" {
				x.t.Errorf("%s names %s, which answers %d", l.Loc, e.Loc, got.status)
			}
		}
	}
}
