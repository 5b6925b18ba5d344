package delivery

import "time"

// host is a callback host:port. The Dispatcher's lock guards it.
type host struct {
	name string
	members
	// queued are the groups with ready lanes that no slot is free for yet;
	// listed counts those that are with their topic instead, each with a slot
	// set aside for it.
	queued         [classes]ring[*group]
	listed, active int
	retries        int   // of listed and active, retries
	turn           class // whose turn it is where several could go

	standing  standing
	slowUntil int64 // Unix nanoseconds; no earlier is it quick again
	// failures counts timeouts and connect errors in a row.
	failures int
	// suspect: there were too many of them, and the host gets one probe for
	// each step of a ladder of its own, at probe or after.
	suspect bool
	step    uint32
	probe   int64 // Unix nanoseconds
	timer   int32 // its place in Dispatcher.probes, or -1
	lined   bool  // in Dispatcher.lineup
	// revive: it was suspect, and lanes of it wait that its first 2xx readies.
	revive  bool
	walking bool
}

func (h *host) dueAt() int64 { return h.probe }
func (h *host) slot() *int32 { return &h.timer }

// busy is how many deliveries it has, or has a slot for.
func (h *host) busy() int { return h.listed + h.active }

// group is the ready lanes of one class of a topic at a host. It is there as
// long as it has lanes.
type group struct {
	groupKey
	lanes ring[*lane]
}

type groupKey struct {
	topic *topic
	host  *host
	class class
	// returned: they had their turn and waited for a large body, which is there
	// now and not for long. They go before the turns.
	returned bool
}

// enqueue makes a lane ready.
func (d *Dispatcher) enqueue(l *lane, returned bool) {
	l.state = ready
	d.count.ready++
	k := groupKey{l.topic, l.host, l.class(), returned}
	if k.class == trusted && l.host.suspect {
		d.probeSoon(l.host)
	}
	g := d.groups[k]
	if g == nil {
		g = &group{groupKey: k}
		d.groups[k] = g
		g.queue()
	}
	g.lanes.push(l)
	d.promote(l.host)
}

// queue has g wait for a slot of its host.
func (g *group) queue() {
	if q := &g.host.queued[g.class]; g.returned {
		q.pushFront(g)
	} else {
		q.push(g)
	}
}

// promote lists groups of h with their topics as long as h has slots for them.
func (d *Dispatcher) promote(h *host) {
	for {
		c, ok := d.turnOf(h)
		if !ok {
			return
		}
		g, _ := h.queued[c].pop()
		h.turn = (c + 1) % classes
		d.occupy(h, c, 1)
		h.listed++
		if g.returned {
			d.returned.push(g)
		} else {
			d.list(g, h.standing)
		}
		d.work.Signal()
	}
}

// occupy counts a slot of h in or out; the caller counts listed or active.
func (d *Dispatcher) occupy(h *host, c class, n int) {
	if c == later {
		h.retries += n
	}
	if h.suspect {
		d.suspectBusy += n
	}
}

// pick takes the lane whose turn it is: round-robin over topics, their hosts,
// and the lanes there. False: there is none.
func (d *Dispatcher) pick() (job, bool) {
	for {
		g, ok := d.nextGroup()
		if !ok {
			return job{}, false
		}
		h := g.host
		h.listed--
		if h.suspect && h.probe > time.Now().UnixNano() {
			// It became suspect since it was listed.
			g.queue()
			d.vacate(h, g.class)
			continue
		}
		l := d.popLane(g)
		if g.lanes.len() > 0 {
			g.queue()
		} else {
			delete(d.groups, g.groupKey)
		}
		if l == nil {
			d.vacate(h, g.class)
			continue
		}
		l.state = inFlight
		tenure := d.shardOf(l.id).tenure
		if tenure != nil {
			tenure.active++
		}
		h.active++
		d.count.inFlight++
		counts := h.standing == unproven
		if counts {
			d.unprovenBusy++
		}
		d.promote(h)
		return job{lane: l, tenure: tenure, class: g.class, probe: h.suspect, counts: counts, cursor: l.cursor, epoch: l.topic.epoch}, true
	}
}

// popLane takes the next lane of g that is still there.
func (d *Dispatcher) popLane(g *group) *lane {
	for {
		l, ok := g.lanes.pop()
		if !ok {
			return nil
		}
		if l.state != gone {
			d.count.ready--
			return l
		}
	}
}

