package app

import (
	"cmp"
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/delivery"
	"github.com/rshub/rshub/hub"
	"github.com/rshub/rshub/hub/history"
	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/program/config"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/validate"
	"github.com/rshub/rshub/websub"
)

// startParts starts the parts that work in the background, from the journal outwards, and
// the public listener. The listener stops after deliveries, so that it can answer a publish
// with 503 and Retry-After meanwhile.
func (a *App) startParts(ctx context.Context) error {
	client, err := a.egressClient()
	if err != nil {
		return err
	}
	a.stops.add("outbound connections", func(context.Context) error { client.CloseIdleConnections(); return nil })
	shards, err := a.newShards()
	if err != nil {
		return err
	}
	budget := egress.NewBudget(a.cfg.VerifyBudget)
	budget.Refused, budget.Live = a.metrics.Refused, shards.keeper.Live
	topics, err := a.topicChecker(client, budget)
	if err != nil {
		return err
	}
	a.stops.add("topic check", func(context.Context) error { topics.Close(); return nil })

	dispatcher, err := a.newDispatcher(client, shards)
	if err != nil {
		return err
	}
	a.dispatcher.Store(dispatcher)
	shards.dispatcher = dispatcher
	a.shards.Store(shards)
	service, err := a.subscriptions(client, budget, topics, shards)
	if err != nil {
		return err
	}
	a.service.Store(service)
	readers, err := newHistory(a)
	if err != nil {
		return err
	}
	a.history.Store(readers)
	if a.hub, err = a.hubHandler(client, topics, service, shards); err != nil {
		return err
	}
	shards.hub = a.hub
	a.stops.stage(stopListener)
	a.serve(ctx, a.public, a.publicServer())
	a.stops.add("open streams", func(limit context.Context) error { a.history.Load().Finish(limit); return nil })
	a.stops.stage(stopDelivery)
	a.stops.background(ctx, "delivery", dispatcher.Run, a.failed)
	// The hub releases its shards before deliveries end: that is what --drain is for.
	a.stops.stage(0)
	a.stops.background(ctx, "retention", newRetention(a, shards).run, a.failed)
	a.stops.background(ctx, "shards", shards.run, a.failed)
	a.stops.background(ctx, "subscriptions", service.Run, a.failed)
	a.stops.background(ctx, "fetches of topics", a.hub.Fetch, a.failed)
	a.stops.background(ctx, "streams", a.history.Load().Run, a.failed)
	return nil
}

func newRetention(a *App, shards *shards) *retention {
	return &retention{
		store:     a.store,
		rule:      journal.Retention{Age: a.cfg.RetentionAge, PerTopic: a.cfg.RetentionBytes, Total: a.cfg.RetentionTotal},
		owns:      shards.keeper.Owns,
		log:       a.log.Named("retention"),
		clock:     a.clock,
		storeTime: a.backend.time,
		used:      func(j admin.JournalNow) { a.usage.Store(&j) },
	}
}

// userAgent is the User-Agent of every request of the hub.
func userAgent(version, hubURL string) string { return "rshub/" + version + " (+" + hubURL + ")" }

func (a *App) topicChecker(client *egress.Client, budget *egress.Budget) (*validate.TopicChecker, error) {
	log := a.log.Named("topics")
	return validate.NewTopicChecker(validate.TopicOptions{
		HubURL:  a.hubURL,
		Client:  client,
		Budget:  budget,
		Mode:    validate.TopicMode(a.cfg.TopicCheck),
		Timeout: a.cfg.Timeout,
		Warn: func(topic string, err error) {
			log.Warn("the topic check failed; let through by --topic-check=warn",
				zap.String("event", "topic_check_warning"), zap.String("topic", topic), zap.Error(err))
		},
	})
}

// found passes a request that delivery found to the service that verifies it.
func (a *App) found(rec subscriptions.Record) {
	if s := a.service.Load(); s != nil {
		s.Found(rec)
	}
}

func (a *App) newDispatcher(client *egress.Client, shards *shards) (*delivery.Dispatcher, error) {
	return delivery.New(delivery.Options{
		Journal:       a.store,
		Subscriptions: a.store,
		Owns:          shards.keeper.Owns,
		Poll:          a.backend.poll,
		Client:        client,
		HubURL:        a.hubURL,
		UserAgent:     userAgent(a.version, a.hubURL),
		Signature:     websub.SignatureMethod(a.cfg.Signature),
		Policy: delivery.Policy{
			First: a.cfg.RetryFirst, Max: a.cfg.RetryMax, GiveUp: a.cfg.GiveUp,
		},
		Timeout:          a.cfg.Timeout,
		Clock:            a.clock,
		MaxInflight:      a.cfg.MaxInflight,
		MaxInflightBytes: a.cfg.MaxInflightBytes,
		PerHost:          a.cfg.PerHost,
		CommitWindow:     a.cfg.CommitWindow,
		Event:            all(a.metrics.Attempt, a.traces.Attempt),
		Gap:              a.metrics.Gap,
		Damaged:          a.metrics.Damaged,
		Found:            a.found,
		Log:              a.log,
	})
}

