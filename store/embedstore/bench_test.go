package embedstore

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// calibrate writes 1 KB at a time to a file, with an fsync after each, and
// returns how many it wrote in a second. Absolute figures of a disk differ from
// hour to hour; ratios to this one do not.
func calibrate(b *testing.B) float64 {
	b.Helper()
	f, err := os.Create(filepath.Join(b.TempDir(), "plain"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	kib := make([]byte, 1<<10)
	began, n := time.Now(), 0
	for ; time.Since(began) < 200*time.Millisecond; n++ {
		if _, err := f.Write(kib); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
	return float64(n) / time.Since(began).Seconds()
}

// together runs b.N operations in a number of goroutines and reports their rate
// as such and as a multiple of the plain one.
func together(b *testing.B, workers int, run func(worker int) error) {
	plain := calibrate(b)
	b.ReportAllocs()
	b.ResetTimer()
	var group sync.WaitGroup
	for w := range workers {
		n := b.N / workers
		if w < b.N%workers {
			n++
		}
		group.Go(func() {
			for range n {
				if err := run(w); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	b.StopTimer()
	rate := float64(b.N) / b.Elapsed().Seconds()
	plain = (plain + calibrate(b)) / 2
	b.ReportMetric(rate, "ops/s")
	b.ReportMetric(rate/plain, "x-plain-fsync")
}

func benchStore(b *testing.B) *Store {
	b.Helper()
	s, err := Open(filepath.Join(b.TempDir(), "data"), Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

// transactions is how many transactions the store has seen.
func transactions(b *testing.B, s *Store) (n int) {
	b.Helper()
	if err := s.folder.db.View(func(tx *boltfile.Tx) error { n = tx.ID(); return nil }); err != nil {
		b.Fatal(err)
	}
	return n
}

// Durable appends of 1 KB, each writer to a topic of its own.
func BenchmarkAppend(b *testing.B) {
	for _, writers := range []int{1, 16, 256} {
		b.Run(fmt.Sprint("writers=", writers), func(b *testing.B) {
			s := benchStore(b)
			versions := make([]journal.Version, writers)
			seqs := make([]int, writers)
			body := make([]byte, 1<<10)
			before := transactions(b, s)
			together(b, writers, func(w int) error {
				name := fmt.Sprint(topic, w)
				from := start.Add(time.Duration(seqs[w]) * time.Second)
				seqs[w]++
				_, err := s.Append(b.Context(), from, name, journal.Entry{From: from, Until: from.Add(time.Second), Kind: journal.KindChange, Body: body}, versions[w])
				if err != nil {
					return err
				}
				h, err := s.Head(b.Context(), name)
				versions[w] = h.Version
				return err
			})
			b.ReportMetric(float64(b.N)/float64(transactions(b, s)-before), "ops/fsync")
		})
	}
}

// Durable commits of 1,024 cursors each, among 100,000 subscriptions.
func BenchmarkCommit(b *testing.B) {
	const subs, group = 100_000, 1024
	s := benchStore(b)
	commits := make([]subscriptions.Commit, subs)
	for i := range commits {
		sub := subscriptions.Subscription{Topic: topic, Callback: fmt.Sprint("https://subscriber.example/", i)}
		commits[i].ID = subscriptions.ID(sub.Topic, sub.Callback)
		commits[i].Cursor.Generation = 1
	}
	var wait sync.WaitGroup
	for w := range 256 {
		wait.Go(func() {
			for i := w; i < subs; i += 256 {
				sub := subscriptions.Subscription{Topic: topic, Callback: fmt.Sprint("https://subscriber.example/", i)}
				_, err := s.Update(b.Context(), commits[i].ID, func(subscriptions.Record) (subscriptions.Record, error) {
					return subscriptions.Record{Subscription: &sub}, nil
				})
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	wait.Wait()
	next := 0
	together(b, 1, func(int) error {
		from := next % (subs - group)
		next += group
		for i := range commits[from : from+group] {
			commits[from+i].Cursor.Position++
		}
		return s.Commit(b.Context(), commits[from:from+group])
	})
	b.ReportMetric(float64(b.N)*group/b.Elapsed().Seconds(), "cursors/s")
}
