package delivery

// kind is that of an attempt: the first of a notification or a later one, and of the first ones,
// whether the lane's last attempt was answered. Where tenants share a host, callbacks that hang
// use no slot of those that answer.
type kind uint8

const (
	first kind = iota
	trusted
	retry
	kinds
)

func (l *lane) kind() kind {
	switch {
	case l.retrying():
		return retry
	case l.cursor.status > 0:
		return trusted
	default:
		return first
	}
}

// turns decides which ready lane starts next. The package comment has the rule: mayStart is
// its first half, and the rest of this file is the order in which lanes that may start do.
//
// A delivery needs a sender of the hub and a slot at its host. Two rotations assign them, and
// neither reserves anything of the other. Topics take turns to have a sender, and a
// topic's turn leads it to one of the topic's hosts. At the host, kinds divide the
// slots, the topics of a kind take turns, and so do the lanes of a topic, whichever topic's
// turn led the sender there. The topic's turn goes on until a lane of its own
// has started, or as many lanes as a host has slots.
//
// So nothing is set aside for a topic whose turn is far away. What a sender finds at a
// host does not depend on how many hosts a topic has, and a host that is full is
// looked at again only when it has a slot.
type turns struct {
	now     func() int64 // monotonic
	perHost int
	limits  *limits

	backlogs map[backlogKey]*backlog
	rotation [pools]ring[*topicLanes]
	started  [pools]int         // deliveries, in the turn of the first topic there
	next     pool               // whose turn it is where several could go
	reserved [pools]backlogList // listed backlogs that go before the rotations
	ready    int                // lanes
	inFlight int
}

// backlog is the ready lanes of one kind of a topic at a host. It is there as
// long as it has lanes. It has a place in the queue of its host, and is besides
// either listed, which leads senders to the host, or among host.waiting.
type backlog struct {
	backlogKey
	lanes      ring[*lane]
	in         *backlogList // a topicQueue, turns.reserved or host.waiting
	prev, next *backlog     // in there
	leads      bool         // counted in host.leads
}

type backlogKey struct {
	topic *topicLanes
	host  *host
	kind  kind
	// reserved: they had their turn and waited for a large body, which is there
	// now and not for long. They go before the turns, with the sender that is reserved for
	// the body.
	reserved bool
}

// backlogList is a FIFO of backlogs that each know that they are in it, so that any of them can
// be removed. The zero list is empty.
type backlogList struct{ first, last *backlog }

func (l *backlogList) push(g *backlog) { l.insert(l.last, g, nil) }

// pushFront puts g in as if it were the oldest.
func (l *backlogList) pushFront(g *backlog) { l.insert(nil, g, l.first) }

func (l *backlogList) insert(prev, g, next *backlog) {
	g.in = l
	l.link(prev, g)
	l.link(g, next)
}

// remove removes g, which is in the list.
func (l *backlogList) remove(g *backlog) {
	l.link(g.prev, g.next)
	g.in, g.prev, g.next = nil, nil, nil
}

// link puts one right before the other; nil stands before all and after all.
func (l *backlogList) link(prev, next *backlog) {
	if prev == nil {
		l.first = next
	} else {
		prev.next = next
	}
	if next == nil {
		l.last = prev
	} else {
		next.prev = prev
	}
}

// topicQueue is the listed backlogs of a topic, of the hosts of one pool.
type topicQueue struct {
	backlogList
	rotates bool // its topic is in the pool's rotation
}

// mayStart is the one rule of what may go on: a delivery may start if each limit that it
// counts against has a free slot, those of the hub (limits) and those of its host. A
// reserved one has its slot at the hub already.
func (q *turns) mayStart(h *host, k kind, reserved bool) bool {
	return q.limits.mayStart(h.pool(), reserved) && q.slotFree(h) && q.kindFree(h, k)
}

// slotFree reports whether h has a free slot. A suspect host has one, when its probe is due.
func (q *turns) slotFree(h *host) bool {
	return h.busy() < q.slots(h) && (!h.suspect || h.probe <= q.now())
}

