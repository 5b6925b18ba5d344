package delivery

import (
	"math"
	"slices"
	"strings"
	"time"
)

// health says whether a host answers quickly, whatever it answers, or is new or was slow a while
// ago. Without the difference, new hosts that hang would occupy all senders until each had its
// three timeouts, and callbacks that answer just before the time limit would occupy them for ever.
type health int

const (
	unproven health = iota
	quick
)

// quickFraction is the fraction of the exchange's time limit, one in so many, that a quick
// exchange needs at most: a bit less than 2 s of 15. The limit grows with the body, so
// a quick host reads 1 MiB or more a second of a large one.
const quickFraction = 8

// probation is how long a slow host is not quick again. Otherwise a host that is quick and slow by
// turns would get the senders that are reserved for quick hosts.
const probation = 10 * time.Minute

// host is a callback host:port.
type host struct {
	name      string
	origin    string // with which most callbacks begin, such as https://h.example
	scheduler int    // whose it is
	members
	// queued are the backlogs with ready lanes, of each kind in the order in which
	// they have their turn here; active counts the exchanges of each.
	queued [kinds]ring[*backlog]
	active [kinds]int32
	turn   kind // which goes first of those with equally many
	// waiting are the backlogs that lead no sender here. Of those that do, leads counts
	// the ones that do so at the next turn of their topic.
	waiting backlogList
	leads   int32

	health    health
	slowUntil int64 // monotonic; no earlier is it quick again
	// failures counts timeouts and connect errors in a row.
	failures int
	// suspect: there were too many of them, and the host gets one probe for
	// each step of a ladder of its own, at probe or after.
	suspect bool
	step    uint32
	probe   int64 // monotonic
	timer   int32 // its place in hosts.probes, or -1
	// revive: it was suspect, and lanes of it wait that its first 2xx readies.
	revive  bool
	walking bool
}

func (h *host) slot() *int32 { return &h.timer }

func (h *host) pool() pool {
	if h.suspect {
		return pool(2 + h.health)
	}
	return pool(h.health)
}

// busy is how many deliveries it has.
func (h *host) busy() int {
	n := int32(0)
	for _, of := range h.active {
		n += of
	}
	return int(n)
}

// hosts are the hosts that have lanes or deliveries, and what is known of their health.
type hosts struct {
	clocks
	policy    Policy
	rnd       func() float64
	wake      func() // a probe may be due earlier than before
	limits    *limits
	byName    map[string]*host
	probes    timers[*host] // suspects
	suspects  int
	scheduler int // whose they are
}

// host returns the host of a callback, which has a name. It adds the host if there is none.
func (hs *hosts) host(name, callback string) *host {
	h := hs.byName[name]
	if h == nil {
		h = &host{name: name, origin: originOf(callback), scheduler: hs.scheduler, timer: -1}
		hs.byName[name] = h
	}
	return h
}

// originOf returns what is before the path of a URL.
func originOf(address string) string {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		return ""
	}
	host := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		host = rest[:end]
	}
	return scheme + "://" + host
}

// forget drops a host without lanes and deliveries.
func (hs *hosts) forget(h *host) {
	if len(h.lanes) > 0 || h.busy() > 0 || slices.ContainsFunc(h.queued[:], func(q ring[*backlog]) bool { return q.n > 0 }) {
		return
	}
	hs.trust(h)
	if hs.byName[h.name] == h {
		delete(hs.byName, h.name)
	}
}

// observe updates the health of a delivery's host. It reports whether the host answered 2xx for
// the first time since it was suspect. The caller relists the host if its pool has changed.
func (hs *hosts) observe(j job, out outcome) (revived bool) {
	h, status, now := j.lane.host, out.Status, hs.mono()
	if out.duration > out.limit/quickFraction {
		h.health, h.slowUntil = unproven, now+int64(probation)
	} else if now >= h.slowUntil {
		h.health = quick
	}
	switch {
	case status > 0:
		h.failures = 0
		hs.trust(h)
		if h.revive && (Result{Status: status}).delivered() {
			h.revive = false
			return true
		}
	case j.probe && h.suspect:
		h.step = up(h.step)
		hs.probeLater(h)
		if j.kind != trusted && h.queued[trusted].len() > 0 {
			hs.probeSoon(h) // these lanes became ready during the probe
		}
	case unreachable(status):
		if h.failures++; h.failures >= suspectAfter && !h.suspect {
			h.suspect, h.revive, h.step = true, true, 0
			hs.suspects++
			hs.limits.suspect.Add(int64(h.busy()))
			hs.probeLater(h)
		}
	}
	return false
}

// probeLater sets the time of the next probe of a suspect host.
func (hs *hosts) probeLater(h *host) {
	h.probe = math.MaxInt64
	hs.probeBy(h, hs.mono()+int64(hs.policy.wait(h.step, hs.rnd())))
}

// probeSoon probes a suspect host within a step, because a lane waits whose last attempt it
// answered.
func (hs *hosts) probeSoon(h *host) { hs.probeBy(h, hs.mono()+int64(hs.policy.step(probeStep))) }

// probeBy probes a suspect host at a time or before.
func (hs *hosts) probeBy(h *host, at int64) {
	if h.suspect && at < h.probe {
		h.probe = at
		hs.probes.set(h, at)
		hs.wake()
	}
}

// trust makes a suspect host one that is not.
func (hs *hosts) trust(h *host) {
	if !h.suspect {
		return
	}
	hs.limits.suspect.Add(-int64(h.busy()))
	h.suspect = false
	hs.suspects--
	hs.probes.drop(h)
}
