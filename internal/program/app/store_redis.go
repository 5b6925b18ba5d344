package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.uber.org/zap"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/internal/program/config"
	"github.com/rshub/rshub/store/redisstore"
)

// ErrStoreRefused is wrapped by what Start, Export, Import and Restore return if no hub may work
// on the Redis as it is, or if it is not the one that --install-id names.
var ErrStoreRefused = redisstore.ErrRefused

// redisStore is the store in Redis.
var redisStore = storeKind{
	named:       func(cfg *config.Config) bool { return cfg.RedisURL != "" },
	open:        openRedis,
	connections: redisConnections,
	unavailable: []error{redisstore.ErrAway, redisstore.ErrClosed},
}

func openRedis(ctx context.Context, cfg *config.Config, o storeOptions) (*backend, error) {
	log := o.log
	options := redisstore.Options{
		URL: string(cfg.RedisURL), Prefix: cfg.RedisPrefix, Keys: o.keys,
		InstallID: cfg.InstallID, AcceptEmpty: cfg.AcceptEmptyStore,
		Visitor: o.hub == nil, Existing: o.existing, Reads: o.reads,
		Refusing: func(why error) {
			if why == nil {
				log.Info("the store accepts notifications again", zap.String("event", "store_accepted"))
				return
			}
			log.Error("nothing is stored any more", zap.String("event", "store_refused"), zap.Error(why))
		},
	}
	if hub := o.hub; hub != nil {
		options.Unreadable, options.UnreadableTopic = hub.unreadable, hub.unreadableTopic
		options.Lease, options.Reached = cfg.OwnerLease, hub.reached
		options.Lost = func(l redisstore.Loss) {
			for _, g := range l.Gaps {
				hub.gap(g)
			}
			logLoss(log, l)
		}
	}
	s, err := redisstore.Open(ctx, options)
	if errors.Is(err, redisstore.ErrNone) {
		return nil, fmt.Errorf("%w: %w", ErrNoStore, err)
	}
	if err != nil {
		return nil, err
	}
	for _, w := range s.Found.Warnings {
		log.Warn(w, zap.String("event", "store_settings"))
	}
	if s.Found.New {
		log.Info("new store, id "+s.ID()+": pin it with --install-id, so that the hub does not start with a Redis that was emptied",
			zap.String("event", "store_created"), zap.String("store_id", s.ID()))
	}
	logSealed(log, s.Found.Secrets)
	return &backend{
		hubStore: s, info: admin.StoreInfo{Kind: "redis", Location: s.Found.Location, ID: s.ID()},
		leases: s.Leases, board: s.Board, upgrader: s.Upgrader, format: redisstore.Format, poll: s.Poll, time: s.Time,
	}, nil
}

// logLoss logs what Redis lost.
func logLoss(log *zap.Logger, l redisstore.Loss) {
	var count uint64
	for _, g := range l.Gaps {
		count += g.Count
	}
	log = log.With(zap.Int("partition", l.Partition), zap.Int("topics", l.Topics), zap.Int("vanished", l.Vanished),
		zap.String("topic", l.Topic), zap.Uint64("count", count))
	if l.Emptied {
		log.Error("a partition of the store in Redis came back empty: the hub stored the topics that it remembers again, without notifications; their Sources have to publish again",
			zap.String("event", "partition_emptied"))
		return
	}
	log.Warn("Redis lost notifications that it had acknowledged: their topics record the gap, and their Sources have to publish them again",
		zap.String("event", "tail_lost"))
}

const (
	connectionsEach = 66 // to each server: the pool, one for hints, and one that the client uses itself
	clusterServers  = 3  // the least that a Cluster has
)

// redisConnections is how many connections a hub may have to all servers of its Redis.
func redisConnections(cfg *config.Config) int {
	url := string(cfg.RedisURL)
	servers := 1 + strings.Count(url, ",")
	if scheme, _, _ := strings.Cut(url, ":"); strings.HasSuffix(scheme, "+cluster") {
		servers = max(servers, clusterServers)
	}
	return servers * connectionsEach
}
