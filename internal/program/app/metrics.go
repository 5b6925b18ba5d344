package app

import (
	"context"
	"time"

	"github.com/rshub/rshub/delivery"
	"github.com/rshub/rshub/internal/engine/telemetry"
	"github.com/rshub/rshub/subscriptions"
)

// startMetrics makes the metrics that every part reports to, and counts and times the store.
func (a *App) startMetrics(ctx context.Context) {
	lossAfter, _ := a.lossAfter()
	a.metrics = telemetry.NewMetrics(a.version, telemetry.Sources{
		Ready: func() bool { return a.isReady(ctx) },
		Delivery: func() (s delivery.Stats, c delivery.LagReport) {
			if d := a.dispatcher.Load(); d != nil {
				s, c = d.Stats(), d.LagReport()
			}
			return s, c
		},
		Shares: func() (owned, live int) {
			if s := a.shards.Load(); s != nil {
				owned, live = s.Owned(), s.Live()
			}
			return owned, live
		},
		ClockStep: a.clock.Step,
		Subscriptions: func() (c subscriptions.Counts) {
			if s := a.service.Load(); s != nil {
				c = s.Counts()
			}
			return c
		},
		Space: a.backend.Space,
		Outlook: telemetry.Outlook{
			Journal: a.usage.Load, FirstLoss: a.fleet.nextLoss, LossAfter: lossAfter, Reloads: a.reloads.latest,
			Certificates: func() map[string]time.Time {
				ends := map[string]time.Time{}
				for name, l := range map[string]listener{telemetry.PublicListener: a.public, telemetry.AdminListener: a.admin} {
					if l.certificate != nil {
						ends[name] = l.certificate.Leaf().NotAfter
					}
				}
				return ends
			},
		},
	})
	a.store = a.metrics.Store(a.backend)
	a.stops.background(ctx, "metrics", a.metrics.Run, a.failed)
	a.stops.background(ctx, "clock", a.watchClock, a.failed)
}

// isReady returns for a metric what GET /readyz answers. It waits a second at most.
func (a *App) isReady(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	for _, c := range a.ready(ctx) {
		if c.Err != nil {
			return false
		}
	}
	return true
}

// all returns a function that calls each of these in turn.
func all[E any](of ...func(E)) func(E) {
	return func(e E) {
		for _, f := range of {
			f(e)
		}
	}
}
