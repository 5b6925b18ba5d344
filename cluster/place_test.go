package cluster

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// nodesOf draws ids of hubs.
func nodesOf(t *rapid.T, least int) []string {
	return rapid.SliceOfNDistinct(rapid.StringN(1, 12, -1), least, 40, rapid.ID[string]).Draw(t, "nodes")
}

// moved is how many of the shards that had an owner have another one now.
func moved(before, after [Shards]string) (n int) {
	for shard := range before {
		if before[shard] != "" && before[shard] != after[shard] {
			n++
		}
	}
	return n
}

// even fails unless every hub has as many shards as it should.
func even(t *rapid.T, nodes []string, placed [Shards]string) {
	t.Helper()
	counts := map[string]int{}
	for _, n := range placed {
		counts[n]++
	}
	least, most := Shards/len(nodes), (Shards+len(nodes)-1)/len(nodes)
	for _, n := range nodes {
		if counts[n] < least || counts[n] > most {
			t.Fatalf("%q has %d shards of %d to %d", n, counts[n], least, most)
		}
		delete(counts, n)
	}
	if len(counts) > 0 {
		t.Fatalf("shards belong to %v, who are not there", counts)
	}
}

// From any state, all hubs get the same number of shards. Every hub calculates the same, however
// often, and a hub that has no more than this number loses none.
func TestPlaceIsEvenAndStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := nodesOf(t, 1)
		of := rapid.SampledFrom(append([]string{"", "gone"}, nodes...))
		var owners [Shards]string
		for shard := range owners {
			owners[shard] = of.Draw(t, "owner")
		}
		placed := Place(nodes, owners)
		even(t, nodes, placed)
		if again := Place(nodes, placed); again != placed {
			t.Fatalf("a second Place moved %d shards", moved(placed, again))
		}
		other := slices.Clone(nodes)
		slices.Reverse(other)
		if Place(other, owners) != placed {
			t.Fatal("the order in which hubs are seen matters")
		}
		counts := map[string]int{}
		for _, owner := range owners {
			counts[owner]++
		}
		for shard, owner := range owners {
			if slices.Contains(nodes, owner) && counts[owner] <= Shards/len(nodes) && placed[shard] != owner {
				t.Fatalf("%q has %d shards, no more than its share, and loses %d", owner, counts[owner], shard)
			}
		}
	})
}

// A new hub gets its shards, and no other shard moves.
func TestPlaceOneMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := nodesOf(t, 2)
		old := nodes[:len(nodes)-1]
		before := Place(old, [Shards]string{})
		after := Place(nodes, before)
		even(t, nodes, after)
		share := 0
		for _, n := range after {
			if n == nodes[len(nodes)-1] {
				share++
			}
		}
		if n := moved(before, after); n != share {
			t.Fatalf("%d shards move for a share of %d", n, share)
		}
	})
}

// If a hub goes, only its shards move.
func TestPlaceOneLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := nodesOf(t, 2)
		before := Place(nodes, [Shards]string{})
		gone, left := nodes[0], nodes[1:]
		after := Place(left, before)
		even(t, left, after)
		for shard, owner := range before {
			if owner != gone && after[shard] != owner {
				t.Fatalf("shard %d moves from %q to %q when %q goes", shard, owner, after[shard], gone)
			}
		}
	})
}

func TestPlaceNobody(t *testing.T) {
	if got := Place(nil, [Shards]string{1: "gone"}); got != ([Shards]string{}) {
		t.Errorf("%v", got)
	}
}

// The highest ranks are spread evenly even before Place limits the number of shards.
func TestRankIsEven(t *testing.T) {
	const hubs, shares = 3, 300
	counts := map[int]int{}
	for share := range shares {
		for shard := range Shards {
			best := 0
			for hub := range hubs {
				if rank(fmt.Sprint(share, "-", hub), shard) > rank(fmt.Sprint(share, "-", best), shard) {
					best = hub
				}
			}
			counts[best]++
		}
	}
	for hub, n := range counts {
		if want := shares * Shards / hubs; n < want*95/100 || n > want*105/100 {
			t.Errorf("hub %d ranks highest with %d shards, expected about %d", hub, n, want)
		}
	}
}
