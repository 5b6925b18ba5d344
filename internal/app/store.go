package app

import (
	"context"
	"sync"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/internal/config"
	"github.com/rshub/rshub/internal/seal"
	"github.com/rshub/rshub/internal/telemetry"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/embedstore"
	"github.com/rshub/rshub/store/redisstore"
)

// ErrStoreRefused is wrapped by what Start and the others return where there is a
// Redis that no hub may work on as it is, or not the one that is pinned.
var ErrStoreRefused = redisstore.ErrRefused

// backend is the store of a hub: a folder, or Redis.
type backend interface {
	telemetry.Store
	journal.Restorer
	ID() string
	// Ready is nil when it can take a notification; journal.ErrFull: for want of
	// room.
	Ready(ctx context.Context) error
	Close() error
}

// openBackend opens the store that the settings name. Unreadable is told of
// subscriptions that cannot be read; nil: reading them fails.
func openBackend(ctx context.Context, cfg config.Config, keys *seal.Keys, log *zap.Logger, unreadable func(uuid.UUID, error)) (backend, error) {
	if cfg.RedisURL == "" {
		s, err := embedstore.Open(cfg.DataDir, embedstore.Options{Keys: keys, Unreadable: unreadable})
		if err != nil {
			return nil, err
		}
		logSealed(log, s.Secrets())
		return s, nil
	}
	s, err := redisstore.Open(ctx, redisstore.Options{
		URL: string(cfg.RedisURL), Prefix: cfg.RedisPrefix, Keys: keys,
		InstallID: cfg.InstallID, AcceptEmpty: cfg.AcceptEmptyStore,
		Refusing: func(why error) {
			if why == nil {
				log.Info("the store takes notifications again", zap.String("event", "store_accepted"))
				return
			}
			log.Error("nothing is stored any more", zap.String("event", "store_refused"), zap.Error(why))
		},
		Unreadable: unreadable,
	})
	if err != nil {
		return nil, err
	}
	for _, w := range s.Warnings() {
		log.Warn(w, zap.String("event", "store_settings"))
	}
	if s.New() {
		log.Info("new store, id "+s.ID()+": pin it with --install-id, and a Redis that was emptied is noticed at the start",
			zap.String("event", "store_created"), zap.String("store_id", s.ID()))
	}
	logSealed(log, embedstore.Secrets(s.Secrets()))
	return s, nil
}

// logSealed tells the operator which keys a store still needs.
func logSealed(log *zap.Logger, s embedstore.Secrets) {
	if s.Key != nil {
		log.Info("every stored secret is sealed with one key, and no other is needed any more",
			zap.String("event", "secrets_sealed"), zap.Stringer("key", s.Key), zap.Int("resealed", s.Resealed), zap.Stringers("retired", s.Retired))
	}
}

// openStore opens the store with the keys of --seal-key-file.
func (a *App) openStore(ctx context.Context) error {
	keys, err := sealKeys(a.cfg, a.log)
	if err != nil {
		return err
	}
	a.backend, err = openBackend(ctx, a.cfg, keys, a.log, logUnreadable(a.log))
	return err
}

// logUnreadable tells the operator of each subscription that cannot be read, once.
func logUnreadable(log *zap.Logger) func(uuid.UUID, error) {
	var told sync.Map
	return func(id uuid.UUID, why error) {
		if _, before := told.LoadOrStore(id, true); !before {
			log.Error("what is stored of a subscription cannot be read, so the hub goes on without it",
				zap.String("event", "subscription_unreadable"), zap.Stringer("subscription_id", id), zap.Error(why))
		}
	}
}

// poll asks about all partitions and shards at once, where the store offers that.
// Nil: it does not.
func (a *App) poll() func(ctx context.Context, partitions, shards map[int]uint64) (moved, changed []int, err error) {
	if s, ok := a.backend.(*redisstore.Store); ok {
		return s.Poll
	}
	return nil
}

// storeInfo says where the store is.
func (a *App) storeInfo() admin.StoreInfo {
	if s, ok := a.backend.(*redisstore.Store); ok {
		return admin.StoreInfo{Kind: "redis", Location: s.Location(), ID: s.ID()}
	}
	return admin.StoreInfo{Kind: "embedded", Location: a.cfg.DataDir, ID: a.backend.ID()}
}