// kindFree reports whether a lane of a kind is ready at h and may have a free slot: retries have
// half of the slots, rounded up.
func (q *turns) kindFree(h *host, k kind) bool {
	return h.queued[k].len() > 0 && (k != retry || int(h.active[k]) < (q.perHost+1)/2)
}

// slots is how many deliveries h may have at once.
func (q *turns) slots(h *host) int {
	if h.suspect {
		return 1
	}
	return q.perHost
}

// nextKind returns the kind that gets a free slot of h. False: none may.
//
// The kind with the fewest deliveries in flight goes first, and kinds with equally few take
// turns. So a kind that waits has all slots of the host, half of them if another kind
// waits too, and a quarter if both do (rounded down), as soon as what was in flight before is done.
// A quarter and not a third: a kind that comes and goes gets its slots from whichever kind
// is done first.
func (q *turns) nextKind(h *host) (kind, bool) {
	switch {
	case !q.slotFree(h):
		return 0, false
	case h.suspect && q.kindFree(h, trusted):
		return trusted, true // the likeliest to be answered
	}
	next := kinds
	for n := range kinds {
		k := (h.turn + n) % kinds
		if (next == kinds || h.active[k] < h.active[next]) && q.kindFree(h, k) {
			next = k
		}
	}
	return next, next < kinds
}

// push adds a lane that became ready. It reports whether something may start at its host.
func (q *turns) push(l *lane, reserved bool) bool {
	q.ready++
	k := backlogKey{l.topic, l.host, l.kind(), reserved}
	g := q.backlogs[k]
	if g == nil {
		g = &backlog{backlogKey: k}
		q.backlogs[k] = g
		g.queue()
		g.wait()
	}
	g.lanes.push(l)
	return q.promote(l.host)
}

// queue has g wait for its turn at its host.
func (g *backlog) queue() {
	if q := &g.host.queued[g.kind]; g.reserved {
		q.pushFront(g)
	} else {
		q.push(g)
	}
}

// wait has g lead no senders to its host.
func (g *backlog) wait() {
	if g.in != nil {
		g.unlist()
	}
	if w := &g.host.waiting; g.reserved {
		w.pushFront(g)
	} else {
		w.push(g)
	}
}

// unlist removes g from where it is listed, or waits.
func (g *backlog) unlist() {
	if g.in.remove(g); g.leads {
		g.leads = false
		g.host.leads--
	}
}

// promote lists backlogs that wait at h until as many as could start something there lead a
// sender to it at the next turn of their topic. Those whose topic goes elsewhere before are
// listed on the way, and do not count: their turn may be far. It returns whether h has a
// slot for something.
func (q *turns) promote(h *host) bool {
	if _, ok := q.nextKind(h); !ok {
		return false
	}
	free := q.slots(h) - h.busy()
	for g := h.waiting.first; g != nil && (int(h.leads) < free || g.reserved); g = h.waiting.first {
		q.list(g)
	}
	return true
}

// list has g lead a sender to its host in its topic's turn.
func (q *turns) list(g *backlog) {
	g.unlist()
	p := g.host.pool()
	t := &g.topic.queues[p]
	if g.reserved {
		q.reserved[p].push(g)
		return
	}
	if t.first == nil {
		g.leads = true
		g.host.leads++
	}
	if t.push(g); !t.rotates {
		t.rotates = true
		q.rotation[p].push(g.topic)
	}
}

// relist lists the backlogs of a host that is in another pool now. It reports what promote
// does.
func (q *turns) relist(h *host) bool {
	for k := range h.queued {
		for g := range h.queued[k].all() {
			if g.in != &h.waiting {
				g.wait()
			}
		}
	}
	return q.promote(h)
}

