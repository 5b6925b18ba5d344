package destination_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Nothing is left running after Sync, Follow and Close.
func TestLeavesNothingRunning(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.put("a", "body", 0)
	before := goleak.IgnoreCurrent()
	c := s.open(dir)
	if _, err := c.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := c.Follow(ctx); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	s.CloseClientConnections()
	goleak.VerifyNone(t, before)
}
