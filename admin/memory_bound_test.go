package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/embedstore"
	"github.com/rshub/rshub/subscriptions"
)

// discard takes an answer and counts its bytes.
type discard struct {
	header http.Header
	bytes  int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Write(p []byte) (int, error) { d.bytes += len(p); return len(p), nil }

// allocated is how many bytes a page costs, and what comes after it.
func allocated(t *testing.T, h http.Handler, path string) (bytes uint64) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	r.Host = "localhost"
	best := ^uint64(0)
	for range 5 { // what others allocate meanwhile only adds
		var before, after runtime.MemStats
		w := &discard{header: http.Header{}}
		runtime.ReadMemStats(&before)
		h.ServeHTTP(w, r)
		runtime.ReadMemStats(&after)
		if w.bytes < 10_000 {
			t.Fatalf("%s answers %d bytes", path, w.bytes)
		}
		best = min(best, after.TotalAlloc-before.TotalAlloc)
	}
	return best
}

// A page takes as much memory with 100,000 subscriptions as with 2,000, over the
// store that the hub runs on (invariant 12).
func TestListsTakeConstantMemory_Invariant12(t *testing.T) {
	if testing.Short() {
		t.Skip("it stores 100,000 subscriptions")
	}
	s, err := embedstore.Open(t.TempDir(), embedstore.Options{MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	a := newAPI(Options{Topics: s, Subscriptions: s, Marks: s, Now: func() time.Time { return noon }})
	h := a.handler()
	store := func(from, to int) {
		inParallel(t, to-from, func(ctx context.Context, i int) error {
			topic, callback := fmt.Sprintf("https://example.org/%d", (from+i)%100), fmt.Sprintf("https://s%d.example/cb", from+i)
			id := subscriptions.ID(topic, callback)
			_, err := s.Update(ctx, id, func(subscriptions.Record) (subscriptions.Record, error) {
				return subscriptions.Record{Subscription: &subscriptions.Subscription{
					ID: id, Topic: topic, Callback: callback, CreatedAt: noon, VerifiedAt: noon, ExpiresAt: noon.Add(time.Hour),
					Cursor: journal.Cursor{Generation: 1},
				}}, nil
			})
			return err
		})
	}
	pages := map[string]string{"first": "/api/v1/subscriptions?limit=500", "middle": "/api/v1/subscriptions?limit=500&state=active&after=" + middle().String()}
	bytes := make(map[string]uint64)
	from := 0
	for _, total := range []int{2000, 100_000} {
		store(from, total)
		from = total
		for name, path := range pages {
			got := allocated(t, h, path)
			t.Logf("%d subscriptions, a page of 500, the %s: %d KiB allocated", total, name, got>>10)
			if few, ok := bytes[name]; ok && got > few+few/2 {
				t.Errorf("the %s page of %d allocates %d bytes, of 2000 %d", name, total, got, few)
			}
			bytes[name] = got
		}
	}
}

// middle is an id in the middle of a list: the last possible one of a partition.
func middle() uuid.UUID {
	id := uuid.Max
	for journal.Partition(id) != journal.Partitions/2 {
		id = before(id)
	}
	return id
}
