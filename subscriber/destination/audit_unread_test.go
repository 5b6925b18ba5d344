package destination_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/rshub/rshub/resourcesync"
)

// Nothing is known of a set that has only changes until these were read: the copy is not in sync, and what is in its folder is not
// extra. Once they were read, they say what the set has, also if they are none.
func TestAuditOfChangesThatWereNotRead(t *testing.T) {
	for name, kind := range map[string]string{"a Change Dump": resourcesync.ChangeDump, "a Change List": resourcesync.ChangeList} {
		for fault, broken := range map[string]http.HandlerFunc{"is not there": http.NotFound, "is no document": answer("<nothing/>"), "has no package": nil} {
			if kind == resourcesync.ChangeList && broken == nil {
				continue
			}
			t.Run(name+" "+fault, func(t *testing.T) {
				s, dir := newSource(t), t.TempDir()
				d := dumpsChanges(s)
				dump := s.override["/changedump.xml"]
				s.offers = []string{kind}
				if broken == nil {
					s.set(d.add(0, 100, change{50, "a", "body"}), answer("PK nothing"))
				} else {
					s.set("/"+kind+".xml", broken)
				}
				c := s.open(dir)
				if _, err := c.Sync(t.Context()); err == nil {
					t.Error("the changes were read")
				}
				kept := filepath.Join(dir, "kept.txt")
				if err := os.WriteFile(kept, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				for _, repair := range []bool{false, true} {
					a, err := c.Audit(t.Context(), repair)
					if _, gone := os.Stat(kept); err != nil || a.InSync || a.Sets[0].Unknown == "" || gone != nil {
						t.Errorf("repair %v: %v %+v %v", repair, err, a, gone)
					}
				}

				d.entries, s.files = nil, map[string]string{}
				s.set("/changelist.xml", nil)
				s.set("/changedump.xml", dump)
				if r, err := c.Sync(t.Context()); err != nil || !r.InSync() {
					t.Errorf("%v %+v", err, r)
				}
				a, err := c.Audit(t.Context(), false)
				if err != nil || a.Extra != 1 || a.Sets[0].Unknown != "" {
					t.Errorf("after they were read: %v %+v", err, a)
				}
				if a, err = c.Audit(t.Context(), true); err != nil || !a.InSync {
					t.Errorf("after they were read: %v %+v", err, a)
				}
				s.same(dir)
			})
		}
	}
}
