package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/program/app"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/embedstore"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/test/redistest"
)

const (
	loaded = 100_000 // subscriptions
	// scraped are so many subscriptions that a scrape with a line for each would be far too long.
	scraped = 20_000
	// maxScrape is the limit of a scrape in bytes, for any number of subscriptions.
	maxScrape = 100_000
	// scrapeEvery and pageEvery are how often the operator looks during deliveries: a hundred times
	// as many scrapes as Prometheus makes, and ten pages a second.
	scrapeEvery = 150 * time.Millisecond
	pageEvery   = 100 * time.Millisecond
	// openPages of the page Now refresh themselves every refreshEvery, as its script does.
	openPages    = 20
	refreshEvery = 5 * time.Second
	// watchedPairs of samples of the fan-out, with and without those.
	watchedPairs = 20

	// Nobody publishes to idleTopic; deliveries are made to busyTopic.
	idleTopic = "http://127.0.0.1:2/idle"
	busyTopic = "http://127.0.0.1:2/busy"
)

// A place is where a hub has its store, which can be opened before the hub starts.
type place struct {
	open func() subscriptionStore
	flag string // for the hub
}

type subscriptionStore interface {
	subscriptions.Registry
	Close() error
}

// inFolder is a place in a new folder.
func inFolder(tb testing.TB) place {
	dir := filepath.Join(tb.TempDir(), "data")
	return place{func() subscriptionStore {
		store, err := embedstore.Open(dir, embedstore.Options{})
		if err != nil {
			tb.Fatal(err)
		}
		return store
	}, "--data-dir=" + dir}
}

// inRedis is a place in a Redis of its own.
func inRedis(b *testing.B) place {
	return inRedisAt(b, startRedis(b))
}

func inRedisAt(b *testing.B, redis *redistest.Server) place {
	return place{func() subscriptionStore { return openRedis(b, redis) }, "--redis-url=" + redis.URL()}
}

// startLoaded starts a hub that has many subscriptions to idleTopic, and one to
// busyTopic for each of the callbacks.
func startLoaded(tb testing.TB, at place, n int, callbacks ...string) *app.App {
	tb.Helper()
	store := at.open()
	put(tb, store, func(yield func(subscriptions.Subscription) bool) {
		for i := range n {
			if !yield(subscribed(idleTopic, fmt.Sprintf("http://h%d.example:8080/callback/%d", i%1000, i), journal.Head{})) {
				return
			}
		}
		for _, c := range callbacks {
			if !yield(subscribed(busyTopic, c, journal.Head{})) {
				return
			}
		}
	})
	if err := store.Close(); err != nil {
		tb.Fatal(err)
	}
	hub := startHub(tb, at.flag)
	waitLoaded(tb, hub, n+len(callbacks))
	return hub
}

func fetch(tb testing.TB, url string) string {
	tb.Helper()
	req, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, url, nil)
	if err != nil {
		tb.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		tb.Fatalf("%s: %s %v", url, resp.Status, err)
	}
	return string(body)
}

// A scrape stays small with many subscriptions.
func TestScrapeIsSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("it stores 20,000 subscriptions")
	}
	hub := startLoaded(t, inFolder(t), scraped)
	if text := fetch(t, "http://"+hub.AdminAddr()+"/metrics"); len(text) > maxScrape {
		t.Errorf("a scrape has %d bytes, over %d", len(text), maxScrape)
	}
}

// BenchmarkScrape is the time of a scrape of a hub with 100,000 subscriptions, as
// a ratio to that of a plain handler that answers as many bytes.
func BenchmarkScrape(b *testing.B) {
	hub := startLoaded(b, inFolder(b), loaded)
	metrics := "http://" + hub.AdminAddr() + "/metrics"
	text := fetch(b, metrics)
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }))
	defer plain.Close()
	const each = 200
	sample := func(url string) time.Duration {
		start := time.Now()
		for range each {
			fetch(b, url)
		}
		return time.Since(start) / each
	}
	sample(plain.URL)
	sample(metrics)
	for b.Loop() {
		var ratios []float64
		for range pairs {
			base := sample(plain.URL)
			ratios = append(ratios, float64(sample(metrics))/float64(base))
		}
		report(b, ratios, "x-plain-handler")
		b.ReportMetric(float64(len(text)), "bytes")
	}
}

