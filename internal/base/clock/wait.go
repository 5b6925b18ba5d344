package clock

import (
	"context"
	"time"
)

// Sleep waits for d, at most until ctx ends. It reports whether ctx still goes on.
func Sleep(ctx context.Context, d time.Duration) bool { return Wait(ctx, d, nil) }

// Wait waits for d, at most until ctx ends or wake has something or is closed. It reports
// whether ctx still goes on.
func Wait(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-wake:
	}
	return ctx.Err() == nil
}

// Later returns the later one of two instants.
func Later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
