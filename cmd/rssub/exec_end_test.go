package main

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/rshub/rshub/subscriber"
)

// A command that is nearly done when rssub is asked to end is done with its change. One that is not is ended, and its change
// comes again.
func TestCommandsEndWithRssub(t *testing.T) {
	for line, done := range map[string]bool{"sleep 0.3": true, "sleep 0.3; exit 1": false, "sleep 60": false} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer time.AfterFunc(100*time.Millisecond, cancel).Stop()
			began := time.Now()
			x := command{line: line, out: io.Discard, errOut: io.Discard}
			if got := x.untilDone(ctx, slog.New(slog.DiscardHandler), &subscriber.Change{}); got != done {
				t.Errorf("done: %v, want %v", got, done)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}
