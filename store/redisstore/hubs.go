package redisstore

import (
	"slices"
	"sync"
	"time"

	"github.com/rshub/rshub/cluster"
)

// hubs are those that live, as this one sees them: by its heartbeats, and where Redis
// lost what others said, by what they said before.
type hubs struct {
	mu    sync.Mutex
	self  string            // id of this one; empty before its first heartbeat
	live  map[string]string // by id, the replication id of the server that had it last
	asked time.Time         // when the latest heartbeat that succeeded began
	// replid is that of the server that has the registry, and began when it had it
	// first.
	replid string
	began  time.Time
}

// beat takes over what a heartbeat told that began at a time. A hub that is missing
// counts for a lease still, where the registry may have lost it.
func (h *hubs) beat(asked time.Time, self, replid string, lease time.Duration, nodes []cluster.Node) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.live == nil {
		h.live = make(map[string]string)
	}
	if replid != h.replid {
		h.replid, h.began = replid, asked
	}
	h.self, h.asked = self, asked
	for _, n := range nodes {
		h.live[n.ID] = replid
	}
	for id, was := range h.live {
		gone := !slices.ContainsFunc(nodes, func(n cluster.Node) bool { return n.ID == id })
		if gone && (was == replid || asked.Sub(h.began) > lease) {
			delete(h.live, id)
		}
	}
}

func (h *hubs) id() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.self
}

// seen returns the hubs that live, if the registry was asked late enough after a time
// that each of them was in it.
func (h *hubs) seen(since time.Time, lease time.Duration) (ids []string, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if lease > 0 && h.asked.Sub(since) < 2*cluster.Tick(lease) {
		return nil, false // the heartbeat of one that has just begun may be on its way
	}
	for id := range h.live {
		ids = append(ids, id)
	}
	return ids, true
}
