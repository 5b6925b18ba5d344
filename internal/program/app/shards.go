package app

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/cluster"
	"github.com/rshub/rshub/delivery"
	"github.com/rshub/rshub/hub"
	"github.com/rshub/rshub/websub"
)

// shards are those that this hub owns.
type shards struct {
	keeper *cluster.Keeper
	store  cluster.Store
	self   cluster.Node
	log    *zap.Logger
	begun  time.Time
	// dispatcher and hub work on them. They are set before the Keeper runs.
	dispatcher *delivery.Dispatcher
	hub        *hub.Handler
	ready      atomic.Bool // delivery_started was logged
}

// worker starts and ends the work on shards.
type worker struct{ s *shards }

// Start implements cluster.Worker.
func (p worker) Start(ctx context.Context, shard int) error {
	p.s.hub.Acquired(shard)
	return p.s.dispatcher.Start(ctx, shard)
}

// Finish implements cluster.Worker.
func (p worker) Finish(ctx context.Context, shard int) { p.s.dispatcher.Finish(ctx, shard) }

// Abort implements cluster.Worker.
func (p worker) Abort(shard int) { p.s.dispatcher.Abort(shard) }

// newShards makes the keeper of this hub's shards. Without other hubs it owns all of them.
func (a *App) newShards() (_ *shards, err error) {
	s := &shards{store: a.backend.leases, log: a.log.Named("cluster"), self: a.node(a.cfg.NodeID + "/" + rand.Text()[:8])}
	o := cluster.Options{Store: s.store, Worker: worker{s}, Drain: a.cfg.Drain, Event: s.event, Self: s.self}
	if s.shared() {
		o.Lease = a.cfg.OwnerLease
	}
	s.keeper, err = cluster.New(o)
	return s, err
}

// shared reports whether other hubs may use the store too. Only then there are leases.
func (s *shards) shared() bool { return s.store != cluster.Alone }

// run owns shards until ctx ends, and then releases them.
func (s *shards) run(ctx context.Context) error {
	s.begun = time.Now()
	return s.keeper.Run(ctx)
}

// clusterTexts are the lines of the events of shards.
var clusterTexts = map[string]logText{
	cluster.EventTaken:            {zapcore.InfoLevel, "this hub owns more shards"},
	cluster.EventYielded:          {zapcore.InfoLevel, "this hub handed back shards"},
	cluster.EventKept:             {zapcore.WarnLevel, "the store did not confirm that this hub handed back shards; another hub takes them over when their lease ends"},
	cluster.EventLost:             {zapcore.WarnLevel, "this hub lost shards because their leases could not be renewed in time; it stopped working on them"},
	cluster.EventTakeFailed:       {zapcore.WarnLevel, "the subscriptions of shards could not be read; the hub tries again"},
	cluster.EventNodes:            {zapcore.InfoLevel, "hubs came or went"},
	cluster.EventClusterFailed:    {zapcore.WarnLevel, "the store does not answer requests about shard leases"},
	cluster.EventClusterRecovered: {zapcore.InfoLevel, "the store answers requests about shard leases again"},
}

// event logs what happens to the shards.
func (s *shards) event(e cluster.Event) {
	text := clusterTexts[e.Name]
	var names []string
	for _, n := range e.Nodes {
		names = append(names, n.Name)
	}
	if line := s.log.Check(text.level, text.text); line != nil {
		line.Write(zap.String("event", e.Name),
			given(len(e.Shards) > 0, zap.String("shards", ranges(e.Shards))), given(len(e.Shards) > 0, zap.Int("owned", e.Owned)),
			given(len(names) > 0, zap.Strings("nodes", names)), zap.Error(e.Err))
	}
	for _, n := range e.Nodes {
		if websub.HubURL(n.HubURL) != websub.HubURL(e.Nodes[0].HubURL) {
			s.log.Warn("hubs on the same store have different hub URIs, so one refuses what another accepts: give them the same --public-url",
				zap.String("event", "hub_urls_differ"), zap.Strings("nodes", []string{e.Nodes[0].Name, n.Name}), zap.Strings("hub_urls", []string{e.Nodes[0].HubURL, n.HubURL}))
			break
		}
	}
	if s.keeper.Starting() == nil && s.ready.CompareAndSwap(false, true) {
		st := s.dispatcher.Stats()
		s.log.Info("delivery starts", zap.String("event", "delivery_started"), zap.Int("subscriptions", st.Lanes),
			zap.Int("topics", st.Topics), zap.Int("hosts", st.Hosts), zap.Duration("duration", time.Since(s.begun)))
	}
}

// nodes are the hubs on the store and what they own.
func (s *shards) nodes(ctx context.Context) (nodes []admin.Node, unowned string, err error) {
	all := make([]int, cluster.Shards)
	for shard := range all {
		all[shard] = shard
	}
	owners, err := s.store.Owners(ctx, all)
	if err != nil {
		owners = make([]string, len(all))
	}
	live := s.keeper.Nodes()
	of := make(map[string][]int, len(live))
	for shard, owner := range owners {
		if owner == "" && !s.shared() {
			owner = live[0].ID
		}
		of[owner] = append(of[owner], shard)
	}
	for _, n := range live {
		node := nodeOf(n)
		node.Shards, node.Owns = len(of[n.ID]), ranges(of[n.ID])
		nodes = append(nodes, node)
		delete(of, n.ID)
	}
	for owner, shards := range of {
		if owner != "" { // a hub that has just died
			of[""] = append(of[""], shards...)
		}
	}
	slices.Sort(of[""])
	return nodes, ranges(of[""]), err
}

// nodeOf is a hub as the API has it, without its shards.
func nodeOf(n cluster.Node) admin.Node {
	return admin.Node{
		ID: n.Name, Run: n.ID, Version: n.Version, Addresses: admin.Addresses{Public: n.Public, Admin: n.Admin},
		StartedAt: n.StartedAt, SeenAt: n.SeenAt,
	}
}

// node describes this hub to the others.
func (a *App) node(run string) cluster.Node {
	return cluster.Node{
		ID: run, Name: a.cfg.NodeID, Version: a.version, Format: a.backend.format,
		Public: a.Addr(), Admin: a.AdminAddr(), HubURL: a.hubURL, StartedAt: a.started.UTC(),
	}
}

// ranges returns rising numbers in a short form: 0-84 90.
func ranges(shards []int) string {
	var b strings.Builder
	for from, i := 0, 1; from < len(shards); i++ {
		if i < len(shards) && shards[i] == shards[i-1]+1 {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		if fmt.Fprint(&b, shards[from]); i-1 > from {
			fmt.Fprintf(&b, "-%d", shards[i-1])
		}
		from = i
	}
	return b.String()
}
