package app

import (
	"context"
	"time"

	"github.com/rshub/rshub/internal/engine/telemetry"
)

// startMetrics makes the metrics that every part reports to, and counts and times the store.
func (a *App) startMetrics(ctx context.Context) {
	after, _ := lossAfter(&a.cfg)
	a.metrics = telemetry.NewMetrics(a.version, telemetry.Sources{
		Now: func() telemetry.Now { return a.now(ctx) }, Space: a.backend.Space, LossAfter: after,
	})
	a.store = a.metrics.Store(a.backend)
	a.stops.background(ctx, "metrics", a.metrics.Run, a.failed)
	a.stops.background(ctx, "clock", a.watchClock, a.failed)
}

// now is the present state of this hub, for the metrics.
func (a *App) now(ctx context.Context) telemetry.Now {
	n := telemetry.Now{
		Ready: a.isReady(ctx), ClockStep: a.clock.Step(), FirstLoss: a.fleet.nextLoss(), Reloads: a.reloads.latest(),
		UnreadableSubscriptions: a.unreadable.subscriptions.Load(), UnreadableTopics: a.unreadable.topics.Load(),
		UpgradePending: a.backend.upgradePending(), Certificates: map[string]time.Time{},
	}
	if d := a.dispatcher.Load(); d != nil {
		n.Delivery, n.Lags = d.Stats(), d.LagReport()
	}
	if h := a.history.Load(); h != nil {
		n.Streams = h.Stats()
	}
	if s := a.shards.Load(); s != nil {
		n.ShardsOwned, n.HubsLive = s.keeper.Owned(), s.keeper.Live()
	}
	if s := a.service.Load(); s != nil {
		n.Subscriptions = s.Counts()
	}
	if j := a.usage.Load(); j != nil {
		n.Journal = *j
	}
	for name, l := range map[string]listener{telemetry.PublicListener: a.public, telemetry.AdminListener: a.admin} {
		if l.certificate != nil {
			n.Certificates[name] = l.certificate.Leaf().NotAfter
		}
	}
	return n
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
