package bench

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// BenchmarkMillion is a hub on the embedded store with 1,000,000 subscriptions of 1,000 topics (a tenth of
// that without RSHUB_BENCH_FULL), as a whole: its start, its memory, a notification for one topic, and
// then one for each, which all subscriptions receive. The ratio is to a bare loop that makes as many
// POSTs to the same receivers as one of these samples. It runs once.
func BenchmarkMillion(b *testing.B) {
	const topics = 1000
	receivers, at, n := startReceivers(b), inFolder(b), sized(1_000_000)
	topic := func(i int) string { return fmt.Sprintf("http://127.0.0.1:2/topic/%d", i%topics) }
	store := at.open()
	put(b, store, func(yield func(subscriptions.Subscription) bool) {
		for i := range n {
			if !yield(subscribed(topic(i), fmt.Sprintf("%s/callback/%d", receivers.hosts[i%hosts], i), journal.Head{})) {
				return
			}
		}
	})
	if err := store.Close(); err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	hub := startHub(b, at.flag)
	waitReady(b, hub)
	b.ReportMetric(time.Since(began).Seconds(), "s-to-start")
	waitLoaded(b, hub, n)
	b.ReportMetric(float64(resident(b))/(1<<20), "idle-RSS-MiB")

	src := &source{hub: hub.HubURL(), until: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	body := src.body(b)
	var expected int64
	publish := func(i int) {
		link := fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, topic(i), src.hub)
		send(b, src.hub, "application/xml", link, bytes.NewReader(body), http.StatusOK)
		expected += int64(n / topics)
	}
	arrived := func() {
		deadline := time.Now().Add(30 * time.Minute)
		for receivers.count(b, expected) < expected {
			if time.Now().After(deadline) {
				b.Fatalf("%d deliveries are missing after half an hour", expected-receivers.count(b, expected))
			}
		}
	}
	began = time.Now()
	publish(0)
	arrived()
	b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms-to-one-topic")

	bare := newBareLoop(receivers.hosts, usual)
	bare.post(perSample, body) // warm up
	base := measure(perSample, func() { bare.post(perSample, body) })
	expected += 2 * perSample
	began = time.Now()
	for i := 1; i < topics; i++ {
		publish(i)
	}
	arrived()
	took := time.Since(began).Seconds()
	rate := float64(n/topics*(topics-1)) / took
	b.ReportMetric(took, "s-to-all")
	b.ReportMetric(rate, "deliveries/s")
	b.ReportMetric(rate/base.rate, "x-bare-loop")
	b.ReportMetric(float64(resident(b))/(1<<20), "RSS-MiB")
	b.ReportMetric(sizeOf(b, strings.TrimPrefix(at.flag, "--data-dir="))/(1<<20), "disk-MiB")
	b.ReportMetric(float64(n), "subscriptions")
}
