package app

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/rshub/rshub/internal/base/clock"
)

// clockEvery is how often the hub checks whether the machine's clock was set.
const clockEvery = 10 * time.Second

// watchClock logs when the machine's clock is set, and what follows from that.
func (a *App) watchClock(ctx context.Context) error {
	tick := time.NewTicker(clockEvery)
	defer tick.Stop()
	log := a.log.Named("clock")
	for before := time.Duration(0); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		step := a.clock.Step()
		switch {
		case step != 0 && (step-before).Abs() > clockEvery:
			log.Warn("the clock of this machine was set; the hub goes by the time from before as well, until the step has lasted",
				zap.String("event", "clock_stepped"), zap.Duration("step", step), zap.Duration("counts_after", clock.Hold))
		case step == 0 && before != 0:
			log.Info("the clock of this machine and the time that the hub goes by are the same again",
				zap.String("event", "clock_settled"), zap.Time("now", a.clock.Now()))
		}
		before = step
	}
}
