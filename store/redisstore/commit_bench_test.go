package redisstore

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/test/redistest"
)

// Cursors committed in batches, among 100,000 subscriptions. The ratio is to
// cursors written by HSET, one after the other, in the same run.
func BenchmarkCommit(b *testing.B) {
	s := openStore(b, Options{URL: redistest.Standalone(b, redistest.Config("appendfsync", "everysec")).URL(), Timeout: patience})
	subs := fill(b, s, 100_000)
	for _, size := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint("batch=", size), func(b *testing.B) {
			raw := plainHSet(b, s)
			b.ResetTimer()
			n := 0
			for b.Loop() {
				if err := s.Commit(b.Context(), nextCommits(subs, n, size)); err != nil {
					b.Fatal(err)
				}
				n += size
			}
			rate := float64(n) / b.Elapsed().Seconds()
			b.StopTimer()
			raw = (raw + plainHSet(b, s)) / 2
			b.ReportMetric(rate, "cursors/s")
			b.ReportMetric(rate/raw, "x-plain-HSET")
		})
	}
}

// plainHSet returns how many values of a cursor's size one client writes per
// second.
func plainHSet(b *testing.B, s *Store) float64 {
	b.Helper()
	now := time.Now()
	value := journal.PackCursor(journal.Cursor{
		Generation: uint64(now.UnixMicro()), Anchor: journal.Anchor{Position: journal.Position(now.UnixNano()), Nonce: 1<<63 + 5, Seq: 700, Until: now},
		Nudge: 2, Attempt: 3, Step: 4, NextAttemptAt: now.Add(time.Hour), FirstAttemptAt: now, LastStatus: journal.StatusTimeout,
	})
	began, n := time.Now(), 0
	for ; time.Since(began) < 300*time.Millisecond; n++ {
		if err := s.conn.client.HSet(b.Context(), "plain", n%1000, value).Err(); err != nil {
			b.Fatal(err)
		}
	}
	return float64(n) / time.Since(began).Seconds()
}

// All of 1,000,000 subscriptions read, as a hub does that starts alone.
func BenchmarkLoad(b *testing.B) {
	const n = 1_000_000
	s := openStore(b, Options{URL: redistest.Standalone(b, redistest.Config("appendonly", "no")).URL(), Timeout: patience})
	empty := usedMemory(b, s)
	fill(b, s, n)
	full := usedMemory(b, s)
	b.ResetTimer()
	for b.Loop() {
		all := 0
		for shard := range journal.Partitions {
			var after uuid.UUID
			for {
				page, err := s.List(b.Context(), shard, after, 1000)
				if err != nil {
					b.Fatal(err)
				}
				all += len(page)
				if len(page) < 1000 {
					break
				}
				after = page[len(page)-1].Subscription.ID
			}
		}
		if all != n {
			b.Fatalf("%d of %d were read", all, n)
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/load")
	b.ReportMetric(float64(full-empty)/n, "redis-B/subscription")
}

func usedMemory(b *testing.B, s *Store) int {
	b.Helper()
	info, err := s.conn.client.Info(b.Context(), "memory").Result()
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(info) {
		if text, ok := strings.CutPrefix(line, "used_memory:"); ok {
			n, err := strconv.Atoi(strings.TrimSpace(text))
			if err != nil {
				b.Fatal(err)
			}
			return n
		}
	}
	b.Fatal("Redis does not say how much memory it uses")
	return 0
}
