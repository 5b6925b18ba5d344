package redisstore

import (
	"slices"
	"sync"
	"time"

	"github.com/rshub/rshub/cluster"
)

// hubs are the live hubs, as this hub knows them from its heartbeats. If Redis lost the
// registry, earlier heartbeats count.
type hubs struct {
	mu    sync.Mutex
	self  string             // id of this hub; empty before its first heartbeat
	live  map[string]liveHub // by id
	asked time.Time          // when the latest heartbeat that succeeded began
	// replid is the replication id of the server that has the registry. Began is when this
	// hub first saw it there.
	replid string
	began  time.Time
}

// liveHub is what this hub knows about another one.
type liveHub struct {
	replid string    // of the server whose registry had it last
	came   time.Time // when it was first seen; zero: in the first heartbeat of this hub
}

// beat records the answer to a heartbeat that began at the time asked. A hub that is missing
// in it still counts for one lease, because the registry may have lost it.
func (h *hubs) beat(asked time.Time, self, replid string, lease time.Duration, nodes []cluster.Node) {
	h.mu.Lock()
	defer h.mu.Unlock()
	came := asked
	if h.live == nil {
		h.live, came = make(map[string]liveHub), time.Time{}
	}
	if replid != h.replid {
		h.replid, h.began = replid, asked
	}
	h.self, h.asked = self, asked
	for _, n := range nodes {
		hub, ok := h.live[n.ID]
		if !ok {
			hub.came = came
		}
		hub.replid = replid
		h.live[n.ID] = hub
	}
	for id, hub := range h.live {
		gone := !slices.ContainsFunc(nodes, func(n cluster.Node) bool { return n.ID == id })
		if gone && (hub.replid == replid || asked.Sub(h.began) > lease) {
			delete(h.live, id)
		}
	}
}

func (h *hubs) id() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.self
}

// seen returns the live hubs, if the latest heartbeat is late enough after since that the
// registry had all of them. A hub that came after since remembers nothing from before. It
// counts only as long as a start may take. Otherwise a hub that dies at each start would
// block the others for good.
func (h *hubs) seen(since time.Time, lease time.Duration) (ids []string, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if lease > 0 && h.asked.Sub(since) < 2*cluster.Tick(lease) {
		return nil, false // the first heartbeat of another hub may be on its way
	}
	started := h.asked.Sub(since) > cluster.StartLimit(lease)
	for id, hub := range h.live {
		if !started || !hub.came.After(since) {
			ids = append(ids, id)
		}
	}
	return ids, true
}
