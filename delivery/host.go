package delivery

// host is a callback host:port. The Dispatcher's lock guards it.
type host struct {
	name string
	members
	// queued are the groups with ready lanes, of each class in the order in which
	// they have their turn here; active counts the exchanges of each.
	queued [classes]ring[*group]
	active [classes]int32
	turn   class // which goes first of those with equally many
	// waiting are the groups that lead no sender here. Of those that do, leads counts
	// the ones that do so at the next turn of their topic.
	waiting groups
	leads   int32

	standing  standing
	slowUntil int64 // by Dispatcher.mono; no earlier is it quick again
	// failures counts timeouts and connect errors in a row.
	failures int
	// suspect: there were too many of them, and the host gets one probe for
	// each step of a ladder of its own, at probe or after.
	suspect bool
	step    uint32
	probe   int64 // by Dispatcher.mono
	timer   int32 // its place in Dispatcher.probes, or -1
	// revive: it was suspect, and lanes of it wait that its first 2xx readies.
	revive  bool
	walking bool
}

func (h *host) dueAt() int64 { return h.probe }
func (h *host) slot() *int32 { return &h.timer }

// busy is how many deliveries it has.
func (h *host) busy() int {
	n := int32(0)
	for _, of := range h.active {
		n += of
	}
	return int(n)
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
	now, was := d.mono(), h.band()
	defer func() {
		if h.band() != was {
			d.listAnew(h)
		}
	}()
	if out.duration > out.limit/quickShare {
		h.standing, h.slowUntil = unproven, now+int64(probation)
	} else if now >= h.slowUntil {
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
	h.probe = d.mono() + int64(d.o.Policy.wait(h.step, d.o.Rand()))
	d.probes.set(h)
	d.wakeLoop()
}

// probeSoon has a suspect host probed within a step: somebody waits for it whom it
// answered the last time.
func (d *Dispatcher) probeSoon(h *host) {
	if at := d.mono() + int64(d.o.Policy.step(probeStep)); at < h.probe {
		h.probe = at
		d.probes.set(h)
		d.wakeLoop()
	}
}

// trust ends a suspicion. The caller lists the host's groups anew.
func (d *Dispatcher) trust(h *host) {
	if !h.suspect {
		return
	}
	d.suspectBusy -= h.busy()
	h.suspect = false
	d.count.suspects--
	d.probes.drop(h)
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
func (d *Dispatcher) reviveOn(h *host, now reading) {
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
		if at := now.mono + int64(float64(spread)*d.o.Rand()); at < l.due {
			d.waitUntil(l, at)
		}
	}
	d.revivals.push(h)
}
