package destination_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/destination"
)

// A Source without hashes: its resources of the same length as before are not in sync once the Source says that they
// changed, in whatever way. A repair fetches them, if the Source has them.
func TestAuditFindsWhatChangedWithoutHash(t *testing.T) {
	broken := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	for name, change := range map[string]func(s *source, c *destination.Copy) (why string){
		"a change that could not be fetched": func(s *source, c *destination.Copy) string {
			s.put("a", "two", 10)
			s.set("/data/a", broken)
			if r, err := c.Sync(t.Context()); err != nil || r.Failed != 1 {
				t.Errorf("%v %+v", err, r)
			}
			return "500"
		},
		"a change that was not read yet": func(s *source, _ *destination.Copy) string {
			s.put("a", "two", 10)
			return "changed it at"
		},
		"a newer list": func(s *source, _ *destination.Copy) string {
			s.put("a", "two", 0)
			s.at = s.at.Add(time.Minute)
			return "changed it at"
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t)
			s.noHashes = true
			if name == "a newer list" {
				s.offers = []string{resourcesync.ResourceList}
			}
			s.put("a", "one", 0)
			s.put("b", "same", 0)
			c := s.open(t.TempDir())
			if r, err := c.Sync(t.Context()); err != nil || r.Copied != 2 {
				t.Fatalf("%v %+v", err, r)
			}
			if a, err := c.Audit(t.Context(), false); err != nil || !a.InSync || a.Unverifiable != 2 {
				t.Errorf("before the change: %v %+v", err, a)
			}
			why := change(s, c)
			changed := 1
			if name == "a newer list" {
				changed = 2 // it has another lastmod of all
			}
			for _, repair := range []bool{false, true} {
				a, err := c.Audit(t.Context(), repair)
				failed := s.override["/data/a"] != nil
				switch {
				case err != nil:
					t.Error(err)
				case repair && !failed:
					if !a.InSync || a.Repaired == nil || a.Repaired.Copied != changed || a.Unverifiable != 2 {
						t.Errorf("after the repair: %+v", a)
					}
				case a.InSync || a.Differing != changed || len(a.Findings) == 0 || !strings.Contains(a.Findings[0].Why+a.Findings[len(a.Findings)-1].Why, why):
					t.Errorf("repair %v: %+v, want a finding with %q", repair, a, why)
				}
			}
			s.set("/data/a", nil)
			if a, err := c.Audit(t.Context(), true); err != nil || !a.InSync {
				t.Errorf("at the end: %v %+v", err, a)
			}
			if a, err := c.Audit(t.Context(), false); err != nil || !a.InSync {
				t.Errorf("once more: %v %+v", err, a)
			}
		})
	}
}