func (a *App) subscriptions(client *egress.Client, budget *egress.Budget, topics *validate.TopicChecker, shards *shards) (*subscriptions.Service, error) {
	return subscriptions.New(subscriptions.Options{
		Store:             a.store,
		Heads:             a.store,
		Entries:           a.store,
		Client:            client,
		Budget:            budget,
		Check:             topics,
		LeaseMin:          a.cfg.LeaseMin,
		LeaseDefault:      a.cfg.LeaseDefault,
		LeaseMax:          a.cfg.LeaseMax,
		ResumeWithin:      a.cfg.ResumeWithin,
		MaxPending:        a.cfg.MaxPending,
		MaxPendingPerHost: a.cfg.MaxPendingPerHost,
		MaxPerHost:        a.cfg.MaxSubscriptionsPerHost,
		MaxTotal:          a.cfg.MaxSubscriptions,
		Timeout:           a.cfg.Timeout,
		Owns:              shards.keeper.Owns,
		Starting:          func() bool { return shards.keeper.Starting() != nil },
		Live:              shards.keeper.Live,
		Changed:           shards.dispatcher.Apply,
		Clock:             a.clock,
		StoreTime:         a.backend.time,
		Event:             all(a.metrics.Subscription, logEvents(a.log.Named("subscriptions")), a.refusals.subscription),
	})
}

// Limits of reading what the hub keeps, so that all readers together cost a small part of a core.
const (
	readEach  = 256 << 20 // bytes of notifications a minute, for one requester
	readTotal = 128 << 20 // in a quarter of a minute, for all: what may come at once has to leave deliveries their time
)

// newHistory returns what answers readers of the journal.
func newHistory(a *App) (*history.Service, error) {
	unlimited := func(n int) int { return cmp.Or(n, -1) }
	return history.New(history.Options{
		HubURL:         a.hubURL,
		Journal:        a.store,
		Watcher:        a.store,
		MaxAnswers:     unlimited(a.cfg.MaxHistory),
		MaxAnswersEach: unlimited((a.cfg.MaxHistory + 3) / 4),
		MaxStreams:     unlimited(a.cfg.MaxStreams),
		MaxStreamsEach: unlimited(a.cfg.MaxStreamsPerAddress),
		Stall:          a.cfg.StreamStall,
		Private:        a.cfg.Stream == config.StreamToken,
		Log:            a.log.Named("history"),
	})
}

func (a *App) hubHandler(client *egress.Client, topics *validate.TopicChecker, service *subscriptions.Service, shards *shards) (*hub.Handler, error) {
	auth, err := hub.ParsePublishAuth(a.cfg.PublishAuth)
	if err != nil {
		return nil, err
	}
	allow, err := convert(a.cfg.TopicAllow, validate.ParsePattern)
	if err != nil {
		return nil, err
	}
	deny, err := convert(a.cfg.TopicDeny, validate.ParsePattern)
	if err != nil {
		return nil, err
	}
	return hub.New(hub.Options{
		HubURL:                 a.hubURL,
		Journal:                a.store,
		Pings:                  a.store,
		Subscriptions:          service,
		Topics:                 topics,
		Publishers:             &a.publishers.live,
		Callbacks:              client,
		Auth:                   auth,
		AcceptGaps:             a.cfg.Continuity == config.ContinuityFlag,
		TopicAllow:             allow,
		TopicDeny:              deny,
		RequireHTTPSForSecrets: a.cfg.RequireHTTPSForSecrets,
		PublishRate:            hub.Rate{Events: a.cfg.PublishRate.Count, Per: a.cfg.PublishRate.Per},
		PublishBytes:           hub.Rate{Events: a.cfg.PublishBytes.Count, Per: a.cfg.PublishBytes.Per},
		SubscribeRate:          hub.Rate{Events: a.cfg.SubscribeRate.Count, Per: a.cfg.SubscribeRate.Per},
		Owns:                   shards.keeper.Owns,
		Live:                   shards.keeper.Live,
		Clock:                  a.clock,
		MaxBody:                a.cfg.MaxBody,
		History:                a.history.Load(),
		Read:                   hub.ReadAccess(a.cfg.Stream),
		ReadOrigins:            a.cfg.StreamOrigin,
		ReadBytes:              readRate(&a.cfg, readEach, time.Minute),
		ReadTotal:              readRate(&a.cfg, readTotal, time.Minute/4),
		AllowHosts:             a.cfg.AllowHost,
		TrustedProxies:         a.cfg.TrustedProxy,
		Event:                  all(a.metrics.Request, a.traces.Publish, a.refusals.request, a.publishes.count),
		Log:                    a.log,
	})
}

// readRate is a limit of reading; with --max-history=0 there is none.
func readRate(cfg *config.Config, bytes int, per time.Duration) hub.Rate {
	if cfg.MaxHistory == 0 {
		return hub.Rate{}
	}
	return hub.Rate{Events: max(bytes, 2*int(cfg.MaxBody)), Per: per}
}

// convert returns what one makes of each item. It ends with the first error.
func convert[A, B any](list []A, one func(A) (B, error)) ([]B, error) {
	out := make([]B, len(list))
	for i, item := range list {
		var err error
		if out[i], err = one(item); err != nil {
			return nil, err
		}
	}
	return out, nil
}
