package app

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/cluster"
	"github.com/rshub/rshub/internal/engine/telemetry"
	"github.com/rshub/rshub/internal/program/config"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/seal"
)

// storeKind is what app knows of one kind of store.
type storeKind struct {
	// named reports whether the settings name a store of this kind.
	named func(*config.Config) bool
	// open opens the store that the settings name.
	open func(context.Context, *config.Config, storeOptions) (*backend, error)
	// connections is how many connections the store may have open at once; nil: none.
	connections func(*config.Config) int
	// unavailable are the errors of a store that answers nothing, whatever topic it is
	// asked about.
	unavailable []error
}

// storeKinds are all kinds of stores. The first one that the settings name is used. A
// new kind is a package below store/, its row here, and its settings.
var storeKinds = []storeKind{redisStore, embeddedStore}

// kindOf returns the kind of store that the settings name.
func kindOf(cfg *config.Config) storeKind {
	return storeKinds[slices.IndexFunc(storeKinds, func(k storeKind) bool { return k.named(cfg) })]
}

// backend is an open store.
type backend struct {
	hubStore
	info admin.StoreInfo
	// leases are those of the hubs on the store; cluster.Alone: no other hub can use it.
	leases cluster.Store
	// board is where hubs show each other how they are; nil: there are no others.
	board cluster.Board
	// upgrader finishes an upgrade of the store's format; nil: the store has had one format
	// only. Format is the newest one that this version knows, if hubs of several versions may
	// be on the store.
	upgrader cluster.Upgrader
	format   int
	// poll asks about many partitions and shards at once, and time reads the store's
	// clock. Nil: the store cannot do that.
	poll func(ctx context.Context, partitions, shards map[int]uint64) (moved, changed []int, err error)
	time func(context.Context) (time.Time, error)
}

// hubStore is what every store does.
type hubStore interface {
	telemetry.Store
	journal.Restorer
	journal.Notebook
	journal.Shelf
	ID() string
	// Ready is nil if the store can accept a notification. journal.ErrFull says that
	// it has no room.
	Ready(ctx context.Context) error
	// Space returns how many bytes are free, and below how many nothing new is
	// stored. False: that is not known.
	Space() (free, least int64, ok bool)
	Close() error
}

// storeOptions are what a store needs besides the settings.
type storeOptions struct {
	log  *zap.Logger
	keys *seal.Keys // of --seal-key-file; nil: there are none
	// existing has open return ErrNoStore if there is no store, and make none.
	existing bool
	// reads says that nothing is stored, and that secrets stay as they are.
	reads bool
	// hub are the callbacks of a hub. Nil: the store is opened for an export or an
	// import, while hubs may be at work on it.
	hub *storeHooks
}

// storeHooks are what a store calls in a hub. None of them waits.
type storeHooks struct {
	// unreadable and unreadableTopic report what the hub continues without.
	unreadable, unreadableTopic func(id uuid.UUID, why error)
	// reached returns how far the subscriptions got that this hub delivers to.
	reached func(partitions []int) (of []journal.Reached, ready bool)
	// gap counts a gap that the store itself recorded.
	gap func(journal.Gap)
}

// unreadable counts what the hub could not read since it started, and continues without.
type unreadable struct{ subscriptions, topics atomic.Int64 }

// openStore opens the store with the keys of --seal-key-file.
func (a *App) openStore(ctx context.Context) error {
	var err error
	if a.keys, err = sealKeys(a.cfg, a.log); err != nil {
		return err
	}
	a.backend, err = openWhole(ctx, &a.cfg, storeOptions{log: a.log, keys: a.keys, hub: &storeHooks{
		unreadable: a.backups.noting(oncePerID(func(id uuid.UUID, why error) {
			a.unreadable.subscriptions.Add(1)
			a.log.Error("the record of a subscription cannot be read, so the hub continues without it",
				zap.String("event", "subscription_unreadable"), zap.Stringer("subscription_id", id), zap.Error(why))
		})),
		unreadableTopic: a.backups.noting(oncePerID(func(id uuid.UUID, why error) {
			a.unreadable.topics.Add(1)
			a.log.Error("the hub continues without a topic, because its state in the store cannot be read",
				zap.String("event", "topic_unreadable"), zap.Stringer("topic_id", id), zap.Error(why))
		})),
		reached: a.reached,
		gap:     func(g journal.Gap) { a.metrics.Gap(g) }, // the metrics start later
	}})
	return err
}

// reached returns how far the subscriptions got. All are known when the start is over. The
// start has a time limit.
func (a *App) reached(partitions []int) (of []journal.Reached, ready bool) {
	d, s := a.dispatcher.Load(), a.shards.Load()
	if d == nil || s == nil {
		return nil, false
	}
	return d.Reached(partitions), s.keeper.Starting() == nil
}

// logSealed logs which keys a store still needs.
func logSealed(log *zap.Logger, s seal.Status) {
	if s.Key != nil {
		log.Info("every stored secret is sealed with one key; no other key is needed any more",
			zap.String("event", "secrets_sealed"), zap.Stringer("key", s.Key), zap.Int("resealed", s.Resealed), zap.Stringers("retired", s.Retired))
	}
}

// oncePerID calls report once for each id.
func oncePerID(report func(id uuid.UUID, why error)) func(uuid.UUID, error) {
	var reported sync.Map
	return func(id uuid.UUID, why error) {
		if _, before := reported.LoadOrStore(id, true); !before {
			report(id, why)
		}
	}
}

// unavailable reports whether err concerns no single topic: the store does not answer,
// or ctx has ended.
func unavailable(ctx context.Context, err error) bool {
	if err != nil && ctx.Err() != nil {
		return true
	}
	return slices.ContainsFunc(storeKinds, func(k storeKind) bool {
		return slices.ContainsFunc(k.unavailable, func(e error) bool { return errors.Is(err, e) })
	})
}
