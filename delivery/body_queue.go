package delivery

import "slices"

// byteQueue is the bodies that wait for room. Each rank has a line of its own, and
// the lines of the lower ranks are served first; room limits what that costs the
// others. In a line the hosts take turns: of those at its front, the host that uses the
// fewest bytes goes first.
//
// If the first of a line does not fit, others of the line that fit may pass it, of as
// many bytes together as it has itself. So no body waits for ever, and one that has to
// wait keeps little room empty. The lock of bodies guards it.
type byteQueue struct {
	lines    [ranks]bodyLine
	accounts map[*host]*account // of hosts that wait, or use bodies in the room
}

type bodyLine struct {
	hosts  ring[*account] // with waiters of this rank
	first  *waiter        // no longer among theirs; the next to get room
	passed int64          // bytes of those that passed it
}

// ahead is how many hosts at the front of a line are looked at.
const ahead = 16

// account is what a host uses, and wants, of the room.
type account struct {
	host    *host
	loans   []*body // in use, one for each delivery; --per-host bounds them
	waiters [ranks]ring[*waiter]
}

// waiter is a body that hosts of one health wait for.
type waiter struct {
	body    *body
	health  health
	rank    rank
	lanes   []*lane // to be called back
	granted bool    // it has its room, or failed: lines drop it
}

// bytes is how many bytes the host uses. A body that several deliveries use counts for each
// with an equal fraction.
func (a *account) bytes() (n int64) {
	for _, e := range a.loans {
		n += e.entry.Size / int64(e.refs())
	}
	return n
}

func (q *byteQueue) account(h *host) *account {
	a := q.accounts[h]
	if a == nil {
		a = &account{host: h}
		q.accounts[h] = a
	}
	return a
}

// tidy forgets a host that neither has nor wants anything.
func (q *byteQueue) tidy(a *account) {
	waits := slices.ContainsFunc(a.waiters[:], func(r ring[*waiter]) bool { return r.n > 0 })
	if len(a.loans) == 0 && !waits {
		delete(q.accounts, a.host)
	}
}

// charge counts a delivery of e to h, and discharge no longer.
func (q *byteQueue) charge(h *host, e *body) {
	a := q.account(h)
	a.loans = append(a.loans, e)
}

func (q *byteQueue) discharge(h *host, e *body) {
	a := q.accounts[h]
	at := slices.Index(a.loans, e)
	a.loans = slices.Delete(a.loans, at, at+1)
	q.tidy(a)
}

// waits reports whether a body of rank k waits for room.
func (q *byteQueue) waits(k rank) bool {
	first := q.lines[k].first
	return first != nil && !first.granted
}

// push has a host wait for what w is for.
func (q *byteQueue) push(w *waiter, h *host) {
	a := q.account(h)
	if a.waiters[w.rank].len() == 0 {
		q.lines[w.rank].hosts.push(a)
	}
	a.waiters[w.rank].push(w)
}

// next removes and returns a waiter that there is room for. Nil: there is none.
func (q *byteQueue) next(fits func(*waiter) bool) *waiter {
	for k := range ranks {
		l := &q.lines[k]
		if l.first == nil || l.first.granted {
			l.first, l.passed = q.choose(k, func(*waiter) bool { return true }), 0
		}
		if l.first == nil {
			continue
		}
		if w := l.first; fits(w) {
			l.first = nil
			return w
		}
		if w := q.choose(k, func(w *waiter) bool {
			return l.passed+w.body.entry.Size <= l.first.body.entry.Size && fits(w)
		}); w != nil {
			l.passed += w.body.entry.Size
			return w
		}
	}
	return nil
}

// choose removes and returns the waiter whose turn it is among those that may go. Nil: there
// is none.
func (q *byteQueue) choose(k rank, may func(*waiter) bool) *waiter {
	hosts := &q.lines[k].hosts
	front := make([]*account, 0, ahead)
	var best *account
	for len(front) < ahead {
		a, ok := hosts.pop()
		if !ok {
			break
		}
		w, ok := q.firstOf(a, k)
		if !ok {
			continue
		}
		front = append(front, a)
		if may(w) && (best == nil || a.bytes() < best.bytes()) {
			best = a
		}
	}
	for _, a := range slices.Backward(front) {
		if a != best {
			hosts.pushFront(a)
		}
	}
	if best == nil {
		return nil
	}
	w, _ := best.waiters[k].pop()
	if best.waiters[k].len() > 0 {
		hosts.push(best)
	}
	q.tidy(best)
	return w
}

// firstOf is what a host waits for first, at rank k. It removes waiters that were granted in
// the turn of another host.
func (q *byteQueue) firstOf(a *account, k rank) (*waiter, bool) {
	for {
		w, ok := a.waiters[k].pop()
		if !ok {
			q.tidy(a)
			return nil, false
		}
		if !w.granted {
			a.waiters[k].pushFront(w)
			return w, true
		}
	}
}
