package transfer_test

import (
	"bytes"
	"strconv"
	"testing"

	"github.com/rshub/rshub/internal/engine/transfer"
	"github.com/rshub/rshub/store/embedstore"
	"github.com/rshub/rshub/subscriptions"
)

// BenchmarkImport loads 100,000 subscriptions into an embedded store.
func BenchmarkImport(b *testing.B) {
	const n = 100_000
	from := newMemory()
	h := from.publish(b, topicName(0), 10)
	for i := range n {
		s := subscription(topicName(0), i, h.Last)
		s.Gaps, s.Secret = nil, strconv.Itoa(i)
		from.put(b, subscriptions.Record{Subscription: s})
	}
	keys := keysOf(b, 1)
	file, _ := export(b, from, transfer.ExportOptions{Keys: keys})
	b.SetBytes(int64(len(file)))
	for b.Loop() {
		to, err := embedstore.Open(b.TempDir(), embedstore.Options{Keys: keys})
		if err != nil {
			b.Fatal(err)
		}
		told, err := transfer.Import(b.Context(), bytes.NewReader(file), to, transfer.ImportOptions{Keys: keys})
		if err != nil || told.Stored != n+1 {
			b.Fatal(told, err)
		}
		if err := to.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds(), "subscriptions/s")
}
