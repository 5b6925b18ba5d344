package source

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// A Resource List is written in memory that does not grow with the number of
// resources, here a million of them: 20 parts and their index. The largest heap that
// was seen above that before is reported, in MiB.
func BenchmarkResourceList(b *testing.B) {
	const resources = 1_000_000
	x := newSite(b, func(o *Options) { o.Schedule.Archive, o.Schedule.Dump, o.Schedule.Linger = -1, -1, -1 })
	s := x.sets[0]
	now := time.Now()
	for n := 0; n < resources; {
		var steps []step
		for range 10_000 {
			path := fmt.Sprintf("collection-%03d/object-%07d/content.html", n%1000, n)
			r := &record{Resource: Resource{Path: path, ModTime: now.UTC(), Length: int64(n), MediaType: "text/html"}}
			r.SHA256[0], r.SHA256[1], r.MD5[0] = byte(n), byte(n>>8), byte(n>>16)
			steps = append(steps, step{key: path, now: r})
			n++
		}
		if _, err := s.index.apply(now, steps); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.index.baseline(now); err != nil {
		b.Fatal(err)
	}
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	var peak atomic.Uint64
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			peak.Store(max(peak.Load(), now.HeapInuse))
		}
	}()
	for b.Loop() {
		x.churn(newRandom(), 1, time.Now())
		if _, err := s.buildResourceList(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	close(done)
	b.ReportMetric(float64(peak.Load()-min(peak.Load(), before.HeapInuse))/(1<<20), "MiB-heap")
	b.ReportMetric(float64(len(s.shelf.current().History.List.Parts)), "parts")
}

// What a change costs where the open Change List, and the list of recent changes, have
// 50,000 already: both are written as a whole. The megabytes are those on disk.
func BenchmarkChangeLists50000(b *testing.B) {
	x := newSite(b, func(o *Options) { o.Schedule.Archive, o.Schedule.Dump, o.Schedule.Linger = -1, -1, -1 })
	s := x.sets[0]
	if err := s.index.baseline(time.Now()); err != nil {
		b.Fatal(err)
	}
	n := 0
	change := func(count int) {
		var steps []step
		for range count {
			path := fmt.Sprintf("collection-%03d/object-%07d/content.html", n%1000, n)
			r := &record{Resource: Resource{Path: path, ModTime: time.Now().UTC(), Length: int64(n), MediaType: "text/html"}}
			r.SHA256[0], r.SHA256[1], r.MD5[0] = byte(n), byte(n>>8), byte(n>>16)
			steps = append(steps, step{key: path, now: r})
			n++
		}
		if _, err := s.index.apply(time.Now(), steps); err != nil {
			b.Fatal(err)
		}
	}
	for range 50 {
		change(1000)
	}
	change(1)
	x.step(s.buildChangeLists) // closes the first
	for range 49 {
		change(1000)
	}
	for name, do := range map[string]work{"open": s.buildChangeLists, "recent": onRing(s.buildRecent)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				change(1)
				x.step(do)
			}
			d := s.shelf.current().Documents[map[string]string{"open": s.shelf.current().History.Open, "recent": changeListPath}[name]]
			b.ReportMetric(float64(d.Length)/1e6, "MB")
		})
	}
}
