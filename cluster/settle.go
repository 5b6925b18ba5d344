package cluster

import (
	"context"
	"slices"
)

// meet takes over which hubs live.
func (k *Keeper) meet(nodes []Node) {
	if !slices.ContainsFunc(nodes, func(n Node) bool { return n.ID == k.o.Self.ID }) {
		nodes = append(nodes, k.o.Self)
	}
	slices.SortFunc(nodes, byName)
	k.mu.Lock()
	same := slices.EqualFunc(nodes, k.nodes, func(a, b Node) bool { return a.ID == b.ID })
	k.nodes = nodes
	k.settled = k.settled && same
	k.mu.Unlock()
	k.live.Store(int64(len(nodes)))
	if !same {
		k.o.Event(Event{Name: EventNodes, Nodes: nodes})
	}
}

// settle compares who owns what with who should, unless all was as it should be a
// moment ago, and begins to take and to yield.
func (k *Keeper) settle(ctx context.Context) error {
	now := k.now()
	k.mu.Lock()
	calm := k.settled && (k.o.Lease == 0 || now-k.looked < int64(k.o.Lease))
	ids := make([]string, 0, len(k.nodes))
	for _, n := range k.nodes {
		ids = append(ids, n.ID)
	}
	k.mu.Unlock()
	if calm {
		return nil
	}
	owners, err := k.owners(ctx)
	if err != nil {
		return err
	}
	placed := Place(ids, owners)
	var want []int
	due := 0
	for shard, owner := range placed {
		if owner == k.o.Self.ID {
			due++
			if owners[shard] != owner && owners[shard] != "" {
				continue // whoever has it yields it first, or dies
			}
			want = append(want, shard)
		} else {
			k.give(ctx, shard)
		}
	}
	err = k.acquire(ctx, want)
	k.looked = now
	k.mu.Lock()
	defer k.mu.Unlock()
	k.settled = err == nil && placed == owners
	if k.due = due; k.placed == 0 {
		k.placed = k.now()
	}
	k.countBegun()
	return err
}

// owners is who owns what, by the store, but for what this hub owns.
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
			owner = "" // a lease that is given up here, and nobody took
		}
		owners[others[i]] = owner
	}
	return owners, err
}

// acquire begins to take those of the shards that are free here and in the store.
func (k *Keeper) acquire(ctx context.Context, want []int) error {
	want = slices.DeleteFunc(want, func(shard int) bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.shares[shard].state != free
	})
	if len(want) == 0 {
		return nil
	}
	limited, cancel := k.limit(ctx)
	defer cancel()
	asked := k.now()
	got, err := k.o.Store.Acquire(limited, k.o.Self.ID, want, k.o.Lease)
	for _, shard := range got {
		k.begin(ctx, shard, asked)
	}
	k.wakeGuard()
	return err
}
