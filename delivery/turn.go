package delivery

// A delivery needs a sender of the hub and a place at its host. Two rotations that hold
// nothing of each other share them out. Topics take turns to have a sender, and a
// topic's turn leads it to one of the topic's hosts. At the host, classes share the
// places (class.go), the topics of a class take turns, and so do the lanes of a topic,
// whoever's turn led the sender there. The topic's turn goes on until a lane of its own
// has started, or as many lanes as a host has places.
//
// So nothing is set aside for a topic whose turn is far away. What a sender finds at a
// host does not depend on how many hosts a topic has, and a host that is full is
// looked at again only when it has a place.

// group is the ready lanes of one class of a topic at a host. It is there as
// long as it has lanes. It has a place in the queue of its host, and is besides
// either listed, which leads senders to the host, or among host.waiting.
type group struct {
	groupKey
	lanes      ring[*lane]
	in         *groups // a line, Dispatcher.returned or host.waiting
	prev, next *group  // in there
	leads      bool    // counted in host.leads
}

type groupKey struct {
	topic *topic
	host  *host
	class class
	// returned: they had their turn and waited for a large body, which is there
	// now and not for long. They go before the turns.
	returned bool
}

// line is the listed groups of a topic, of hosts of one band.
type line struct {
	groups
	rotates bool // its topic is in the band's rotation
}

// enqueue makes a lane ready.
func (d *Dispatcher) enqueue(l *lane, returned bool) {
	l.state = ready
	d.count.ready++
	h := l.host
	k := groupKey{l.topic, h, l.class(), returned}
	if k.class == trusted && h.suspect {
		d.probeSoon(h)
	}
	g := d.groups[k]
	if g == nil {
		g = &group{groupKey: k}
		d.groups[k] = g
		g.queue()
		g.wait()
	}
	g.lanes.push(l)
	if d.promote(h) {
		d.work.Signal()
	}
}

// queue has g wait for its turn at its host.
func (g *group) queue() {
	if q := &g.host.queued[g.class]; g.returned {
		q.pushFront(g)
	} else {
		q.push(g)
	}
}

// wait has g lead no senders to its host.
func (g *group) wait() {
	if g.in != nil {
		g.unlist()
	}
	if w := &g.host.waiting; g.returned {
		w.pushFront(g)
	} else {
		w.push(g)
	}
}

// promote lists groups that wait at h until as many as could start something there lead a
// sender to it at the next turn of their topic. Those whose topic goes elsewhere before are
// listed on the way, and do not count: their turn may be far. It returns whether h has a
// place for something.
func (d *Dispatcher) promote(h *host) bool {
	if _, ok := d.opening(h); !ok {
		return false
	}
	free := d.places(h) - h.busy()
	for g := h.waiting.first; g != nil && (int(h.leads) < free || g.returned); g = h.waiting.first {
		d.list(g)
	}
	return true
}

// list has g lead a sender to its host in its topic's turn.
func (d *Dispatcher) list(g *group) {
	g.unlist()
	b := g.host.band()
	l := &g.topic.lines[b]
	if g.returned {
		d.returned[b].push(g)
		return
	}
	if l.first == nil {
		g.leads = true
		g.host.leads++
	}
	if l.push(g); !l.rotates {
		l.rotates = true
		d.rotation[b].push(g.topic)
	}
}

// unlist takes g out of where it is listed, or waits.
func (g *group) unlist() {
	if g.in.remove(g); g.leads {
		g.leads = false
		g.host.leads--
	}
}

// listAnew lists the groups of a host that is in another band now.
func (d *Dispatcher) listAnew(h *host) {
	for c := range h.queued {
		for g := range h.queued[c].all() {
			if g.in != &h.waiting {
				g.wait()
			}
		}
	}
	if d.promote(h) {
		d.work.Signal()
	}
}

// pick takes the lane whose turn it is. False: none can start.
func (d *Dispatcher) pick() (job, bool) {
	for {
		g, ok := d.nextGroup()
		if !ok {
			return job{}, false
		}
		if j, ok := d.start(g); ok {
			return j, true
		}
	}
}

