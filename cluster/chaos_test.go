package cluster

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// neverTwo starts and stops hubs, cuts them off from the store and slows them down, at random.
// The workers of all hubs share one floor, which notices when two work on one shard.
func neverTwo(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	upTo := func(d time.Duration) time.Duration { return time.Duration(rnd.Int64N(int64(d))) }
	b := newBed(t)
	b.store.hangs = seed%2 == 0
	live := map[string]*hub{}
	for i := range 40 {
		id := fmt.Sprint("hub ", i)
		switch n := rnd.IntN(10); {
		case n < 4 && len(live) < 5 || len(live) == 0:
			startTime, finishFor := upTo(3*time.Second)/startsAtOnce, upTo(20*time.Second)
			live[id] = b.start(id, func(_ *Options, p *part) { p.startTime, p.finishFor = startTime, finishFor })
		case n < 6:
			for id, h := range live {
				go h.stop()
				delete(live, id)
				break
			}
		default:
			b.store.mu.Lock()
			for id := range live {
				b.store.away[id] = rnd.IntN(3) == 0
			}
			b.store.mu.Unlock()
		}
		b.after(upTo(2 * lease))
		two(t, b, live)
	}
	b.store.mu.Lock()
	clear(b.store.away)
	b.store.mu.Unlock()
	b.after(4 * lease)
	all := 0
	for _, h := range live {
		all += h.part.count()
	}
	if len(live) > 0 && all != Shards {
		t.Errorf("seed %d: %d shards are worked on by %d hubs", seed, all, len(live))
	}
	for _, h := range live {
		h.stop()
	}
	b.after(lease)
}

// two fails if two hubs believe that they own a shard.
func two(t *testing.T, b *bed, live map[string]*hub) {
	t.Helper()
	for shard := range Shards {
		owner := ""
		for id, h := range live {
			if !h.Owns(shard) {
				continue
			}
			b.store.mu.Lock()
			stored := b.store.owner(shard)
			b.store.mu.Unlock()
			if owner != "" || stored != id {
				t.Errorf("%q and %q own shard %d, by the store %q", owner, id, shard, stored)
			}
			owner = id
		}
	}
}
