package clock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A wait ends with its time, with what wakes it or with its context, whichever is first,
// and tells the last from the others.
func TestWait(t *testing.T) {
	const never = time.Hour
	for name, tt := range map[string]struct {
		time, woken, ended time.Duration // after the start
		goesOn             bool
		takes              time.Duration
	}{
		"its time":                {time.Second, never, never, true, time.Second},
		"no time":                 {0, never, never, true, 0},
		"what wakes it":           {time.Minute, time.Second, never, true, time.Second},
		"its context":             {time.Minute, never, time.Second, false, time.Second},
		"its context, beforehand": {time.Minute, never, 0, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				wake := make(chan struct{})
				defer time.AfterFunc(tt.woken, func() { close(wake) }).Stop()
				if tt.ended == 0 {
					cancel()
				}
				defer time.AfterFunc(tt.ended, cancel).Stop()
				begin := time.Now()
				if on := Wait(ctx, tt.time, wake); on != tt.goesOn || time.Since(begin) != tt.takes {
					t.Errorf("%v after %v; want %v after %v", on, time.Since(begin), tt.goesOn, tt.takes)
				}
				if tt.woken == never {
					begin = time.Now()
					if on := Sleep(ctx, time.Second); on != tt.goesOn || on && time.Since(begin) != time.Second {
						t.Errorf("asleep for %v, and then %v", time.Since(begin), on)
					}
				}
			})
		})
	}
}
