package bench

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/internal/program/app"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// BenchmarkRedisLoad is load over Redis.
func BenchmarkRedisLoad(b *testing.B) {
	redis := startRedis(b)
	empty := memoryOf(b, redis)
	n := load(b, inRedisAt(b, redis), func() time.Duration {
		return cpuTime() + time.Duration(cpuOf(b, redis)*float64(time.Second))
	})
	b.ReportMetric((memoryOf(b, redis)-empty)/n, "redis-B/subscription")
}

// BenchmarkEmbeddedLoad is load over the embedded store.
func BenchmarkEmbeddedLoad(b *testing.B) {
	at := inFolder(b)
	n := load(b, at, cpuTime)
	b.ReportMetric(sizeOf(b, strings.TrimPrefix(at.flag, "--data-dir="))/n, "disk-B/subscription")
}

// load stores 1,000,000 subscriptions to 1,000 topics (a tenth of that without RSHUB_BENCH_FULL), and
// a hub reads them all at its start. The ratios are to opening the store, reading the same records and
// doing nothing with them: of time and of processor time, that of Redis included. It does so once, and
// returns the number of subscriptions.
func load(b *testing.B, at place, cpu func() time.Duration) float64 {
	store := at.open()
	n := sized(1_000_000)
	start := time.Now()
	put(b, store, func(yield func(subscriptions.Subscription) bool) {
		for i := range n {
			if !yield(subscribed(fmt.Sprintf("http://127.0.0.1:2/topic/%d", i%1000), fmt.Sprintf("http://h%d.example:8080/callback/%d", i%1000, i), journal.Head{})) {
				return
			}
		}
	})
	stored := time.Since(start)
	worked := func(work func()) (took, spent time.Duration) {
		runtime.GC()
		start, before := time.Now(), cpu()
		work()
		return time.Since(start), cpu() - before
	}
	closing := func() {
		if err := store.Close(); err != nil {
			b.Fatal(err)
		}
	}
	closing()
	plain, plainCPU := worked(func() {
		store = at.open()
		readAll(b, store, n)
	})
	closing()
	before := heap()
	var hub *app.App
	took, spent := worked(func() {
		hub = startHub(b, at.flag)
		waitReady(b, hub)
	})
	b.ReportMetric(took.Seconds(), "s-to-start")
	b.ReportMetric(float64(took)/float64(plain), "x-reading")
	b.ReportMetric(float64(spent)/float64(plainCPU), "x-reading-cpu")
	waitLoaded(b, hub, n)
	size := heap() - before
	for range 4 { // the hub counts its subscriptions meanwhile, and what it reads for that is garbage
		time.Sleep(2 * time.Second)
		size = min(size, heap()-before)
	}
	b.ReportMetric(size/float64(n), "heap-B/subscription")
	start = time.Now()
	runtime.GC()
	b.ReportMetric(float64(time.Since(start).Microseconds())/1000, "ms/GC")
	b.ReportMetric(stored.Seconds(), "s-to-store")
	b.ReportMetric(float64(n), "subscriptions")
	return float64(n)
}

// waitLoaded waits until the metrics of a hub say that it has so many active subscriptions.
func waitLoaded(tb testing.TB, hub *app.App, n int) {
	tb.Helper()
	want := fmt.Sprintf("rshub_subscriptions{state=\"active\"} %s\n", strconv.FormatFloat(float64(n), 'g', -1, 64))
	got := ""
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if got = fetch(tb, "http://"+hub.AdminAddr()+"/metrics"); strings.Contains(got, want) {
			return
		}
	}
	tb.Fatalf("the hub has not taken up its %d subscriptions:\n%s", n, got)
}

// sizeOf is how many bytes the files of a folder have.
func sizeOf(b *testing.B, folder string) (size float64) {
	b.Helper()
	err := filepath.WalkDir(folder, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			size += float64(info.Size())
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return size
}

// pageSize is that of a hub.
const pageSize = 4096

// readAll reads all subscriptions of a store.
func readAll(b *testing.B, store subscriptions.Registry, want int) {
	b.Helper()
	got := 0
	for shard := range journal.Partitions {
		var after uuid.UUID
		for {
			page, err := store.List(b.Context(), shard, after, pageSize)
			if err != nil {
				b.Fatal(err)
			}
			if got += len(page); len(page) < pageSize {
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
