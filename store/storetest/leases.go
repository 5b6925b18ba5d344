package storetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rshub/rshub/cluster"
)

// patience is how long these checks wait for a condition.
const patience = time.Minute

func (k *kit) eventually(what string, so func() bool) {
	k.Helper()
	for deadline := time.Now().Add(patience); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			k.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// RunLeases checks what cluster.Store promises of a store that several hubs share. The store has no
// leases and no hubs.
func RunLeases(t T, l cluster.Store) {
	k := &kit{T: t}
	shards := []int{0, 7, 8, 250, 255}
	sorted := func(list []int) []int { return slices.Sorted(slices.Values(list)) }
	acquire := func(owner string, shards []int, ttl time.Duration, want ...int) {
		t.Helper()
		got := call(l.Acquire(t.Context(), owner, shards, ttl)).must(k, "Acquire")
		k.same(owner+" acquires", sorted(got), want)
	}
	owners := func(want ...string) {
		t.Helper()
		k.same("the owners", call(l.Owners(t.Context(), shards)).must(k, "Owners"), want)
	}
	owners("", "", "", "", "")
	acquire("a b", []int{0, 7, 250}, time.Minute, 0, 7, 250)
	acquire("b", shards, 50*time.Millisecond, 8, 255)
	acquire("a b", []int{7}, time.Minute, 7) // again
	k.eventually("the end of a lease", func() bool {
		got := call(l.Owners(t.Context(), []int{8, 255})).must(k, "Owners")
		return got[0] == "" && got[1] == ""
	})
	owners("a b", "a b", "", "a b", "")
	renew := func(owner string, shards, wantKept, wantLost []int) {
		t.Helper()
		kept, lost, err := l.Renew(t.Context(), owner, shards, time.Minute)
		k.ok(err, "Renew")
		k.same("the leases that "+owner+" renewed", sorted(kept), wantKept)
		k.same("the leases that "+owner+" lost", sorted(lost), wantLost)
	}
	renew("a b", []int{0, 8, 250}, []int{0, 250}, []int{8})
	renew("b", shards, nil, shards)
	for range 2 { // twice
		k.ok(l.Release(t.Context(), "a b", []int{0, 8, 250}), "Release")
	}
	k.ok(l.Release(t.Context(), "b", shards), "Release of leases of another hub")
	owners("", "a b", "", "", "")
	k.ok(l.Release(t.Context(), "a b", []int{7}), "Release")

	// Of several hubs that acquire at once, each shard goes to one.
	var group sync.WaitGroup
	var got [3][]int
	for i := range got {
		group.Go(func() {
			for shard := range cluster.Shards {
				one, err := l.Acquire(t.Context(), fmt.Sprint("hub ", i), []int{shard}, time.Minute)
				k.fails(err, nil, "Acquire")
				got[i] = append(got[i], one...)
			}
		})
	}
	group.Wait()
	k.same("what three hubs acquired", sorted(slices.Concat(got[:]...)), numbers(cluster.Shards))
	for i := range got {
		k.ok(l.Release(t.Context(), fmt.Sprint("hub ", i), got[i]), "Release")
	}

	// Each heartbeat returns all live hubs.
	a := cluster.Node{ID: "a/1", Name: "a", Public: "127.0.0.1:1", Admin: "127.0.0.1:2", HubURL: "http://localhost:1/", Version: "v1", StartedAt: time.Unix(1e9, 0).UTC()}
	b := cluster.Node{ID: "b/1", Name: "b"}
	beat := func(n cluster.Node, ttl time.Duration) map[string]cluster.Node {
		t.Helper()
		live := map[string]cluster.Node{}
		for _, n := range call(l.Heartbeat(t.Context(), n, ttl)).must(k, "Heartbeat") {
			k.expect(time.Since(n.SeenAt).Abs() <= time.Minute, "%s was seen at %s", n.ID, n.SeenAt)
			n.SeenAt = time.Time{}
			live[n.ID] = n
		}
		return live
	}
	k.same("alone", beat(a, time.Minute), map[string]cluster.Node{"a/1": a})
	k.same("with another", beat(b, 50*time.Millisecond), map[string]cluster.Node{"a/1": a, "b/1": b})
	k.eventually("the end of a hub", func() bool { return len(beat(a, time.Minute)) == 1 })
	a.Version = "v2"
	k.same("after a change", beat(a, time.Minute), map[string]cluster.Node{"a/1": a})
	k.same("after the last said that it ends", beat(a, 0), map[string]cluster.Node{})
}
