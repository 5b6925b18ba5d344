package bench

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// BenchmarkRedisLoad stores 1,000,000 subscriptions to 1,000 topics in Redis (a tenth of that
// without RSHUB_BENCH_FULL), and a hub reads them all at its start. The ratio is to reading the
// same records and doing nothing with them.
func BenchmarkRedisLoad(b *testing.B) {
	redis, n := startRedis(b), sized(1_000_000)
	store := openRedis(b, redis)
	empty := memoryOf(b, redis)
	start := time.Now()
	put(b, store, func(yield func(subscriptions.Subscription) bool) {
		for i := range n {
			if !yield(subscribed(fmt.Sprintf("http://127.0.0.1:2/topic/%d", i%1000), fmt.Sprintf("http://h%d.example:8080/callback/%d", i%1000, i), journal.Head{})) {
				return
			}
		}
	})
	stored, size := time.Since(start), memoryOf(b, redis)-empty
	for b.Loop() {
		start := time.Now()
		readAll(b, store, n)
		plain := time.Since(start)
		before := heap()
		start = time.Now()
		hub := startRedisHub(b, redis)
		took := time.Since(start)
		b.ReportMetric(took.Seconds(), "s-to-take-up")
		b.ReportMetric(float64(took)/float64(plain), "x-reading")
		runtime.GC()
		b.ReportMetric((heap()-before)/float64(n), "heap-B/subscription")
		start = time.Now()
		runtime.GC()
		b.ReportMetric(float64(time.Since(start).Microseconds())/1000, "ms/GC")
		if err := hub.Stop(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(stored.Seconds(), "s-to-store")
	b.ReportMetric(size/float64(n), "redis-B/subscription")
	b.ReportMetric(float64(n), "subscriptions")
}

// readAll reads all subscriptions of a store.
func readAll(b *testing.B, store subscriptions.Registry, want int) {
	b.Helper()
	got := 0
	for shard := range journal.Partitions {
		var after uuid.UUID
		for {
			page, err := store.List(b.Context(), shard, after, 1000)
			if err != nil {
				b.Fatal(err)
			}
			if got += len(page); len(page) < 1000 {
				break
			}
			after = page[len(page)-1].Subscription.ID
		}
	}
	if got != want {
		b.Fatalf("%d of %d subscriptions were read", got, want)
	}
}

// heap is how many bytes live objects have.
func heap() float64 {
	runtime.GC()
	runtime.GC() // kept for finalizers
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return float64(sample[0].Value.Uint64())
}
