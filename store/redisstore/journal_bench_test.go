package redisstore

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/test/redistest"
)

// benchServer is a Redis that writes its file once a second, as disks differ.
func benchServer(b *testing.B) *Store {
	server := redistest.Standalone(b, redistest.Config("appendfsync", "everysec"), redistest.Shared())
	return openStore(b, Options{URL: server.URL(), Prefix: freshPrefix(), Timeout: patience})
}

// benchBody is a notification of about 1 KB.
var benchBody = strings.Repeat("<url><loc>https://source.example/a</loc></url>", 22)

// interleaved runs two loops of n steps in turn, each several times, and returns
// the time of the first in that of the second.
func interleaved(b *testing.B, ours, plain func()) {
	b.Helper()
	var t, u time.Duration
	for range 10 {
		begin := time.Now()
		ours()
		middle := time.Now()
		plain()
		t, u = t+middle.Sub(begin), u+time.Since(middle)
	}
	b.ReportMetric(float64(u)/float64(t), "of-plain")
}

// BenchmarkAppend compares appends with a loop of plain XADD commands that carry
// as many bytes, with one writer and with many.
func BenchmarkAppend(b *testing.B) {
	for _, writers := range []int{1, 16, 64} {
		b.Run(fmt.Sprint("writers-", writers), func(b *testing.B) {
			s := benchServer(b)
			ctx := b.Context()
			heads := make([]journal.Version, writers)
			round := 0
			loop := func(step func(w, i int) error) {
				const n = 20
				var all sync.WaitGroup
				for w := range writers {
					all.Go(func() {
						for i := range n {
							if err := step(w, i); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				all.Wait()
				round++
			}
			e := entry(0, benchBody)
			for b.Loop() {
				interleaved(b, func() {
					loop(func(w, _ int) error {
						stored, err := s.Append(ctx, time.Now(), fmt.Sprint(topicName, w), e, heads[w])
						heads[w] = stored.Nonce.Version()
						return err
					})
				}, func() {
					loop(func(w, _ int) error {
						return s.conn.client.XAdd(ctx, &redis.XAddArgs{
							Stream: s.conn.key.partition(w, "plain"), Values: []any{"e", benchBody[:200], "b", benchBody},
						}).Err()
					})
				})
			}
		})
	}
}

// BenchmarkRead compares reads of entries one by one, as a sender at the head of
// a topic does, and of 64 in one, with plain XRANGE commands.
func BenchmarkRead(b *testing.B) {
	for _, most := range []int{1, 64} {
		b.Run(fmt.Sprint("entries-", most), func(b *testing.B) {
			s := benchServer(b)
			ctx := b.Context()
			const n = 640
			entries := publishAll(b, s, n)
			stream := s.conn.key.topic(topicName).entries
			var read atomic.Int64
			for b.Loop() {
				interleaved(b, func() {
					after := journal.Anchor{}
					for i := 0; i < n; i += most {
						got, err := s.Read(ctx, topicName, after, most, 1<<30)
						if err != nil || len(got) != most {
							b.Fatal(len(got), err)
						}
						after = got[most-1].Anchor()
						read.Add(int64(len(got)))
					}
				}, func() {
					from := "-"
					for i := 0; i < n; i += most {
						if _, err := s.conn.client.XRangeN(ctx, stream, from, "+", int64(most)).Result(); err != nil {
							b.Fatal(err)
						}
						from = "(" + streamID(entries[min(i+most, n)-1].Anchor())
					}
				})
			}
			b.ReportMetric(float64(read.Load())/b.Elapsed().Seconds(), "entries/s")
		})
	}
}

// BenchmarkEncodeBody compresses a notification.
func BenchmarkEncodeBody(b *testing.B) {
	body := []byte(benchBody)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if stored := encodeBody(body); bytes.Equal(stored, body) {
			b.Fatal("it is stored as it is")
		}
	}
}

// publishAll appends n notifications.
func publishAll(b *testing.B, s *Store, n int) []journal.Entry {
	b.Helper()
	var out []journal.Entry
	var head journal.Version
	for i := range n {
		e, err := s.Append(b.Context(), time.Now(), topicName, entry(i, benchBody), head)
		if err != nil {
			b.Fatal(err)
		}
		head = e.Nonce.Version()
		out = append(out, e)
	}
	return out
}

// BenchmarkSize measures the memory that Redis needs for a notification of 1 KB besides its
// body, and for a topic with one.
func BenchmarkSize(b *testing.B) {
	for name, topics := range map[string]int{"one-topic": 1, "topics": 5000} {
		b.Run(name, func(b *testing.B) {
			s := benchServer(b)
			const n = 5000
			before := usedMemory(b, s)
			for b.Loop() {
				for i := range n {
					topic := fmt.Sprint(topicName, b.Name(), i%topics)
					h, err := s.Head(b.Context(), topic)
					if err != nil {
						b.Fatal(err)
					}
					if _, err := s.Append(b.Context(), time.Now(), topic, entry(i, noise(1000)), h.Version); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(usedMemory(b, s)-before)/float64(n*b.N), "bytes/notification")
		})
	}
}
