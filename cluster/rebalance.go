package cluster

import (
	"context"
	"slices"
)

// setNodes stores which hubs are live.
func (k *Keeper) setNodes(nodes []Node) {
	if !slices.ContainsFunc(nodes, func(n Node) bool { return n.ID == k.o.Self.ID }) {
		nodes = append(nodes, k.o.Self)
	}
	slices.SortFunc(nodes, byName)
	k.mu.Lock()
	same := slices.EqualFunc(nodes, k.nodes, func(a, b Node) bool { return a.ID == b.ID })
	k.nodes = nodes
	k.balanced = k.balanced && same
	k.mu.Unlock()
	k.live.Store(int64(len(nodes)))
	if !same {
		k.events.report(Event{Name: EventNodes, Nodes: nodes})
	}
}

// rebalance compares the owners of the shards with the owners that Place wants, and begins to
// start and to hand back shards. It does nothing if everything was balanced a moment ago.
func (k *Keeper) rebalance(ctx context.Context) error {
	now := k.now()
	k.mu.Lock()
	unchanged := k.balanced && (k.o.Lease == 0 || now-k.read < int64(k.o.Lease))
	ids := make([]string, 0, len(k.nodes))
	for _, n := range k.nodes {
		ids = append(ids, n.ID)
	}
	k.mu.Unlock()
	if unchanged {
		return nil
	}
	owners, err := k.owners(ctx)
	if err != nil {
		return err
	}
	placed := Place(ids, owners)
	var free []int
	due := 0
	for shard, owner := range placed {
		if owner == k.o.Self.ID {
			due++
			if owners[shard] == owner || owners[shard] == "" { // else its owner hands it back first, or dies
				free = append(free, shard)
			}
		} else {
			k.handBack(ctx, shard)
		}
	}
	err = k.acquire(ctx, free)
	k.read = now
	k.mu.Lock()
	defer k.mu.Unlock()
	k.balanced = err == nil && placed == owners
	if k.due = due; k.placed == 0 {
		k.placed = k.now()
	}
	k.checkBegun()
	return err
}

// owners reads from the store which hub owns each shard, except for the shards of this hub.
func (k *Keeper) owners(ctx context.Context) (owners [Shards]string, err error) {
	others := k.in(func(s state) bool { return !s.owned() })
	for shard := range owners {
		owners[shard] = k.o.Self.ID
	}
	if len(others) == 0 {
		return owners, nil
	}
	ctx, cancel := k.limit(ctx)
	defer cancel()
	of, err := k.o.Store.Owners(ctx, others)
	for i, owner := range of {
		if owner == k.o.Self.ID {
			owner = "" // this hub gave up the lease, and nobody else has it yet
		}
		owners[others[i]] = owner
	}
	return owners, err
}

// acquire begins to start the shards among these that are free here and in the store.
func (k *Keeper) acquire(ctx context.Context, shards []int) error {
	shards = slices.DeleteFunc(shards, func(shard int) bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.shards[shard].state != free
	})
	if len(shards) == 0 {
		return nil
	}
	limited, cancel := k.limit(ctx)
	defer cancel()
	asked := k.now()
	got, err := k.o.Store.Acquire(limited, k.o.Self.ID, shards, k.o.Lease)
	for _, shard := range got {
		k.begin(ctx, shard, asked)
	}
	k.wakeGuard()
	return err
}
