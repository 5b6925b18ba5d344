package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/embedstore"
	"github.com/rshub/rshub/subscriptions"
)

// discard counts the bytes of an answer and drops them.
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

// subscriber is the i-th of many.
func subscriber(i int) *subscriptions.Subscription {
	s := &subscriptions.Subscription{
		Topic: fmt.Sprintf("https://example.org/%d", i%100), Callback: fmt.Sprintf("https://s%d.example/cb", i),
		CreatedAt: noon, VerifiedAt: noon, ExpiresAt: noon.Add(time.Hour), Cursor: journal.Cursor{Generation: 1},
	}
	s.ID = subscriptions.ID(s.Topic, s.Callback)
	return s
}

// generated is a store that makes subscriptions up as they are read.
type generated struct {
	memory
	ids   [journal.Partitions][]uuid.UUID
	index map[uuid.UUID]int
}

func generate(n int) *generated {
	g := &generated{index: make(map[uuid.UUID]int, n)}
	for i := range n {
		id := subscriber(i).ID
		g.index[id] = i
		g.ids[subscriptions.Shard(id)] = append(g.ids[subscriptions.Shard(id)], id)
	}
	for i := range g.ids {
		slices.SortFunc(g.ids[i], compare)
	}
	return g
}

func (g *generated) List(_ context.Context, shard int, after uuid.UUID, limit int) ([]subscriptions.Record, error) {
	ids := g.ids[shard]
	at, found := slices.BinarySearchFunc(ids, after, compare)
	if found {
		at++
	}
	var out []subscriptions.Record
	for _, id := range ids[at:min(at+limit, len(ids))] {
		out = append(out, subscriptions.Record{Subscription: subscriber(g.index[id])})
	}
	return out, nil
}

// A page needs as much memory with many subscriptions as with few (invariant 12). The test tries
// 100,000 generated ones, and the store that the hub runs on.
func TestListsTakeConstantMemory_Invariant12(t *testing.T) {
	paths := map[string]string{"first": "/api/v1/subscriptions?limit=500", "middle": "/api/v1/subscriptions?limit=500&state=active&after=" + middle().String()}
	measure := func(s Subscriptions, topics Topics) map[string]uint64 {
		h := newAPI(Options{Topics: topics, Subscriptions: s, Now: func() time.Time { return noon }}).handler()
		bytes := make(map[string]uint64)
		for name, path := range paths {
			bytes[name] = allocated(t, h, path)
		}
		return bytes
	}
	judge := func(what string, few, many map[string]uint64) {
		for name := range paths {
			t.Logf("%s: the %s page of 500 allocates %d KiB of few, %d KiB of many", what, name, few[name]>>10, many[name]>>10)
			if many[name] > few[name]+few[name]/2 {
				t.Errorf("%s: the %s page takes more of many subscriptions", what, name)
			}
		}
	}
	few, many := generate(2000), generate(100_000)
	judge("100,000", measure(few, few), measure(many, many))

	s, err := embedstore.Open(t.TempDir(), embedstore.Options{MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	store := func(from, to int) {
		inParallel(t, to-from, func(ctx context.Context, i int) error {
			sub := subscriber(from + i)
			_, err := s.Update(ctx, sub.ID, func(subscriptions.Record) (subscriptions.Record, error) {
				return subscriptions.Record{Subscription: sub}, nil
			})
			return err
		})
	}
	store(0, 1500)
	before := measure(s, s)
	store(1500, 10_000)
	judge("10,000 in the embedded store", before, measure(s, s))
}

// middle is an id in the middle of a list: the last possible one of a partition.
func middle() uuid.UUID {
	id := uuid.Max
	for journal.Partition(id) != journal.Partitions/2 {
		id = before(id)
	}
	return id
}