// A copy that knows that it missed changes, which the list is too old to show, is not in sync. It is in sync if the
// Change Lists only lack what it has carried out. While they cannot be read, nobody can say.
func TestAuditSaysWhichChangesAreUnknown(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.put("a", "one", 0)
	s.put("b", "one", 0)
	s.freezeList()
	c := s.open(dir)
	for n, name := range []string{"", "a", "b"} {
		if name != "" {
			s.put(name, "two of "+name, 50*n)
		}
		if r, err := c.Sync(t.Context()); err != nil || !r.InSync() {
			t.Fatalf("%v %+v", err, r)
		}
	}
	begin := func(seconds int) {
		s.set("/changelist.xml", func(w http.ResponseWriter, _ *http.Request) {
			head := resourcesync.Head{
				Capability: resourcesync.ChangeList, From: s.at.Add(time.Duration(seconds) * time.Second),
				Links: []resourcesync.Link{{Rel: "up", Href: s.URL + "/capabilitylist.xml"}},
			}
			s.write(w, head, s.changes[len(s.changes)-1])
		})
	}
	begin(75)
	for _, repair := range []bool{false, true} {
		if a, err := c.Audit(t.Context(), repair); err != nil || !a.InSync || a.Equal != 2 || a.Repaired != nil {
			t.Errorf("what is carried out is missing, repair %v: %v %+v", repair, err, a)
		}
	}
	s.same(dir)
	unknown := func(when, want string) {
		t.Helper()
		for _, repair := range []bool{false, true} {
			if a, err := c.Audit(t.Context(), repair); err != nil || a.InSync || !strings.Contains(a.Sets[0].Unknown, want) {
				t.Errorf("%s, repair %v: %v %+v", when, repair, err, a)
			}
		}
	}

	s.put("a", "three", 120)
	unknown("a change is not read yet", "a sync did not bring them yet")
	if r, err := c.Sync(t.Context()); err != nil || !r.InSync() {
		t.Errorf("%v %+v", err, r)
	}
	if a, err := c.Audit(t.Context(), false); err != nil || !a.InSync || a.Equal != 2 {
		t.Errorf("that change was read: %v %+v", err, a)
	}
	s.same(dir)

	s.set("/changelist.xml", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	if a, err := c.Audit(t.Context(), true); err == nil || a.InSync {
		t.Errorf("the Change List cannot be read: %v %+v", err, a)
	}

	s.put("b", "three", 200)
	begin(150)
	unknown("changes are lost, and no sync noticed it", "are in no Change List any more")
	if _, err := c.Sync(t.Context()); !errors.Is(err, destination.ErrBehind) {
		t.Errorf("%v, want that changes are lost", err)
	}
	unknown("changes are lost", "were missed")
}

// A Source has only changes, and some of them are lost: the copy is not in sync until there is a list that is not older. What
// was before the first changes is not missed.
func TestAuditOfChangesThatNoListMakesUpFor(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.offers = []string{resourcesync.ChangeList}
	begins := func(seconds int) {
		s.set("/changelist.xml", func(w http.ResponseWriter, _ *http.Request) {
			head := resourcesync.Head{
				Capability: resourcesync.ChangeList, From: s.at.Add(time.Duration(seconds) * time.Second),
				Links: []resourcesync.Link{{Rel: "up", Href: s.URL + "/capabilitylist.xml"}},
			}
			var in []resourcesync.Entry
			for _, e := range s.changes {
				if !e.Datetime.Before(head.From) {
					in = append(in, e)
				}
			}
			s.write(w, head, in...)
		})
	}
	audit := func(what string, inSync bool) {
		t.Helper()
		c := s.open(dir)
		defer c.Close() //nolint:errcheck // the audit says whether all is well
		if r, err := c.Sync(t.Context()); err != nil || !r.InSync() {
			t.Errorf("%s: %v %+v", what, err, r)
		}
		for _, repair := range []bool{false, true} {
			if a, err := c.Audit(t.Context(), repair); err != nil || a.InSync != inSync || (a.Sets[0].Unknown == "") != inSync {
				t.Errorf("%s, repair %v: %v %+v", what, repair, err, a)
			}
		}
	}
	s.put("a", "one", 10)
	begins(5)
	audit("at first", true)
	s.put("a", "two", 20)
	audit("a change", true)
	s.put("lost", "lost", 30)
	s.put("a", "three", 50)
	begins(40)
	audit("changes are lost", false)
	audit("once more", false)
	s.put("a", "four", 60)
	audit("another change", false)
	s.offers, s.at = []string{resourcesync.ResourceList, resourcesync.ChangeList}, s.at.Add(35*time.Second)
	begins(5)
	audit("a list that is older", false)
	s.at = s.at.Add(25 * time.Second)
	s.put("a", "five", 20)
	begins(0)
	audit("a list that is not older", true)
	s.same(dir)
}

// Links have times of their own: a resource whose alternate is in the copy is not changed by its own time.
func TestAuditOfAlternateWithoutHash(t *testing.T) {
	s := newSource(t)
	s.offers, s.noHashes = []string{resourcesync.ResourceList}, true
	s.put("a", "own", 0)
	s.put("alt", "alternate", 0)
	at, modified := s.at, s.at.Add(-time.Hour)
	s.set("/resourcelist.xml", func(w http.ResponseWriter, _ *http.Request) {
		e := resourcesync.Entry{Loc: s.URL + "/data/a", LastMod: at}
		e.Links = []resourcesync.Link{{Rel: "alternate", Href: s.URL + "/data/alt", Type: "application/pdf", Modified: modified}}
		s.write(w, resourcesync.Head{Capability: resourcesync.ResourceList, At: at, Links: []resourcesync.Link{{Rel: "up", Href: s.URL + "/capabilitylist.xml"}}}, e)
	})
	c := s.open(t.TempDir(), func(o *destination.Options) { o.PreferTypes = []string{"application/pdf"} })
	if r, err := c.Sync(t.Context()); err != nil || r.Copied != 1 {
		t.Fatalf("%v %+v", err, r)
	}
	at = at.Add(time.Minute)
	if a, err := c.Audit(t.Context(), true); err != nil || !a.InSync || a.Repaired != nil {
		t.Errorf("%v %+v", err, a)
	}
	modified = at
	if a, err := c.Audit(t.Context(), true); err != nil || !a.InSync || a.Repaired == nil {
		t.Errorf("the alternate changed: %v %+v", err, a)
	}
	if a, err := c.Audit(t.Context(), true); err != nil || !a.InSync || a.Repaired != nil {
		t.Errorf("once more: %v %+v", err, a)
	}
}

// Two sets list a resource, and give its change different times.
func TestAuditOfTwoSetsWithoutHash(t *testing.T) {
	s := newSource(t)
	s.noHashes = true
	s.put("x", "one", 0)
	s.set("/data/x", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, s.files["x"]) }) // without Last-Modified
	page, changes := "", map[string][]resourcesync.Entry{}
	for _, set := range []string{"a", "b"} {
		base := s.URL + "/" + set
		page += fmt.Sprintf(`<link rel="resourcesync" href="%s/capabilitylist.xml">`, base)
		document := func(name, capability string, entries func() []resourcesync.Entry) {
			s.set("/"+set+name, func(w http.ResponseWriter, _ *http.Request) {
				head := resourcesync.Head{Capability: capability, Links: []resourcesync.Link{{Rel: "up", Href: base + "/capabilitylist.xml"}}}
				switch capability {
				case resourcesync.CapabilityList:
					head.Links[0].Href = s.URL + "/.well-known/resourcesync"
				case resourcesync.ResourceList:
					head.At = s.at
				default:
					head.From = s.at
				}
				s.write(w, head, entries()...)
			})
		}
		document("/capabilitylist.xml", resourcesync.CapabilityList, func() []resourcesync.Entry {
			return []resourcesync.Entry{
				{Loc: base + "/list.xml", Capability: resourcesync.ResourceList}, {Loc: base + "/changes.xml", Capability: resourcesync.ChangeList},
			}
		})
		document("/list.xml", resourcesync.ResourceList, func() []resourcesync.Entry { return []resourcesync.Entry{s.entry("x", "")} })
		document("/changes.xml", resourcesync.ChangeList, func() []resourcesync.Entry { return changes[set] })
	}
	s.set("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprint(w, "<!DOCTYPE html><html><head>"+page+"</head></html>")
	})
	dir := t.TempDir()
	c := s.open(dir, func(o *destination.Options) { o.Source = s.URL + "/" })
	sync := func() {
		t.Helper()
		if r, err := c.Sync(t.Context()); err != nil || !r.InSync() {
			t.Fatalf("%v %+v", err, r)
		}
		s.same(dir)
	}
	sync()
	s.put("x", "two", 0)
	for set, seconds := range map[string]int{"a": 20, "b": 15} {
		e := s.entry("x", resourcesync.Updated)
		e.Datetime = s.at.Add(time.Duration(seconds) * time.Second)
		changes[set] = append(changes[set], e)
	}
	sync()
	if a, err := c.Audit(t.Context(), true); err != nil || !a.InSync || a.Repaired != nil {
		t.Errorf("%v %+v", err, a)
	}
}