// release ends what pick began. The lane is the caller's matter.
func (d *Dispatcher) release(j job) {
	j.lane.host.active--
	d.count.inFlight--
	if j.tenure != nil {
		j.tenure.leave()
	}
	if j.counts {
		d.unprovenBusy--
		d.work.Signal() // for whoever found no place among the unproven
	}
	d.vacate(j.lane.host, j.class)
}

// vacate gives a slot of h back.
func (d *Dispatcher) vacate(h *host, c class) {
	d.occupy(h, c, -1)
	d.promote(h)
	d.forget(h)
	d.promoteSuspects()
}

// promoteSuspects gives those suspects a probe that waited for others to end.
func (d *Dispatcher) promoteSuspects() {
	for d.suspectBusy < d.suspectMax {
		h, ok := d.lineup.pop()
		if !ok {
			return
		}
		h.lined = false
		d.promote(h)
	}
}

// forget drops a host that nothing is left of.
func (d *Dispatcher) forget(h *host) {
	if len(h.lanes) > 0 || h.busy() > 0 {
		return
	}
	for _, q := range h.queued {
		if q.len() > 0 {
			return
		}
	}
	d.trust(h)
	if d.hosts[h.name] == h {
		delete(d.hosts, h.name)
	}
}

// judge draws the conclusions for the host from an attempt.
func (d *Dispatcher) judge(j job, out outcome) {
	h, status := j.lane.host, out.Status
	now := time.Now()
	if out.duration > d.o.Timeout/quickShare {
		h.standing, h.slowUntil = unproven, now.Add(probation).UnixNano()
	} else if now.UnixNano() >= h.slowUntil {
		h.standing = quick
	}
	switch {
	case status > 0:
		h.failures = 0
		if h.suspect {
			d.trust(h)
		}
		if h.revive && (Result{Status: status}).delivered() {
			h.revive = false
			d.revive(h)
		}
	case j.probe && h.suspect:
		h.step = up(h.step)
		d.probeLater(h)
		if j.class != trusted && h.queued[trusted].len() > 0 {
			d.probeSoon(h) // they came during the probe, which would have been theirs
		}
	case unreachable(status):
		if h.failures++; h.failures >= suspectAfter && !h.suspect {
			h.suspect, h.revive, h.step = true, true, 0
			d.count.suspects++
			d.suspectBusy += h.busy()
			d.probeLater(h)
		}
	}
}

// probeLater sets the time of the next probe of a suspect host.
func (d *Dispatcher) probeLater(h *host) {
	h.probe = time.Now().Add(d.o.Policy.wait(h.step, d.o.Rand())).UnixNano()
	d.probes.set(h)
	d.wakeLoop()
}

// probeSoon has a suspect host probed within a step: somebody waits for it whom it
// answered the last time.
func (d *Dispatcher) probeSoon(h *host) {
	if at := time.Now().Add(d.o.Policy.step(probeStep)).UnixNano(); at < h.probe {
		h.probe = at
		d.probes.set(h)
		d.wakeLoop()
	}
}

// trust ends a suspicion.
func (d *Dispatcher) trust(h *host) {
	if !h.suspect {
		return
	}
	d.suspectBusy -= h.busy()
	h.suspect = false
	d.count.suspects--
	d.probes.drop(h)
	d.promote(h)
}

// revive starts a walk over the lanes of a host that answered 2xx after it was
// suspect.
func (d *Dispatcher) revive(h *host) {
	h.members.walk = len(h.lanes)
	if !h.walking {
		h.walking = true
		d.revivals.push(h)
	}
	d.wakeLoop()
}

// reviveOn does a chunk of that walk: lanes that wait because the host could not
// be reached get their turn soon, spread out.
func (d *Dispatcher) reviveOn(h *host, now int64) {
	spread := min(int64(len(h.lanes))*int64(reviveEvery), int64(d.o.Policy.step(1)))
	for range chunk {
		l := h.next()
		if l == nil {
			h.walking = false
			return
		}
		if l.state != waiting || !unreachable(int(l.cursor.status)) {
			continue
		}
		if at := now + int64(float64(spread)*d.o.Rand()); at < l.due {
			d.waitUntil(l, at)
		}
	}
	d.revivals.push(h)
}
