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
