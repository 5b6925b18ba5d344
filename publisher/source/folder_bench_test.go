package source

import (
	"crypto/md5"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// fill makes files, in folders of a thousand.
func fill(b *testing.B, dir string, files, size int) {
	b.Helper()
	content := make([]byte, size)
	for i := range files {
		path := filepath.Join(dir, fmt.Sprint(i/1000), fmt.Sprint("file-", i))
		if i%1000 == 0 {
			must(b, os.MkdirAll(filepath.Dir(path), 0o755))
		}
		copy(content, fmt.Sprint(i, " "))
		must(b, os.WriteFile(path, content, 0o600))
	}
}

// plainHash reads and hashes the files as simply as can be, one after the other.
func plainHash(b *testing.B, dir string, files int) {
	b.Helper()
	for i := range files {
		f, err := os.Open(filepath.Join(dir, fmt.Sprint(i/1000), fmt.Sprint("file-", i)))
		must(b, err)
		m, s := md5.New(), sha256.New()
		_, err = io.Copy(io.MultiWriter(m, s), f)
		must(b, err)
		must(b, f.Close())
		_, _ = m.Sum(nil), s.Sum(nil)
	}
}

// BenchmarkFirstScan is the first scan of a folder, index included, with one
// worker. The metric x-plain is its time as a multiple of that of hashing the same
// files and nothing else; rescan-x-plain that of a scan that finds no change.
func BenchmarkFirstScan(b *testing.B) {
	for _, c := range []struct{ files, size int }{{10_000, 1 << 10}, {10_000, 64 << 10}, {100, 16 << 20}, {100_000, 100}} {
		b.Run(fmt.Sprintf("%dx%d", c.files, c.size), func(b *testing.B) {
			dir := b.TempDir()
			fill(b, dir, c.files, c.size)
			time.Sleep(racyWindow)
			var plain, scan, again time.Duration
			took := func(sum *time.Duration, fn func()) {
				begun := time.Now()
				fn()
				*sum += time.Since(begun)
			}
			for b.Loop() {
				took(&plain, func() { plainHash(b, dir, c.files) })
				x, err := OpenIndex(b.TempDir())
				must(b, err)
				f, err := NewFolder(x, FolderOptions{Dir: dir, Workers: 1})
				must(b, err)
				took(&scan, func() { must(b, f.Scan(b.Context())) })
				took(&again, func() { must(b, f.Scan(b.Context())) })
				if x.Len() != c.files {
					b.Fatalf("%d resources", x.Len())
				}
				must(b, x.Close())
			}
			b.ReportMetric(scan.Seconds()/plain.Seconds(), "x-plain")
			b.ReportMetric(again.Seconds()/plain.Seconds(), "rescan-x-plain")
			b.ReportMetric(float64(c.files*b.N)/scan.Seconds(), "files/s")
		})
	}
}

// BenchmarkMillion reads a snapshot of 1,000,000 resources, and reports how much
// the heap had grown in the middle of it.
func BenchmarkMillion(b *testing.B) {
	const n = 1_000_000
	dir := b.TempDir()
	x, err := OpenIndex(dir)
	must(b, err)
	defer x.Close() //nolint:errcheck // of a benchmark
	begun := time.Now()
	for i := 0; i < n; i += batchSize {
		var steps []step
		for j := range batchSize {
			path := fmt.Sprintf("%03d/%03d/%06d.txt", i/10_000, i/100%100, i+j)
			steps = append(steps, step{key: path, now: made(path, path)})
		}
		_, err := x.apply(time.Now(), steps)
		must(b, err)
	}
	must(b, x.baseline(time.Now()))
	written := n / time.Since(begun).Seconds()
	info, err := os.Stat(filepath.Join(dir, indexName))
	must(b, err)
	var before, during runtime.MemStats
	var most uint64
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		s := snap(b, x)
		count := 0
		for _, err := range s.Resources() {
			must(b, err)
			if count++; count%100_000 == 0 {
				runtime.ReadMemStats(&during)
				most = max(most, during.HeapAlloc-min(before.HeapAlloc, during.HeapAlloc))
			}
		}
		s.Close()
		if count != n {
			b.Fatal(count)
		}
	}
	b.ReportMetric(written, "written/s")
	b.ReportMetric(float64(info.Size())/n, "disk-B/resource")
	b.ReportMetric(float64(most)/(1<<20), "MiB-heap")
}
