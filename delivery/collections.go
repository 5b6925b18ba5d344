package delivery

import "iter"

// ring is a FIFO in a slice that wraps around. The zero ring is empty.
type ring[T any] struct {
	items []T
	first int
	n     int
}

func (r *ring[T]) len() int { return r.n }

func (r *ring[T]) push(v T) {
	if r.n == len(r.items) {
		grown := make([]T, max(2, 2*r.n))
		copied := copy(grown, r.items[r.first:])
		copy(grown[copied:], r.items[:r.first])
		r.items, r.first = grown, 0
	}
	at := r.first + r.n
	if at >= len(r.items) {
		at -= len(r.items)
	}
	r.items[at] = v
	r.n++
}

// pushFront puts v in as if it were the oldest item.
func (r *ring[T]) pushFront(v T) {
	r.push(v) // for the room
	r.first = (r.first + len(r.items) - 1) % len(r.items)
	var none T
	r.items[(r.first+r.n)%len(r.items)] = none
	r.items[r.first] = v // the same place, if it is full
}

// pop takes the oldest item out; ok is false if there is none.
func (r *ring[T]) pop() (v T, ok bool) {
	if r.n == 0 {
		return v, false
	}
	var none T
	v, r.items[r.first] = r.items[r.first], none
	r.first++
	if r.first == len(r.items) {
		r.first = 0
	}
	if r.n--; r.n == 0 {
		// What grew for a burst is given back after it.
		if r.first = 0; len(r.items) > 1024 {
			r.items = nil
		}
	}
	return v, true
}

// all yields the items, the oldest first.
func (r *ring[T]) all() iter.Seq[T] {
	return func(yield func(T) bool) {
		for i := range r.n {
			if !yield(r.items[(r.first+i)%len(r.items)]) {
				return
			}
		}
	}
}

// backlogList is a FIFO of backlogs that each know that they are in it, so that any of them can
// be taken out. The zero list is empty.
type backlogList struct{ first, last *backlog }

func (l *backlogList) push(g *backlog) { l.insert(l.last, g, nil) }

// pushFront puts g in as if it were the oldest.
func (l *backlogList) pushFront(g *backlog) { l.insert(nil, g, l.first) }

func (l *backlogList) insert(prev, g, next *backlog) {
	g.in = l
	l.link(prev, g)
	l.link(g, next)
}

// remove takes g out, which is in.
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

// timed is something that is due at a time and knows where it is in a timers,
// so that it can be moved and taken out; -1 says that it is in none.
type timed interface {
	comparable
	dueAt() int64
	slot() *int32
}

// timers is a heap of four children a node, the earliest on top.
type timers[T timed] struct{ items []T }

// set puts v in, or moves it after its time changed.
func (h *timers[T]) set(v T) {
	if *v.slot() < 0 {
		*v.slot() = int32(len(h.items)) //nolint:gosec // lanes in memory
		h.items = append(h.items, v)
	}
	h.down(h.up(int(*v.slot())))
}

// drop takes v out, if it is in.
func (h *timers[T]) drop(v T) {
	at := int(*v.slot())
	if at < 0 {
		return
	}
	var none T
	last := len(h.items) - 1
	*v.slot() = -1
	moved := h.items[last]
	h.items[last] = none
	h.items = h.items[:last]
	if at < last {
		h.put(at, moved)
		h.down(h.up(at))
	}
}

// pop takes the earliest out, if it is due at now.
func (h *timers[T]) pop(now int64) (v T, ok bool) {
	if len(h.items) == 0 || h.items[0].dueAt() > now {
		return v, false
	}
	v = h.items[0]
	h.drop(v)
	return v, true
}

func (h *timers[T]) put(at int, v T) {
	h.items[at] = v
	*v.slot() = int32(at) //nolint:gosec // lanes in memory
}

func (h *timers[T]) up(at int) int {
	for at > 0 {
		parent := (at - 1) / 4
		if h.items[parent].dueAt() <= h.items[at].dueAt() {
			break
		}
		a, b := h.items[parent], h.items[at]
		h.put(parent, b)
		h.put(at, a)
		at = parent
	}
	return at
}

func (h *timers[T]) down(at int) {
	for {
		least := at
		for child := 4*at + 1; child <= 4*at+4 && child < len(h.items); child++ {
			if h.items[child].dueAt() < h.items[least].dueAt() {
				least = child
			}
		}
		if least == at {
			return
		}
		a, b := h.items[at], h.items[least]
		h.put(at, b)
		h.put(least, a)
		at = least
	}
}
