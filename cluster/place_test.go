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

// moved is how many shards have another owner, of those that had one.
func moved(before, after [Shards]string) (n int) {
	for shard := range before {
		if before[shard] != "" && before[shard] != after[shard] {
			n++
		}
	}
	return n
}

// even fails where a hub has not its share.
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

// From any state, everybody gets an even share, whoever looks at it and however
// often; who has no more than that loses nothing.
func TestPlaceIsEvenAndSettles(t *testing.T) {
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
			t.Fatalf("what is in its place is moved: %d", moved(placed, again))
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

// A hub that comes gets its share, and nothing moves but that.
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

// A hub that goes moves what it had, and nothing else.
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

// What ranks highest is spread evenly before any bound evens it out.
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
