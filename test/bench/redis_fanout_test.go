package bench

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// BenchmarkRedisFanOut is BenchmarkFanOut over a Redis on the same processors. The commands are all
// that the hub causes meanwhile: for publishes, for cursors, for everything else it asks, and those
// that scripts call.
func BenchmarkRedisFanOut(b *testing.B) {
	redis := startRedis(b)
	var commands, scripts, cpu, deliveries float64
	var last usage
	fanOut(b, startRedisHub(b, redis), usual, func(work func()) {
		before, worked := used(b, redis), cpuOf(b, redis)
		work()
		all, of := used(b, redis).since(before)
		commands += all - 1 // the question about its processor
		scripts += of["evalsha"]
		cpu += cpuOf(b, redis) - worked
		deliveries += perSample
		last = of
	})
	b.Logf("of one sample:%v", last)
	b.ReportMetric(commands/deliveries, "commands/delivery")
	b.ReportMetric(scripts/deliveries, "scripts/delivery")
	b.ReportMetric(cpu*1e6/deliveries, "redis-cpu-us/delivery")
}

// BenchmarkRedisPublish is the time until a publish is acknowledged if its topic has 100,000
// subscriptions (a tenth of that without RSHUB_BENCH_FULL), as a ratio to the time with one
// subscription. Earlier publishes have been delivered by then.
func BenchmarkRedisPublish(b *testing.B) {
	redis, receivers, n := startRedis(b), startReceivers(b), sized(100_000)
	store := openRedis(b, redis)
	const one, many = "http://127.0.0.1:2/one", "http://127.0.0.1:2/many"
	put(b, store, func(yield func(subscriptions.Subscription) bool) {
		if !yield(subscribed(one, receivers.hosts[0]+"/one", journal.Head{})) {
			return
		}
		for i := range n {
			if !yield(subscribed(many, fmt.Sprintf("%s/cb/%d", receivers.hosts[i%hosts], i), journal.Head{})) {
				return
			}
		}
	})
	hub := startRedisHub(b, redis)
	var expected int64
	publisher := func(topic string, n int64) func() time.Duration {
		src := &source{topic: topic, hub: hub.HubURL(), until: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
		return func() time.Duration {
			body := src.body(b)
			start := time.Now()
			send(b, src.hub, "application/xml", fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, topic, src.hub), bytes.NewReader(body), 200)
			took := time.Since(start)
			if expected += n; receivers.count(b, expected) != expected {
				b.Fatalf("%d deliveries were made, want %d", receivers.count(b, expected), expected)
			}
			return took
		}
	}
	toOne, toMany := publisher(one, 1), publisher(many, int64(n))
	toOne()
	toMany()
	for b.Loop() {
		var ratios []float64
		for range watchedPairs {
			base := min(toOne(), toOne(), toOne())
			ratios = append(ratios, float64(toMany())/float64(base))
		}
		report(b, ratios, "x-one-subscription")
		b.ReportMetric(float64(n), "subscriptions")
	}
}
