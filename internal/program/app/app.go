package app

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/delivery"
	"github.com/rshub/rshub/hub"
	"github.com/rshub/rshub/hub/history"
	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/internal/engine/telemetry"
	"github.com/rshub/rshub/internal/program/config"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/seal"
	"github.com/rshub/rshub/subscriptions"
)

// stopGrace is how long stopping may take beyond the time to drain. It includes the release of
// shards, storing the last cursors, and the times that are reserved for the parts that stop
// after that. So the process ends two seconds after the time to drain at the latest.
const (
	stopGrace     = 1900 * time.Millisecond
	stopDelivery  = 500 * time.Millisecond
	stopListener  = 100 * time.Millisecond
	stopTelemetry = 100 * time.Millisecond
	stopStore     = 150 * time.Millisecond
)

// App is one hub. Its life is New, Start, Stop; it cannot be started twice.
type App struct {
	cfg     config.Config
	version string
	log     *zap.Logger
	// wall reads the machine's clock; nil: time.Now.
	wall  func() time.Time
	clock *clock.Clock
	// resolver looks up what strangers name; nil: the system's.
	resolver *net.Resolver

	hubURL        string
	public, admin listener
	started       time.Time
	backend       *backend
	keys          *seal.Keys      // of --seal-key-file at the start; nil: there are none
	store         telemetry.Store // backend, counted and timed
	metrics       *telemetry.Metrics
	publishers    registry
	token         *adminToken // nil: there is none
	readerToken   *adminToken // the same
	reloads       reloads
	backups       backups
	unreadable    unreadable
	hub           *hub.Handler
	draining      atomic.Bool
	stopped       atomic.Bool
	shards        atomic.Pointer[shards]                // nil until startParts has made them
	dispatcher    atomic.Pointer[delivery.Dispatcher]   // the same
	service       atomic.Pointer[subscriptions.Service] // the same
	history       atomic.Pointer[history.Service]       // the same
	traces        *telemetry.Traces                     // nil: nothing is traced
	fleet         *fleet
	recent        recent // what happened in the last hour
	refusals      *refusals
	publishes     publishes
	settings      config.Origins                   // for the operator
	usage         atomic.Pointer[admin.JournalNow] // what the topics retain; nil: not known yet

	stops  stopper
	failed chan error
}

// New returns a hub that does nothing yet. Version appears in its User-Agent and for the
// operator. A nil log logs nothing.
func New(cfg config.Config, log *zap.Logger, version string) (*App, error) {
	if log == nil {
		log = zap.NewNop()
	}
	if cfg.NodeID == "" {
		cfg.NodeID = uuid.NewString()
	}
	a := &App{cfg: cfg, version: version, failed: make(chan error, 1), recent: recent{node: cfg.NodeID}}
	a.backups.app = a
	a.fleet = &fleet{app: a, log: log.Named("fleet")}
	a.log = log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core { return untilStopped{recording{c, &a.recent}, &a.stopped} }))
	log = a.log
	a.refusals = newRefusals(cfg.NodeID, func() journal.Notebook {
		if a.backend == nil {
			return nil
		}
		return a.backend
	}, a.knowsTopic, a.log.Named("refusals"))
	if err := a.publishers.begin(cfg.PublishersFile, cfg.Publishers, log); err != nil {
		return nil, err
	}
	a.reloads.add(telemetry.ReloadPublishers, &a.publishers)
	if cfg.AdminTokenFile != "" {
		a.token = newAdminToken("operator's token", cfg.AdminTokenFile, cfg.AdminToken, log)
		a.reloads.add(telemetry.ReloadToken, a.token)
	}
	if cfg.ReaderTokenFile != "" {
		a.readerToken = newAdminToken("read-only token", cfg.ReaderTokenFile, cfg.ReaderToken, log)
		a.reloads.add(telemetry.ReloadReadonlyToken, a.readerToken)
	}
	return a, nil
}

// Start opens the store and the listeners, and starts every part. When it returns nil, the hub
// answers; the log line of the event "listening" has its actual addresses. After an error
// nothing is left running.
func (a *App) Start(ctx context.Context) error {
	if err := a.start(ctx); err != nil {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
		defer cancel()
		return errors.Join(err, a.stops.stop(stopping, a.log))
	}
	a.log.Info("the hub listens", zap.String("event", "listening"),
		zap.String("addr", a.Addr()), zap.String("admin_addr", a.AdminAddr()), zap.String("hub_url", a.hubURL),
		zap.String("store", a.backend.info.Location), zap.String("store_id", a.backend.ID()), zap.String("node_id", a.cfg.NodeID),
		zap.String("version", a.version))
	return nil
}

