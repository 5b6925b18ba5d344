package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/cluster"
	"github.com/rshub/rshub/test/redistest"
)

func allShards() (all []int) {
	for shard := range cluster.Shards {
		all = append(all, shard)
	}
	return all
}

// Leases are one owner's at a time, and end by the time of Redis.
func TestLeases(t *testing.T) {
	for name, url := range map[string]string{
		"standalone": redistest.Standalone(t, redistest.Shared()).URL(),
		"cluster":    redistest.Cluster(t, redistest.Shared()).URL(),
	} {
		t.Run(name, func(t *testing.T) {
			s, err := openPinned(t, url, "leases-"+uuid.NewString(), "", false)
			if err != nil {
				t.Fatal(err)
			}
			shards := []int{0, 7, 8, 250, 255}
			sorted := func(list []int) []int { return slices.Sorted(slices.Values(list)) }
			acquire := func(owner string, shards []int, ttl time.Duration, want ...int) {
				t.Helper()
				if got, err := s.Leases.Acquire(t.Context(), owner, shards, ttl); err != nil || !slices.Equal(sorted(got), want) {
					t.Fatalf("%s acquires %v: %v %v, want %v", owner, shards, got, err, want)
				}
			}
			owners := func(want ...string) {
				t.Helper()
				if got, err := s.Leases.Owners(t.Context(), shards); err != nil || !slices.Equal(got, want) {
					t.Fatalf("%q %v, want %q", got, err, want)
				}
			}
			owners("", "", "", "", "")
			acquire("a b", []int{0, 7, 250}, time.Minute, 0, 7, 250)
			acquire("b", shards, 50*time.Millisecond, 8, 255)
			acquire("a b", []int{7}, time.Minute, 7) // it comes again
			for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
				if got, err := s.Leases.Owners(t.Context(), []int{8, 255}); err != nil || time.Now().After(deadline) {
					t.Fatalf("the leases of b do not end: %v %v", got, err)
				} else if got[0] == "" && got[1] == "" {
					break
				}
			}
			owners("a b", "a b", "", "a b", "")
			kept, lost, err := s.Leases.Renew(t.Context(), "a b", []int{0, 8, 250}, time.Minute)
			if err != nil || !slices.Equal(sorted(kept), []int{0, 250}) || !slices.Equal(lost, []int{8}) {
				t.Fatalf("%v %v %v", kept, lost, err)
			}
			if _, lost, err = s.Leases.Renew(t.Context(), "b", shards, time.Minute); err != nil || len(lost) != len(shards) {
				t.Fatalf("lost %v %v", lost, err)
			}
			for range 2 { // it comes twice
				if err := s.Leases.Release(t.Context(), "a b", []int{0, 8, 250}); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Leases.Release(t.Context(), "b", shards); err != nil { // they are not its own
				t.Fatal(err)
			}
			owners("", "a b", "", "", "")
		})
	}
}

// Who acquires at the same time as others gets what they do not.
func TestLeasesRace(t *testing.T) {
	stores := hubsOn(t, 3)
	var group sync.WaitGroup
	var got [3][]int
	for i, s := range stores {
		group.Go(func() {
			for shard := range cluster.Shards {
				one, err := s.Leases.Acquire(t.Context(), fmt.Sprint("hub ", i), []int{shard}, time.Minute)
				if err != nil {
					t.Error(err)
				}
				got[i] = append(got[i], one...)
			}
		})
	}
	group.Wait()
	if all := slices.Sorted(slices.Values(slices.Concat(got[:]...))); !slices.Equal(all, allShards()) {
		t.Errorf("%v", all)
	}
}

// A hub is told of all that live, until their time is over or they say so.
func TestHeartbeat(t *testing.T) {
	s := hubsOn(t, 1)[0]
	a := cluster.Node{ID: "a/1", Name: "a", Public: "127.0.0.1:1", Admin: "127.0.0.1:2", HubURL: "http://localhost:1/", Version: "v1", StartedAt: time.Unix(1e9, 0).UTC()}
	b := cluster.Node{ID: "b/1", Name: "b"}
	beat := func(n cluster.Node, ttl time.Duration) map[string]cluster.Node {
		t.Helper()
		nodes, err := s.Leases.Heartbeat(t.Context(), n, ttl)
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]cluster.Node{}
		for _, n := range nodes {
			if age := time.Since(n.SeenAt); age < -time.Minute || age > time.Minute {
				t.Errorf("seen at %s", n.SeenAt)
			}
			n.SeenAt = time.Time{}
			all[n.ID] = n
		}
		return all
	}
	if all := beat(a, time.Minute); len(all) != 1 || all["a/1"] != a {
		t.Errorf("%+v", all)
	}
	if all := beat(b, 50*time.Millisecond); len(all) != 2 || all["a/1"] != a || all["b/1"] != b {
		t.Errorf("%+v", all)
	}
	for deadline := time.Now().Add(patience); len(beat(a, time.Minute)) > 1; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("b lives for ever")
		}
	}
	a.Version = "v2"
	if all := beat(a, time.Minute); all["a/1"] != a {
		t.Errorf("%+v", all)
	}
	if all := beat(a, 0); len(all) != 0 {
		t.Errorf("%+v lives after it said that it does not", all)
	}
}

