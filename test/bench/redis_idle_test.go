package bench

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/test/redistest"
)

// idleFor is how long an idle hub is watched. A task that runs every minute runs once.
const idleFor = time.Minute

// BenchmarkRedisIdle counts the commands that an idle hub sends to Redis. It has 100,000 topics (a
// tenth of that without RSHUB_BENCH_FULL), each with one notification and one subscription that has
// received it.
func BenchmarkRedisIdle(b *testing.B) {
	redis, n := startRedis(b), sized(100_000)
	store := openRedis(b, redis)
	each(b, count(n), func(ctx context.Context, i int) error {
		topic, now := fmt.Sprintf("http://127.0.0.1:2/topic/%d", i), time.Now()
		e := journal.Entry{From: now.Add(-time.Minute), Until: now, Kind: journal.KindChange, MediaType: "application/xml", Body: []byte("<urlset/>")}
		stored, err := store.Append(ctx, now, topic, e, "")
		if err != nil {
			return err
		}
		s := subscribed(topic, fmt.Sprintf("http://h%d.example:8080/callback/%d", i%1000, i), journal.Head{Last: stored.Anchor()})
		_, err = store.Update(ctx, s.ID, func(subscriptions.Record) (subscriptions.Record, error) {
			return subscriptions.Record{Subscription: &s}, nil
		})
		return err
	})
	if err := store.Close(); err != nil {
		b.Fatal(err)
	}
	startRedisHub(b, redis)
	// In the first minute and a half the hub reads the heads. Then it reads the age of each topic's
	// oldest entry, which retention does a hundred times in the time that entries are kept.
	started := used(b, redis)
	time.Sleep(3 * idleFor / 2)
	settle(b, redis)
	_, of := used(b, redis).since(started)
	b.Logf("at the start:%v", of)
	for b.Loop() {
		before, worked, start := used(b, redis), cpuOf(b, redis), time.Now()
		time.Sleep(idleFor)
		cpu := cpuOf(b, redis) - worked
		all, of := used(b, redis).since(before)
		took := time.Since(start).Seconds()
		b.Logf("of a minute:%v", of)
		b.ReportMetric((all-2)/took, "commands/s") // without the questions about its processor
		b.ReportMetric(of["evalsha"]/took, "scripts/s")
		b.ReportMetric(cpu/took*100, "redis-cpu-%")
	}
	b.ReportMetric(float64(n), "topics")
}

// count counts from 0 to n-1.
func count(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

// settle waits until a hub no longer reads the heads of topics.
func settle(b *testing.B, redis *redistest.Server) {
	b.Helper()
	for range 300 {
		before := used(b, redis)
		time.Sleep(time.Second)
		if _, of := used(b, redis).since(before); of["hget"] < 100 {
			return
		}
	}
	b.Fatal("the hub is not idle after five minutes")
}
