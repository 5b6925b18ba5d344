package destination_test

import (
	"context"
	"net/http"
	"testing"
)

// A run that ended while it tried failed resources again does not report that the copy is in sync, although it
// read all changes.
func TestUnfinishedRunIsNotInSync(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.put("a", "body", 0)
	s.put("b", "body", 0)
	s.set("/data/b", http.NotFound)
	c := s.open(dir)
	if r, err := c.Sync(t.Context()); err != nil || r.Failed != 1 || r.Until.IsZero() || r.Error != "" {
		t.Fatalf("%v %+v", err, r)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	s.set("/data/b", func(http.ResponseWriter, *http.Request) { interrupt() })
	if r, err := c.Sync(ctx); err == nil || r.Error != err.Error() || r.InSync() || !r.Until.IsZero() {
		t.Errorf("%v %+v", err, r)
	}
	s.set("/data/b", nil)
	if r, err := c.Sync(t.Context()); err != nil || r.Copied != 1 || !r.InSync() || r.Until.IsZero() {
		t.Errorf("%v %+v", err, r)
	}
}
