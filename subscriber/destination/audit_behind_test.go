package destination_test

import (
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

// If changes are unknown, since the Change Lists do not reach back to the list or cannot be read, the copy may lack some:
// it is not in sync, whatever the list says.
func TestAuditSaysWhichChangesAreUnknown(t *testing.T) {
	s := newSource(t)
	s.put("a", "one", 0)
	c := s.open(t.TempDir())
	if r, err := c.Sync(t.Context()); err != nil || r.Copied != 1 {
		t.Fatalf("%v %+v", err, r)
	}
	up := []resourcesync.Link{{Rel: "up", Href: s.URL + "/capabilitylist.xml"}}
	for name, serve := range map[string]http.HandlerFunc{
		"a hole": func(w http.ResponseWriter, _ *http.Request) {
			s.write(w, resourcesync.Head{Capability: resourcesync.ChangeList, From: s.at.Add(time.Minute), Links: up})
		},
		"unavailable": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
	} {
		s.set("/changelist.xml", serve)
		for _, repair := range []bool{false, true} {
			a, err := c.Audit(t.Context(), repair)
			if err != nil || a.InSync || a.Equal != 1 || a.Sets[0].Unknown == "" {
				t.Errorf("%s, repair %v: %v %+v", name, repair, err, a)
			}
		}
	}
	s.set("/changelist.xml", nil)
	if a, err := c.Audit(t.Context(), false); err != nil || !a.InSync || a.Sets[0].Unknown != "" {
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