// Leases are kept while Redis takes no more: a hub whose store is full delivers.
func TestLeasesWithoutMemory(t *testing.T) {
	server := redistest.Standalone(t)
	s, err := openPinned(t, server.URL(), "", "", false)
	if err != nil {
		t.Fatal(err)
	}
	server.Do(t, "CONFIG", "SET", "maxmemory", "1")
	if got, err := s.Leases.Acquire(t.Context(), "a", allShards(), time.Minute); err != nil || len(got) != cluster.Shards {
		t.Errorf("%d shards, %v", len(got), err)
	}
	if kept, _, err := s.Leases.Renew(t.Context(), "a", allShards(), time.Minute); err != nil || len(kept) != cluster.Shards {
		t.Errorf("%d shards, %v", len(kept), err)
	}
	if _, err := s.Leases.Heartbeat(t.Context(), cluster.Node{ID: "a"}, time.Minute); err != nil {
		t.Error(err)
	}
	if _, err := s.Leases.Owners(t.Context(), allShards()); err != nil {
		t.Error(err)
	}
}

// What an idle hub costs Redis: 24 commands a renewal of all shards, three for a
// look at who lives. Commands that scripts call are counted.
func TestLeaseCommands(t *testing.T) {
	server := redistest.Standalone(t)
	s, err := openPinned(t, server.URL(), "", "", false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Leases.Acquire(t.Context(), "a", allShards(), time.Minute); err != nil {
		t.Fatal(err)
	}
	node := cluster.Node{ID: "a", Name: "a"}
	if _, err := s.Leases.Heartbeat(t.Context(), node, time.Minute); err != nil {
		t.Fatal(err)
	}
	// counted is how many commands of leases there were while do ran, and those with
	// which the store looks every second whether it is still there.
	counted := func(do func(ctx context.Context) error) (n int) {
		t.Helper()
		server.Do(t, "CONFIG", "RESETSTAT")
		if err := do(t.Context()); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(fmt.Sprint(server.Do(t, "INFO", "commandstats"))) {
			var name string
			var calls int
			if at, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls="); ok {
				name = at
				_, _ = fmt.Sscanf(rest, "%d", &calls)
			}
			switch name {
			case "evalsha", "eval", "time", "hget", "hset", "hmget", "hgetall", "hdel":
				n += calls
			}
		}
		return n
	}
	// count is without those.
	count := func(do func(ctx context.Context) error) int {
		least := counted(do)
		for range 9 {
			least = min(least, counted(do))
		}
		return least
	}
	if n := count(func(ctx context.Context) error {
		_, _, err := s.Leases.Renew(ctx, "a", allShards(), time.Minute)
		return err
	}); n > 8*4 {
		t.Errorf("a renewal of all leases costs %d commands", n)
	}
	if n := count(func(ctx context.Context) error { _, err := s.Leases.Heartbeat(ctx, node, time.Minute); return err }); n > 5 {
		t.Errorf("a heartbeat costs %d commands", n)
	}
}

// Two hubs on one Redis share the shards, and a third one gets its part.
func TestKeepersOnRedis(t *testing.T) {
	stores := hubsOn(t, 3)
	var keepers []*cluster.Keeper
	var stops []func()
	start := func(i int) {
		id := fmt.Sprint("hub ", i)
		k := cluster.New(cluster.Options{Store: stores[i].Leases, Worker: noWorker{}, Self: cluster.Node{ID: id, Name: id}, Lease: 6 * time.Second, Drain: time.Second})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = k.Run(ctx) }()
		keepers, stops = append(keepers, k), append(stops, func() { cancel(); <-done })
	}
	even := func(n int, least int) {
		t.Helper()
		for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			sum, fewest := 0, cluster.Shards
			for _, k := range keepers[len(keepers)-n:] {
				sum, fewest = sum+k.Owned(), min(fewest, k.Owned())
			}
			if sum == cluster.Shards && fewest >= least {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d hubs own %d shards, one %d", n, sum, fewest)
			}
		}
	}
	start(0)
	start(1)
	even(2, 128)
	start(2)
	even(3, 85)
	stops[0]()
	even(2, 128)
	stops[1]()
	stops[2]()
	owners, err := stores[0].Leases.Owners(t.Context(), allShards())
	if i := slices.IndexFunc(owners, func(o string) bool { return o != "" }); err != nil || i >= 0 {
		t.Errorf("shard %d was not handed back: %v", i, err)
	}
}

type noWorker struct{}

func (noWorker) Start(context.Context, int) error { return nil }
func (noWorker) Finish(context.Context, int)      {}
func (noWorker) Abort(int)                        {}
