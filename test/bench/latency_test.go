package bench

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/program/app"
)

const latencySamples = 1000

// warmUp is how many publishes come first. Then the hub's log has the length that it keeps.
const warmUp = 800

// BenchmarkLatency is the time from a publish to its one callback, and until the publish is answered, as
// ratios to the least that can be done in a row: a POST, a write and fsync of 1 KB, and another POST. The
// two are measured in turn.
func BenchmarkLatency(b *testing.B) { latency(b, startHub(b)) }

// BenchmarkRedisLatency is BenchmarkLatency over a Redis on the same processors, which is not asked to
// write at once.
func BenchmarkRedisLatency(b *testing.B) { latency(b, startRedisHub(b, startRedis(b))) }

func latency(b *testing.B, hub *app.App) {
	came := make(chan time.Time, 1)
	callback := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, r.URL.Query().Get("hub.challenge"))
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		came <- time.Now()
	}))
	b.Cleanup(callback.Close)
	file, err := os.Create(filepath.Join(b.TempDir(), "log"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = file.Close() })
	intake := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	b.Cleanup(intake.Close)
	src := &source{topic: hub.HubURL() + "topic", hub: hub.HubURL(), until: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	src.publish(b) // the hub knows the topic
	subscribe(b, hub.HubURL(), src.topic, callback.URL+"/")
	waitActive(b, hub)
	document := (&source{until: src.until}).body(b)
	since := func(start time.Time, t time.Time) float64 { return float64(t.Sub(start).Microseconds()) }
	row := func() float64 {
		start := time.Now()
		send(b, intake.URL, "application/xml", "", bytes.NewReader(document), http.StatusOK)
		if _, err := file.Write(document); err != nil {
			b.Fatal(err)
		}
		if err := file.Sync(); err != nil {
			b.Fatal(err)
		}
		send(b, callback.URL, "application/xml", "", bytes.NewReader(document), http.StatusOK)
		return since(start, <-came)
	}
	through := func() (answered, called float64) {
		start := time.Now()
		src.publish(b)
		answered = since(start, time.Now())
		return answered, since(start, <-came)
	}
	for range warmUp {
		through()
	}
	for b.Loop() {
		var rows, answers, calls []float64
		for range latencySamples {
			rows = append(rows, row())
			answered, called := through()
			answers, calls = append(answers, answered), append(calls, called)
		}
		for _, all := range [][]float64{rows, answers, calls} {
			slices.Sort(all)
		}
		const p50, p99 = latencySamples / 2, latencySamples * 99 / 100
		b.ReportMetric(calls[p50]/rows[p50], "x-row-p50")
		b.ReportMetric(calls[p99]/rows[p99], "x-row-p99")
		b.ReportMetric(answers[p50]/rows[p50], "x-row-answer-p50")
		b.ReportMetric(calls[p50], "p50-us")
		b.ReportMetric(rows[p50], "row-p50-us")
	}
}

// BenchmarkPublishBesideFanOut is the 99th percentile of a publish while the hub delivers at half of its
// full rate, as a ratio to that while it does nothing.
func BenchmarkPublishBesideFanOut(b *testing.B) { publishBeside(b, startHub(b)) }

// BenchmarkRedisPublishBesideFanOut is BenchmarkPublishBesideFanOut over a Redis on the same processors.
func BenchmarkRedisPublishBesideFanOut(b *testing.B) {
	publishBeside(b, startRedisHub(b, startRedis(b)))
}

func publishBeside(b *testing.B, hub *app.App) {
	receivers := startReceivers(b)
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	busy, other := &source{topic: hub.HubURL() + "busy", hub: hub.HubURL(), until: begin}, &source{topic: hub.HubURL() + "other", hub: hub.HubURL(), until: begin}
	for i := range besideCallbacks {
		subscribe(b, hub.HubURL(), busy.topic, fmt.Sprintf("%s/cb/%d", receivers.hosts[i%hosts], i))
	}
	waitActive(b, hub)
	var expected int64
	full := func() time.Duration {
		const n = 50
		start := time.Now()
		for range n {
			busy.publish(b)
		}
		if expected += n * besideCallbacks; receivers.count(b, expected) != expected {
			b.Fatal("deliveries were lost")
		}
		return time.Since(start) / n
	}
	full()
	pace := 2 * full()
	sample := func() float64 {
		var l latencies
		for range 500 {
			start := time.Now()
			other.publish(b)
			l.all = append(l.all, float64(time.Since(start).Microseconds())/1000)
		}
		return l.take()
	}
	beside := func() float64 {
		stop := make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() {
			for tick := time.NewTicker(pace); ; {
				select {
				case <-stop:
					tick.Stop()
					return
				case <-tick.C:
				}
				busy.publish(b)
				expected += besideCallbacks
			}
		})
		p99 := sample()
		close(stop)
		all.Wait()
		receivers.count(b, expected)
		return p99
	}
	sample()
	for b.Loop() {
		var ratios, alone []float64
		for range besidePairs {
			without := sample()
			alone, ratios = append(alone, without), append(ratios, beside()/without)
		}
		b.ReportMetric(middle(ratios), "x-idle-p99")
		b.ReportMetric(slices.Min(ratios), "x-min")
		b.ReportMetric(slices.Max(ratios), "x-max")
		b.ReportMetric(middle(alone), "idle-p99-ms")
		b.ReportMetric(besideCallbacks/pace.Seconds(), "deliveries/s")
	}
}
