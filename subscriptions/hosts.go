package subscriptions

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/journal"
)

// hostCounts counts the live subscriptions of each callback host. Between two
// walks of the house-keeping it follows what this process changes; a lease that
// runs out meanwhile is counted until the next walk. It holds a number for each
// host and shard that has a live subscription.
type hostCounts struct {
	mu     sync.Mutex
	shards [journal.Partitions]map[string]int
}

func newHostCounts() *hostCounts {
	h := &hostCounts{}
	for i := range h.shards {
		h.shards[i] = make(map[string]int)
	}
	return h
}

func (h *hostCounts) count(host string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, m := range h.shards {
		n += m[host]
	}
	return n
}

// set replaces the counts of a shard by those of a walk over it.
func (h *hostCounts) set(shard int, counts map[string]int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.shards[shard] = counts
}

// changed follows a change from before to after, either of which may be nil.
func (h *hostCounts) changed(id uuid.UUID, before, after *Subscription, now time.Time) {
	was, is := before != nil && before.Live(now), after != nil && after.Live(now)
	if h == nil || was == is {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.shards[Shard(id)]
	if is {
		m[egress.HostPortOf(after.Callback)]++
		return
	}
	host := egress.HostPortOf(before.Callback)
	if m[host]--; m[host] <= 0 {
		delete(m, host)
	}
}
