package destination_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/destination"
)

// A copy that is followed is audited now and then, and what is wrong is repaired. A resource that
// the Source lists and does not have is reported each time, and is no failure that is tried again.
func TestFollowAudits(t *testing.T) {
	s := newSource(t)
	for _, name := range []string{"a", "b", "c"} {
		s.put(name, "body "+name, 0)
	}
	audits := make(chan destination.AuditReport)
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	p := followWith(t, s, []string{resourcesync.ResourceList, resourcesync.ChangeList}, func(o *destination.Options) {
		destination.LookSoon(o)
		o.AuditEvery = time.Millisecond
		o.Audited = func(r destination.AuditReport, err error) {
			if err != nil {
				t.Error(err)
			}
			select {
			case audits <- r:
			case <-stop:
			}
		}
	})
	next := func(what string, is func(r destination.AuditReport) bool) {
		t.Helper()
		for range 1000 {
			select {
			case r := <-audits:
				if is(r) {
					return
				}
			case <-time.After(within):
				t.Fatalf("no audit is %s", what)
			}
		}
		t.Fatalf("no audit is %s", what)
	}
	quiet := func(r destination.AuditReport) bool { return r.InSync && r.Repaired == nil && r.Equal == 3 }
	next("in sync", quiet)
	for name, body := range map[string]string{"a": "bodX a", "stray": "x"} {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(p.dir, "b")); err != nil {
		t.Fatal(err)
	}
	next("a repair", func(r destination.AuditReport) bool { return r.InSync && r.Repaired != nil })
	next("in sync again", quiet)
	s.same(p.dir)
	s.set("/data/c", answer(""))
	if err := os.Remove(filepath.Join(p.dir, "c")); err != nil {
		t.Fatal(err)
	}
	next("out of sync", func(r destination.AuditReport) bool {
		return !r.InSync && r.Missing == 1 && r.Repaired != nil && r.Repaired.Failed == 1
	})
	s.set("/data/c", nil)
	next("in sync in the end", func(r destination.AuditReport) bool { return r.InSync })
}