func (a *App) start(ctx context.Context) error {
	a.started, a.clock = time.Now(), clock.New(a.wall)
	warnOpenFiles(&a.cfg, a.log)
	a.stops.stage(stopStore)
	if err := a.listen(ctx); err != nil {
		return err
	}
	if err := a.openStore(ctx); err != nil {
		return err
	}
	a.stops.add("store", func(context.Context) error { return a.backend.Close() })
	a.logUpgrade()

	a.stops.stage(stopTelemetry)
	a.startMetrics(ctx)
	if err := a.startTraces(ctx); err != nil {
		return err
	}

	// The operator's side starts first and stops last, so that it can report what happens
	// in between.
	a.stops.stage(stopListener)
	a.serve(ctx, a.admin, a.adminServer())
	a.stops.background(ctx, "watch of files", a.reloads.watch, a.failed)
	a.stops.background(ctx, "summaries", a.fleet.run, a.failed)
	a.stops.background(ctx, "refusals", a.refusals.run, a.failed)
	return a.startParts(ctx)
}

// people says how a proxy names the people whom it lets in; nil: it does not.
func people(c *config.Config) *admin.People {
	if c.AdminAuthHeader == "" {
		return nil
	}
	return &admin.People{Proxies: c.AdminAuthProxy, Header: c.AdminAuthHeader, RoleHeader: c.AdminAuthRoleHeader}
}

// ShowSettings has the operator's listener show where the settings come from. It has to be
// called before Start.
func (a *App) ShowSettings(origins config.Origins) { a.settings = origins }

// ready returns the checks of GET /readyz. It leaves out what it cannot check: the space of a
// store that does not answer, and leases if there are none.
func (a *App) ready(ctx context.Context) []admin.Check {
	checks := []admin.Check{{Name: "starting", Holds: "the start is over", Err: a.starting()}}
	store, space := a.backend.Ready(ctx), error(nil)
	if errors.Is(store, journal.ErrFull) {
		store, space = nil, store
	}
	checks = append(checks, admin.Check{Name: "store", Holds: "it answers", Err: store})
	if store == nil {
		checks = append(checks, admin.Check{Name: "high water", Holds: "it is not reached", Err: space})
	}
	if s := a.shards.Load(); s != nil && s.shared() {
		checks = append(checks, admin.Check{Name: "cluster", Holds: "no lease of this hub is overdue", Err: s.keeper.Check()})
	}
	var ending error
	if a.draining.Load() {
		ending = errors.New("the hub is shutting down")
	}
	return append(checks, admin.Check{Name: "draining", Holds: "the hub was not asked to end", Err: ending})
}

// starting returns an error until the hub delivers to its own subscriptions, or knows that it
// has none.
func (a *App) starting() error {
	if s := a.shards.Load(); s != nil {
		return s.keeper.Starting()
	}
	return errors.New("the parts that deliver to the subscriptions are being started")
}

func (a *App) info(ctx context.Context) admin.Info {
	i := admin.Info{
		Version:   a.version,
		Addresses: admin.Addresses{Public: a.Addr(), Admin: a.AdminAddr()},
		HubURL:    a.hubURL,
		Store:     a.backend.info,
		NodeID:    a.cfg.NodeID,
		StartedAt: a.started,
		Uptime:    time.Since(a.started).Seconds(),
	}
	if s := a.shards.Load(); s != nil {
		var err error
		if i.Nodes, i.Unowned, err = s.nodes(ctx); err != nil {
			i.NodesError = err.Error()
		}
	}
	return i
}

// Addr is the actual address of the public listener, host:port, after Start.
func (a *App) Addr() string { return a.public.Addr().String() }

// AdminAddr is that of the operator's listener.
func (a *App) AdminAddr() string { return a.admin.Addr().String() }

// HubURL is the hub URI, after Start.
func (a *App) HubURL() string { return a.hubURL }

// Failed receives the error of a part that ended by itself. Stop the hub then.
func (a *App) Failed() <-chan error { return a.failed }

// Stop ends the hub. Readiness turns to 503, the hub refuses publishes, deliveries in flight
// get the time of --drain, cursors are flushed, and the store is closed. Even if something
// hangs, Stop returns within --drain and two seconds, or when ctx ends. It does not wait for
// what is unfinished by then. The log says so, and it is not an error. No stored notification
// or subscription is lost. Nothing is logged afterwards. Another call does nothing.
func (a *App) Stop(ctx context.Context) error {
	if a.hub != nil {
		a.hub.SetDraining(true)
		a.history.Load().Drain()
	}
	a.draining.Store(true)
	limit, cancel := context.WithTimeout(ctx, a.cfg.Drain+stopGrace)
	defer cancel()
	defer a.stopped.Store(true)
	return a.stops.stop(limit, a.log)
}