// BenchmarkFanOutWhileWatched is the rate of the hub's fan-out with 100,000 subscriptions while the
// operator scrapes and lists, as a ratio to the rate without.
func BenchmarkFanOutWhileWatched(b *testing.B) { fanOutWhile(b, inFolder(b), watch) }

// BenchmarkFanOutWhileShown is the same while browsers show the page Now, which
// refreshes itself.
func BenchmarkFanOutWhileShown(b *testing.B) { fanOutWhile(b, inFolder(b), show) }

// BenchmarkRedisFanOutWhileShown is the same over a Redis on the same processors.
func BenchmarkRedisFanOutWhileShown(b *testing.B) { fanOutWhile(b, inRedis(b), show) }

// fanOutWhile measures the fan-out with and without the load that look begins and stop ends.
func fanOutWhile(b *testing.B, at place, look func(tb testing.TB, operator string) (stop func())) {
	b.Helper()
	receivers := startReceivers(b)
	var urls []string
	for i := range callbacks {
		urls = append(urls, fmt.Sprintf("%s/cb/%d", receivers.hosts[i%hosts], i))
	}
	hub := startLoaded(b, at, loaded, urls...)
	src := &source{topic: busyTopic, hub: hub.HubURL(), until: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	var expected int64
	run := func() {
		for range rounds {
			src.publish(b)
		}
		if expected += perSample; receivers.count(b, expected) != expected {
			b.Fatalf("the hub made %d deliveries, want %d", receivers.count(b, expected), expected)
		}
	}
	run()
	for b.Loop() {
		var ratios, cpu []float64
		for range watchedPairs {
			base := measure(perSample, run)
			stop := look(b, "http://"+hub.AdminAddr())
			watched := measure(perSample, run)
			stop()
			ratios, cpu = append(ratios, watched.rate/base.rate), append(cpu, watched.cpu/base.cpu)
		}
		report(b, ratios, "x-unwatched")
		slices.Sort(cpu)
		b.ReportMetric(cpu[len(cpu)/2], "x-cpu") // both ends of what looks on included
	}
}

// ticks does things at intervals until it is stopped.
type ticks struct {
	done chan struct{}
	todo sync.WaitGroup
}

func (t *ticks) every(d time.Duration, do func()) {
	t.todo.Go(func() {
		tick := time.NewTicker(d)
		defer tick.Stop()
		for {
			select {
			case <-t.done:
				return
			case <-tick.C:
				do()
			}
		}
	})
}

func (t *ticks) stop() {
	close(t.done)
	t.todo.Wait()
}

// show has openPages browsers refresh the page Now, one after the other.
func show(tb testing.TB, operator string) (stop func()) {
	t := &ticks{done: make(chan struct{})}
	t.every(refreshEvery/openPages, func() { fetch(tb, operator+"/ui/") })
	return t.stop
}

// watch scrapes and goes through the list of subscriptions until it is stopped.
func watch(tb testing.TB, operator string) (stop func()) {
	t := &ticks{done: make(chan struct{})}
	t.every(scrapeEvery, func() { fetch(tb, operator+"/metrics") })
	after := ""
	t.every(pageEvery, func() {
		var page struct{ Next string }
		if err := json.Unmarshal([]byte(fetch(tb, operator+"/api/v1/subscriptions?after="+after)), &page); err != nil {
			tb.Error(err)
		}
		after = page.Next
	})
	return t.stop
}

// report reports the median of ratios and how they spread.
func report(b *testing.B, ratios []float64, unit string) {
	b.Helper()
	slices.Sort(ratios)
	n := len(ratios)
	b.ReportMetric(ratios[n/2], unit)
	b.ReportMetric(ratios[0], "x-min")
	b.ReportMetric(ratios[n/4], "x-quarter")
	b.ReportMetric(ratios[n*3/4], "x-three-quarters")
	b.ReportMetric(ratios[n-1], "x-max")
}
