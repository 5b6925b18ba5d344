package app

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rshub/rshub/internal/base/clock"
)

// A step of the machine's clock is logged once, and so is its end.
func TestClockStepsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var off atomic.Int64
		core, logged := observer.New(zap.InfoLevel)
		a := &App{log: zap.New(core), clock: clock.New(func() time.Time { return time.Now().Add(time.Duration(off.Load())) })}
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.watchClock(ctx) }()
		for _, step := range []time.Duration{0, time.Hour, 0, -time.Hour} {
			off.Store(int64(step))
			time.Sleep(time.Minute)
		}
		time.Sleep(clock.Hold)
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		var events []string
		for _, line := range logged.All() {
			event, _ := line.ContextMap()["event"].(string)
			events = append(events, event)
		}
		if want := []string{"clock_stepped", "clock_settled", "clock_stepped", "clock_settled"}; !slices.Equal(events, want) {
			t.Errorf("logged %v, want %v", events, want)
		}
	})
}
