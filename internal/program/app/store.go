package app

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/internal/engine/telemetry"
	"github.com/rshub/rshub/internal/program/config"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/embedstore"
	"github.com/rshub/rshub/store/redisstore"
	"github.com/rshub/rshub/store/seal"
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
	// Space is how many bytes are free, and under how many nothing new is stored;
	// false: that is not known.
	Space() (free, least int64, ok bool)
	Close() error
}

// openBackend opens the store that the settings name. O has what they do not: whom to
// tell of what, and what only a hub knows. Nil Unreadables: reading what is damaged
// fails.
func openBackend(ctx context.Context, cfg config.Config, keys *seal.Keys, log *zap.Logger, o redisstore.Options) (backend, error) {
	if cfg.RedisURL == "" {
		minFree := cfg.MinFreeDisk
		if minFree == 0 {
			minFree = -1 // which is the store's word for none
		}
		s, err := embedstore.Open(cfg.DataDir, embedstore.Options{MinFree: minFree, Keys: keys, Unreadable: o.Unreadable, UnreadableTopic: o.UnreadableTopic})
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
				log.Info("the store accepts notifications again", zap.String("event", "store_accepted"))
				return
			}
			log.Error("nothing is stored any more", zap.String("event", "store_refused"), zap.Error(why))
		},
		Unreadable: o.Unreadable, UnreadableTopic: o.UnreadableTopic,
		Lease: o.Lease, Reached: o.Reached, Lost: o.Lost, Visitor: o.Visitor,
	})
	if err != nil {
		return nil, err
	}
	for _, w := range s.Found.Warnings {
		log.Warn(w, zap.String("event", "store_settings"))
	}
	if s.Found.New {
		log.Info("new store, id "+s.ID()+": pin it with --install-id, and a Redis that was emptied is noticed at the start",
			zap.String("event", "store_created"), zap.String("store_id", s.ID()))
	}
	logSealed(log, s.Found.Secrets)
	return s, nil
}

// logSealed tells the operator which keys a store still needs.
func logSealed(log *zap.Logger, s seal.Status) {
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
	a.backend, err = openBackend(ctx, a.cfg, keys, a.log, redisstore.Options{
		Unreadable: logUnreadable(a.log), UnreadableTopic: logUnreadableTopic(a.log),
		Lease: a.cfg.OwnerLease, Reached: a.reached, Lost: a.lost,
	})
	return err
}

// reached tells the store how far the subscriptions got. They are known when the start
// is over, for which there is a limit.
func (a *App) reached(partitions []int) (of []journal.Reached, ready bool) {
	d, s := a.dispatcher.Load(), a.shares.Load()
	if d == nil || s == nil {
		return nil, false
	}
	return d.Reached(partitions), s.Starting() == nil
}

// lost counts and logs what Redis lost.
func (a *App) lost(l redisstore.Loss) {
	var count uint64
	for _, g := range l.Gaps {
		a.metrics.Gap(g)
		count += g.Count
	}
	log := a.log.With(zap.Int("partition", l.Partition), zap.Int("topics", l.Topics), zap.Int("vanished", l.Vanished),
		zap.String("topic", l.Topic), zap.Uint64("count", count))
	if l.Emptied {
		log.Error("a partition of the store in Redis came back empty: the topics that this hub remembers are there again, without notifications, and their Sources have to publish again",
			zap.String("event", "partition_emptied"))
		return
	}
	log.Warn("Redis lost notifications that it had acknowledged: their topics record the gap, and their Sources have to publish them again",
		zap.String("event", "tail_lost"))
}

// logUnreadable tells the operator of each subscription that cannot be read, once.
func logUnreadable(log *zap.Logger) func(uuid.UUID, error) {
	var told sync.Map
	return func(id uuid.UUID, why error) {
		if _, before := told.LoadOrStore(id, true); !before {
			log.Error("the record of a subscription cannot be read, so the hub continues without it",
				zap.String("event", "subscription_unreadable"), zap.Stringer("subscription_id", id), zap.Error(why))
		}
	}
}

// logUnreadableTopic tells the operator of each topic that cannot be read, once.
func logUnreadableTopic(log *zap.Logger) func(uuid.UUID, error) {
	var told sync.Map
	return func(id uuid.UUID, why error) {
		if _, before := told.LoadOrStore(id, true); !before {
			log.Error("the hub continues without a topic, because its state in the store cannot be read",
				zap.String("event", "topic_unreadable"), zap.Stringer("topic_id", id), zap.Error(why))
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

// storeTime reads the clock of the store; nil: the store has none.
func (a *App) storeTime() func(context.Context) (time.Time, error) {
	if s, ok := a.backend.(*redisstore.Store); ok {
		return s.Time
	}
	return nil
}

// storeInfo says where the store is.
func (a *App) storeInfo() admin.StoreInfo {
	if s, ok := a.backend.(*redisstore.Store); ok {
		return admin.StoreInfo{Kind: "redis", Location: s.Found.Location, ID: s.ID()}
	}
	return admin.StoreInfo{Kind: "embedded", Location: a.cfg.DataDir, ID: a.backend.ID()}
}