// nextGroup returns the listed group whose turn it is; its host has a place. The bands
// take turns, and so do the topics of each, and the groups of each of those. Groups that
// it comes by whose hosts have none wait from now on.
func (d *Dispatcher) nextGroup() (*group, bool) {
	for b := range d.returned { // a sender is kept for those with unproven hosts
		if d.mayProbe(band(b)) {
			for g := d.returned[b].first; g != nil; g = d.returned[b].first {
				if d.hasPlace(g.host) && d.mayHave(g.host, g.class) {
					return g, true
				}
				g.wait()
			}
		}
	}
	for range bands {
		b := d.turn
		if d.turn = (b + 1) % bands; !d.hasRoom(b) {
			continue
		}
		for t, ok := d.rotation[b].pop(); ok; t, ok = d.rotation[b].pop() {
			l := &t.lines[b]
			for g := l.first; g != nil; g = l.first {
				if _, ok := d.opening(g.host); ok {
					d.rotation[b].pushFront(t)
					return g, true
				}
				g.wait()
			}
			l.rotates, d.started[b] = false, 0
		}
	}
	return nil, false
}

// more tells whether there may be something to pick.
func (d *Dispatcher) more() bool {
	for b := range band(bands) {
		if d.hasRoom(b) && d.rotation[b].len() > 0 || d.mayProbe(b) && d.returned[b].first != nil {
			return true
		}
	}
	return false
}

// start begins a delivery at the host of g, which nextGroup returned. False: the lanes
// whose turn it was are gone.
func (d *Dispatcher) start(g *group) (j job, ok bool) {
	h := g.host
	b := h.band()
	c := g.class
	if !g.returned {
		c, _ = d.opening(h)
	}
	turn, _ := h.queued[c].pop()
	l := d.popLane(turn)
	if turn.lanes.len() > 0 {
		turn.queue()
	} else {
		delete(d.groups, turn.groupKey)
		turn.unlist()
	}
	over := false
	if l != nil {
		h.turn = (c + 1) % classes
		j = d.begin(l, c)
		over = turn.topic == g.topic
	}
	if !g.returned {
		d.started[b]++
		over = over || d.started[b] >= d.o.PerHost
	}
	if over && g.in != nil {
		g.wait()
	}
	d.promote(h)
	if !g.returned {
		d.endTurn(g.topic, b, over)
	}
	if l == nil {
		d.forget(h)
	}
	return j, l != nil
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

// begin counts a delivery in.
func (d *Dispatcher) begin(l *lane, c class) job {
	h, tenure := l.host, d.shardOf(l.id).tenure
	l.state = inFlight
	if tenure != nil {
		tenure.active++
	}
	h.active[c]++
	d.count.inFlight++
	if h.suspect {
		d.suspectBusy++
	}
	counts := h.standing == unproven
	if counts {
		d.unprovenBusy++
		d.counted()
	}
	return job{lane: l, tenure: tenure, class: c, probe: h.suspect, counts: counts, cursor: l.cursor, epoch: l.topic.epoch}
}

// release ends what pick began. The lane is the caller's matter; a caller that is no sender
// has to signal Dispatcher.work.
func (d *Dispatcher) release(j job) {
	h := j.lane.host
	h.active[j.class]--
	d.count.inFlight--
	if j.tenure != nil {
		j.tenure.leave()
	}
	if j.counts {
		d.unprovenBusy--
	}
	if j.heavy {
		d.heavyBusy--
	}
	if j.counts || j.heavy {
		d.counted()
	}
	if h.suspect {
		d.suspectBusy--
	}
	d.promote(h)
	d.forget(h)
	d.resumeHeavy()
}

// endTurn goes on to the next topic of a band if the turn of t is over, or leads nowhere.
func (d *Dispatcher) endTurn(t *topic, b band, over bool) {
	l := &t.lines[b]
	if l.first != nil && !over {
		return
	}
	d.rotation[b].pop()
	d.started[b] = 0
	if l.rotates = l.first != nil; l.rotates {
		d.rotation[b].push(t)
	}
}
