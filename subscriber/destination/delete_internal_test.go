package destination

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/resourcesync"
)

// More deletions than are allowed stay held, all of them, even if only some are due to be tried again.
func TestHeldDeletionsAreNotTriedBitByBit(t *testing.T) {
	c, now := withHeld(t, 5, 15)
	run := newTally("")
	if err := c.reconciler.tryAgain(t.Context(), run, now); err != nil || run.Deleted != 0 || run.Held == 0 {
		t.Errorf("%v %+v", err, run.report())
	}
}

// Those of changes that are being carried out count, too.
func TestHeldDeletionsWaitForTheRest(t *testing.T) {
	c, now := withHeld(t, 5, 0)
	c.reconciler.coming.Add(20)
	run := newTally("")
	if err := c.reconciler.tryAgain(t.Context(), run, now); err != nil || run.Deleted != 0 || run.Held != 5 {
		t.Errorf("%v %+v", err, run.report())
	}
}

// withHeld returns a copy whose files are to be deleted, and are held: some of them are due at the time that it returns, and
// others are not.
func withHeld(t *testing.T, due, later int) (*Copy, time.Time) {
	t.Helper()
	dir := t.TempDir()
	c, err := Open(Options{Source: "http://127.0.0.1:1/", Dir: dir, Allow: egress.DevAllow()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	now, d := time.Now(), records{}
	for i := range due + later {
		name := fmt.Sprint("f", i)
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		d["http://127.0.0.1:1/"+name] = record{
			says:   &membershipChange{sets: []string{"a set"}, leaves: true},
			file:   &file{Path: name, Set: "a set"},
			failed: &failure{Set: "a set", Change: resourcesync.Deleted, Length: -1, Held: true, NextAt: now.Add(time.Duration(i-due) * time.Second)},
		}
	}
	if err := c.state.store(d, c.tree.fold, now); err != nil {
		t.Fatal(err)
	}
	return c, now
}