// If copy.db is lost or emptied, what was received of the changes does not count any more: the copy begins with the
// baseline, which may be older than the changes that were applied.
func TestStateOfTheCopyIsLost(t *testing.T) {
	for name, lose := range map[string]func(file string) error{
		"removed": func(file string) error { return os.Remove(file) },
		"emptied": func(file string) error { return os.Truncate(file, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := newSource(t), t.TempDir()
			s.put("a", "1", 0)
			s.freezeList()
			sync := func() {
				t.Helper()
				c := s.open(dir)
				defer c.Close() //nolint:errcheck // the audit says whether all is well
				if r, err := c.Sync(t.Context()); err != nil || !r.InSync() {
					t.Errorf("%v %+v", err, r)
				}
				s.same(dir)
				if a, err := c.Audit(t.Context(), false); err != nil || !a.InSync {
					t.Errorf("%v %+v", err, a)
				}
			}
			sync()
			s.put("a", "12", 10)
			sync()
			s.put("b", "new", 20)
			state := filepath.Join(dir, ".rssub", "copy.db")
			_ = os.Remove(state + "-wal") // it belongs to the other
			if err := lose(state); err != nil {
				t.Fatal(err)
			}
			sync()
		})
	}
}

// A Source that lists no changes and gives no hashes: a resource whose time of modification is another one is not in sync, also
// if that time is before the copy. A sync fetches it, too.
func TestAuditFindsOtherTimes(t *testing.T) {
	s := newSource(t)
	s.offers, s.noHashes = []string{resourcesync.ResourceList}, true
	s.put("a", "one", 0)
	s.put("b", "one", 0)
	modified := map[string]time.Time{"a": s.at.Add(-48 * time.Hour)}
	s.set("/resourcelist.xml", func(w http.ResponseWriter, _ *http.Request) {
		head := resourcesync.Head{Capability: resourcesync.ResourceList, At: s.at, Links: []resourcesync.Link{{Rel: "up", Href: s.URL + "/capabilitylist.xml"}}}
		s.write(w, head, resourcesync.Entry{Loc: s.URL + "/data/a", LastMod: modified["a"]}, resourcesync.Entry{Loc: s.URL + "/data/b"})
	})
	c := s.open(t.TempDir())
	if r, err := c.Sync(t.Context()); err != nil || r.Copied != 2 {
		t.Fatalf("%v %+v", err, r)
	}
	for _, hours := range []int{-24, -72} {
		if a, err := c.Audit(t.Context(), false); err != nil || !a.InSync || a.Unverifiable != 2 {
			t.Errorf("before the change: %v %+v", err, a)
		}
		modified["a"] = s.at.Add(time.Duration(hours) * time.Hour)
		if a, err := c.Audit(t.Context(), false); err != nil || a.InSync || a.Differing != 1 || a.Unverifiable != 1 {
			t.Errorf("%v h: %v %+v", hours, err, a)
		}
		if a, err := c.Audit(t.Context(), true); err != nil || !a.InSync || a.Repaired == nil || a.Repaired.Copied != 1 {
			t.Errorf("%v h, repair: %v %+v", hours, err, a)
		}
	}
	for _, hours := range []int{-72, -96} { // the bytes are those of before
		modified["a"] = s.at.Add(time.Duration(hours) * time.Hour)
		if r, err := c.Sync(t.Context()); err != nil || r.Copied != 0 || !r.InSync() {
			t.Errorf("%v h, sync: %v %+v", hours, err, r)
		}
	}
	if a, err := c.Audit(t.Context(), false); err != nil || !a.InSync || a.Unverifiable != 2 {
		t.Errorf("at the end: %v %+v", err, a)
	}
}
