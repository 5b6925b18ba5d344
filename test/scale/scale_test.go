package scale

import (
	"bytes"
	"flag"
	"os"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the tables of docs/scale.md")

// The tables of docs/scale.md are what the arithmetic says.
func TestPage(t *testing.T) {
	const page, begin, end = "../../docs/scale.md", "<!-- calculated -->\n", "<!-- the end of what is calculated -->\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := bytes.Cut(text, []byte(begin))
	_, after, there := bytes.Cut(rest, []byte(end))
	if !ok || !there {
		t.Fatalf("%s has no place for the tables", page)
	}
	want := bytes.Join([][]byte{before, []byte(begin + Measured.Table() + end), after}, nil)
	if bytes.Equal(text, want) {
		return
	}
	if !*update {
		t.Fatalf("%s has other tables; run: go test ./test/scale -update", page)
	}
	if err := os.WriteFile(page, want, 0o644); err != nil {
		t.Fatal(err)
	}
}

// The arithmetic, with numbers that are easy to check.
func TestPlan(t *testing.T) {
	terms := Terms{
		Rate: 1000, Held: time.Microsecond, RedisCPU: 10 * time.Microsecond, RedisLoad: 0.5, Commands: 0.1,
		Heap: 100, Redis: 200, Sent: 1000, Read: time.Millisecond, Lease: time.Second, AnswerTime: 10 * time.Millisecond,
	}
	// 256,000 deliveries are 1,000 for each shard: of 10 cores, a hub has 10 shards at most. So there
	// are 26 hubs, some with 10 shards and some with 9.
	want := Plan{
		Cores: 10, ShardRate: 1000, Shards: 10, Hubs: 26, HubRate: 10_000, Schedulers: 5, LockShare: 0.002, InFlight: 100,
		HubMemory: 2 * 100 * 100 * 10, HubNetwork: 8 * 1000 * 10_000, Masters: 6, Commands: 25_600, Memory: 200 * 25_600,
		Moved: 10, TakeOver: time.Second + 100*time.Millisecond,
	}
	if got := terms.Plan(Load{Subscriptions: 25_600, Deliveries: 256_000}, 10); got != want {
		t.Errorf("planned\n%+v, want\n%+v", got, want)
	}
	if got := terms.Plan(Load{Subscriptions: 25_600, Deliveries: 2560}, 10); got.Hubs != 1 || got.Shards != 256 || got.TakeOver != time.Second+25_600*time.Millisecond {
		t.Errorf("one hub was enough, and the plan is %+v", got)
	}
	if got := terms.Plan(Load{Subscriptions: 25_600, Deliveries: 256_000_000}, 10); got.Hubs != 0 {
		t.Errorf("a shard was too much for a hub, and the plan is %+v", got)
	}
}
