package destination

import (
	"errors"
	"os"
	"testing"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber"
)

// A state that cannot be read is none that was lost: what the subscriber received stays, and there is no new baseline.
func TestUnreadableStateIsNotLost(t *testing.T) {
	c, err := Open(Options{Source: "http://127.0.0.1:1/", Dir: t.TempDir(), Allow: egress.DevAllow()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	set := namedSet{name: "a set", Set: subscriber.Set{Documents: map[string]string{resourcesync.ResourceList: "http://127.0.0.1:1/resourcelist.xml"}}}
	dir := c.syncer.subscriberDir(set.name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	fault := errors.New("the disk fails")
	c.state.fault.Store(&fault)
	if err := c.syncer.beginAnew(set); !errors.Is(err, fault) {
		t.Errorf("%v, want that the state cannot be read", err)
	}
	if _, err := c.syncer.syncSet(t.Context(), set, newTally("")); !errors.Is(err, fault) {
		t.Errorf("%v, want that the state cannot be read", err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("the folder of the subscriber was written to: %v, %v", files, err)
	}
	c.state.fault.Store(nil)
	if err := c.syncer.beginAnew(set); err != nil {
		t.Error(err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) == 0 {
		t.Errorf("the subscriber did not begin anew: %v, %v", files, err)
	}
}
