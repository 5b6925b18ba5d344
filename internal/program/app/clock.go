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
	log := a.log.Named("clock")
	for before := time.Duration(0); clock.Sleep(ctx, clockEvery); {
		step := a.clock.Step()
		switch {
		case step != 0 && (step-before).Abs() > clockEvery:
			log.Warn("the clock of this machine was set; until the step has lasted, the hub also uses the time as it was before",
				zap.String("event", "clock_stepped"), zap.Duration("step", step), zap.Duration("counts_after", clock.Hold))
		case step == 0 && before != 0:
			log.Info("the clock of this machine and the time that the hub uses are the same again",
				zap.String("event", "clock_settled"), zap.Time("now", a.clock.Now()))
		}
		before = step
	}
	return nil
}
