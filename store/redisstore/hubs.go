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
	self  string             // id of this one; empty before its first heartbeat
	live  map[string]liveHub // by id
	asked time.Time          // when the latest heartbeat that succeeded began
	// replid is that of the server that has the registry, and began when it had it
	// first.
	replid string
	began  time.Time
}

// liveHub is one of them.
type liveHub struct {
	replid string    // of the server that had it last
	came   time.Time // when it was seen first; zero: by the first heartbeat of this hub
}

// beat records the answer to a heartbeat that began at a time. A hub that is missing still
// counts for one lease, because the registry may have lost it.
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

// seen returns the hubs that live, if the registry was asked late enough after a time
// that each of them was in it. A hub that came after that time remembers nothing from
// before, and counts only as long as a start may take. Otherwise a hub that dies at each
// start would block the others for good.
func (h *hubs) seen(since time.Time, lease time.Duration) (ids []string, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if lease > 0 && h.asked.Sub(since) < 2*cluster.Tick(lease) {
		return nil, false // the heartbeat of one that has just begun may be on its way
	}
	started := h.asked.Sub(since) > cluster.StartLimit(lease)
	for id, hub := range h.live {
		if !started || !hub.came.After(since) {
			ids = append(ids, id)
		}
	}
	return ids, true
}
