package delivery

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
