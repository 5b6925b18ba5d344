package main

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/rshub/rshub/subscriber"
)

// onWrite is called when something is written.
type onWrite func()

func (f onWrite) Write(b []byte) (int, error) {
	f()
	return len(b), nil
}

// A command that is nearly done when rssub is asked to end is done with its change. One that is not is ended, and its change
// comes again.
func TestCommandsEndWithRssub(t *testing.T) {
	for line, done := range map[string]bool{"sleep 0.05": true, "sleep 0.05; exit 1": false, "sleep 60": false} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var asked time.Time
			x := command{line: "echo begun; " + line, errOut: io.Discard, out: onWrite(func() {
				asked = time.Now()
				cancel()
			})}
			if got := x.untilDone(ctx, slog.New(slog.DiscardHandler), &subscriber.Change{}); got != done {
				t.Errorf("done: %v, want %v", got, done)
			}
			if took := time.Since(asked); took > termFor {
				t.Errorf("it went on for %v", took)
			}
		})
	}
}
