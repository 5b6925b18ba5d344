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
	"github.com/rshub/rshub/store/storetest"
	"github.com/rshub/rshub/test/redistest"
)

func allShards() (all []int) {
	for shard := range cluster.Shards {
		all = append(all, shard)
	}
	return all
}

// Leases have one owner at a time, and end by the time of Redis; each hub hears of all.
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
			storetest.RunLeases(t, s.Leases)
		})
	}
}

// Of several hubs that acquire at the same time, each gets what the others do not.
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

// If the clock of Redis was ahead and is right again, a hub that died meanwhile does not live, and own
// shards, until that time comes. The others stay live.
func TestClockOfRedisIsSetBack(t *testing.T) {
	const lease = 200 * time.Millisecond
	server := redistest.Standalone(t, redistest.Shared())
	s, err := Open(context.WithoutCancel(t.Context()), Options{URL: server.URL(), Prefix: "back-" + uuid.NewString(), Timeout: patience, Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	shards := []int{3, 200}
	for _, id := range []string{"dead", "live"} {
		if _, err := s.Leases.Heartbeat(t.Context(), cluster.Node{ID: id}, lease); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Leases.Acquire(t.Context(), "dead", shards, lease); err != nil {
		t.Fatal(err)
	}
	// What is stored is as if it had been stored half an hour later.
	const later = `
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  local value = string.gsub(redis.call('HGET', KEYS[1], field), '%d%d%d%d%d%d%d%d%d%d%d%d%d', function(n) return string.format('%.0f', n + 1800000) end)
  redis.call('HSET', KEYS[1], field, value)
end`
	key := s.Leases.(*leases).conn.key //nolint:errcheck // it is nothing else
	for _, name := range []string{key.nodes(nameHubs), key.owners(shards[0]), key.owners(shards[1])} {
		server.Do(t, "EVAL", later, "1", name)
	}
	begun := time.Now()
	for {
		nodes, err := s.Leases.Heartbeat(t.Context(), cluster.Node{ID: "live"}, lease)
		if err != nil {
			t.Fatal(err)
		}
		owners, err := s.Leases.Owners(t.Context(), shards)
		if err != nil {
			t.Fatal(err)
		}
		lives := func(id string) bool {
			return slices.ContainsFunc(nodes, func(n cluster.Node) bool { return n.ID == id && time.Until(n.SeenAt) < time.Minute })
		}
		if !lives("live") {
			t.Fatalf("the live hub is not there, or was seen half an hour later: %v", nodes)
		}
		if !lives("dead") && owners[0] == "" && owners[1] == "" {
			break
		}
		if time.Since(begun) > patience {
			t.Fatalf("%v after the clock was set back: live are %v, and the owners are %v", patience, nodes, owners)
		}
		time.Sleep(lease / 10)
	}
	if got, err := s.Leases.Acquire(t.Context(), "live", shards, lease); err != nil || len(got) != len(shards) {
		t.Errorf("the live hub got the shards %v: %v", got, err)
	}
}

// Leases stay while Redis accepts nothing new: a hub with a full store delivers.
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
		k, err := cluster.New(cluster.Options{Store: stores[i].Leases, Worker: noWorker{}, Self: cluster.Node{ID: id, Name: id}, Lease: 6 * time.Second, Drain: 20 * time.Second}) // a busy machine needs time to release
		if err != nil {
			t.Fatal(err)
		}
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

// If Redis has an entry of a hub that cannot be read, each heartbeat says where it is and what to do.
func TestDamagedHubSaysWhatToDo(t *testing.T) {
	s := openStore(t, Options{URL: topologies["standalone"](t), Prefix: freshPrefix(), Timeout: patience})
	hubs := s.conn.key.nodes(nameHubs)
	for entry, why := range map[string]string{"{}": "it has no id", "{": "unexpected end of JSON"} {
		dead := time.Now().Add(time.Hour).UnixMilli()
		if err := s.conn.client.HSet(t.Context(), hubs, "damaged", fmt.Sprint(dead, " 1 ", entry)).Err(); err != nil {
			t.Fatal(err)
		}
		_, err := s.Leases.Heartbeat(t.Context(), cluster.Node{ID: "this"}, time.Minute)
		if err == nil || !strings.Contains(err.Error(), hubs+" of Redis cannot be read: "+why) || !strings.Contains(err.Error(), "delete the hash") {
			t.Errorf("%s: %v", entry, err)
		}
	}
}