// lead returns the listed backlog whose turn it is; its host has a slot. The pools
// take turns, and so do the topics of each, and the backlogs of each of those. Backlogs that
// it comes by whose hosts have none wait from now on. Nil: nothing may start.
func (q *turns) lead() *backlog {
	for p := range q.reserved {
		if !q.limits.mayStart(pool(p), true) {
			continue
		}
		for g := q.reserved[p].first; g != nil; g = q.reserved[p].first {
			if q.mayStart(g.host, g.kind, true) {
				return g
			}
			g.wait()
		}
	}
	for range pools {
		p := q.next
		if q.next = (p + 1) % pools; !q.limits.mayStart(p, false) {
			continue
		}
		for t, ok := q.rotation[p].pop(); ok; t, ok = q.rotation[p].pop() {
			of := &t.queues[p]
			for g := of.first; g != nil; g = of.first {
				if _, ok := q.nextKind(g.host); ok {
					q.rotation[p].pushFront(t)
					return g
				}
				g.wait()
			}
			of.rotates, q.started[p] = false, 0
		}
	}
	return nil
}

// listed reports whether any backlog is listed, and whether one goes before all turns.
func (q *turns) listed() (some, reserved bool) {
	for p := range q.reserved {
		reserved = reserved || q.reserved[p].first != nil
		some = some || q.rotation[p].len() > 0
	}
	return some || reserved, reserved
}

// more reports whether lead may return something.
func (q *turns) more() bool {
	for p := range pool(pools) {
		if q.rotation[p].len() > 0 && q.limits.mayStart(p, false) || q.reserved[p].first != nil && q.limits.mayStart(p, true) {
			return true
		}
	}
	return false
}

// start counts a delivery at the host of g, which lead returned, and returns its lane. Nil:
// the lanes whose turn it was are gone.
func (q *turns) start(g *backlog) (l *lane, k kind) {
	h, p := g.host, g.host.pool()
	k = g.kind
	if !g.reserved {
		k, _ = q.nextKind(h)
	}
	turn, _ := h.queued[k].pop()
	l = turn.lane()
	if turn.lanes.len() > 0 {
		turn.queue()
	} else {
		delete(q.backlogs, turn.backlogKey)
		turn.unlist()
	}
	over := false
	if l != nil {
		h.turn = (k + 1) % kinds
		q.begin(h, k)
		over = turn.topic == g.topic
	}
	if !g.reserved {
		q.started[p]++
		over = over || q.started[p] >= q.perHost
	}
	if over && g.in != nil {
		g.wait()
	}
	q.promote(h)
	if !g.reserved {
		q.endTurn(g.topic, p, over)
	}
	return l, k
}

// live reports whether start(g) finds a lane that is not gone. It drops those before it that are.
func (q *turns) live(g *backlog) bool {
	k := g.kind
	if !g.reserved {
		k, _ = q.nextKind(g.host)
	}
	lanes := &(*g.host.queued[k].at(0)).lanes
	for lanes.len() > 0 && (*lanes.at(0)).state == gone {
		lanes.pop()
	}
	return lanes.len() > 0
}

// lane removes the next lane of g that is not gone.
func (g *backlog) lane() *lane {
	for {
		if l, ok := g.lanes.pop(); !ok || l.state != gone {
			return l
		}
	}
}

// endTurn goes on to the next topic of a pool if the turn of t is over, or leads nowhere.
func (q *turns) endTurn(t *topicLanes, p pool, over bool) {
	of := &t.queues[p]
	if of.first != nil && !over {
		return
	}
	q.rotation[p].pop()
	q.started[p] = 0
	if of.rotates = of.first != nil; of.rotates {
		q.rotation[p].push(t)
	}
}

// begin counts a delivery in.
func (q *turns) begin(h *host, k kind) {
	q.ready--
	q.inFlight++
	h.active[k]++
}

// end counts a delivery out that start began. It reports whether a limit of the hub has a free slot by that, and
// whether the host has one for something that waits.
func (q *turns) end(j job) (ofHub, ofHost bool) {
	h := j.lane.host
	q.inFlight--
	h.active[j.kind]--
	if j.unproven {
		q.limits.unproven.Add(-1)
	}
	if j.large {
		q.limits.large.Add(-1)
	}
	if h.suspect {
		q.limits.suspect.Add(-1)
	}
	return j.unproven || j.large || h.suspect || j.probe, q.promote(h)
}
