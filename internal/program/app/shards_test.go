package app

import (
	"testing"
	"time"

	"github.com/rshub/rshub/cluster"
)

func TestRanges(t *testing.T) {
	for want, shards := range map[string][]int{
		"": nil, "3": {3}, "0-2 5 7-8": {0, 1, 2, 5, 7, 8}, "0-255": func() (all []int) {
			for shard := range cluster.Shards {
				all = append(all, shard)
			}
			return all
		}(),
	} {
		if got := ranges(shards); got != want {
			t.Errorf("%v is %q, want %q", shards, got, want)
		}
	}
}

// A hub with its own data folder owns everything, and says so.
func TestAloneOwnsAll(t *testing.T) {
	a := newApp(t, "--node-id=n1")
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); a.starting() != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(a.starting())
		}
	}
	i := a.info(t.Context())
	if len(i.Nodes) != 1 || i.Nodes[0].ID != "n1" || i.Nodes[0].Shards != cluster.Shards || i.Nodes[0].Owns != "0-255" || i.Unowned != "" || i.NodesError != "" ||
		i.Nodes[0].Addresses.Public != a.Addr() || i.Store.Kind != "embedded" {
		t.Errorf("%+v", i)
	}
	if err := a.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := a.shards.Load().keeper.Owned(); n != 0 {
		t.Errorf("it owns %d shards after its end", n)
	}
}
