package cluster

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"
)

// Shards is the number of shards.
const Shards = 256

// Place returns who should own each shard, given the ids of the live hubs and the present
// owners (empty, or the id of a hub that is not live: none). The result is the same on every
// hub with the same arguments.
//
// The numbers of shards of two hubs differ by one at most. A hub keeps the shards that it owns;
// if it has too many, it keeps those that rank highest with it. So if a hub comes or goes, only
// its own shards move. A free shard goes to the hub with which it ranks highest, among those that
// may have more (rendezvous hashing). Without nodes no shard has an owner.
func Place(nodes []string, owners [Shards]string) (placed [Shards]string) {
	held := make(map[string][]int, len(nodes))
	for _, n := range nodes {
		held[n] = nil
	}
	for shard, owner := range owners {
		if _, lives := held[owner]; lives {
			held[owner] = append(held[owner], shard)
		}
	}
	room := quotas(held)
	for node, shards := range held {
		slices.SortFunc(shards, func(a, b int) int { return ranking(pair{node, a, rank(node, a)}, pair{node, b, rank(node, b)}) })
		for _, shard := range shards[:min(len(shards), room[node])] {
			placed[shard] = node
			room[node]--
		}
	}
	var open []pair
	for shard, owner := range placed {
		for node := range room {
			if owner == "" && room[node] > 0 {
				open = append(open, pair{node, shard, rank(node, shard)})
			}
		}
	}
	slices.SortFunc(open, ranking)
	for _, p := range open {
		if placed[p.shard] == "" && room[p.node] > 0 {
			placed[p.shard] = p.node
			room[p.node]--
		}
	}
	return placed
}

// quotas is how many shards each hub should own. If they cannot all have the same number,
// those that own more now get one more.
func quotas(held map[string][]int) map[string]int {
	nodes := slices.SortedFunc(maps.Keys(held), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(held[b]), len(held[a])), cmp.Compare(a, b))
	})
	of := make(map[string]int, len(nodes))
	for i, n := range nodes {
		of[n] = Shards / len(nodes)
		if i < Shards%len(nodes) {
			of[n]++
		}
	}
	return of
}

// pair is a hub and a shard, and how high the shard ranks with the hub.
type pair struct {
	node  string
	shard int
	rank  uint64
}

// ranking orders pairs, the highest first.
func ranking(a, b pair) int {
	return cmp.Or(cmp.Compare(b.rank, a.rank), cmp.Compare(a.shard, b.shard), cmp.Compare(a.node, b.node))
}

// rank is a number that looks random, and is always the same for one hub and one shard.
func rank(node string, shard int) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(node))        // a hash never fails
	_, _ = h.Write([]byte{byte(shard)}) //nolint:gosec // 0 to 255
	// The last bytes hardly change the high bits of FNV. Mix them with the finalizer of
	// MurmurHash3.
	x := h.Sum64()
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
