package delivery

import "iter"

// ring is a FIFO in a slice that wraps around, and whose length is a power of two. The zero ring
// is empty.
type ring[T any] struct {
	items []T
	first int // place of the oldest item, modulo the length of items
	n     int
}

func (r *ring[T]) len() int { return r.n }

// at is the place of the item that i others precede.
func (r *ring[T]) at(i int) *T { return &r.items[(r.first+i)&(len(r.items)-1)] }

func (r *ring[T]) push(v T) {
	r.grow()
	*r.at(r.n) = v
	r.n++
}

// pushFront puts v in as if it were the oldest item.
func (r *ring[T]) pushFront(v T) {
	r.grow()
	r.first--
	*r.at(0) = v
	r.n++
}

// grow makes room for one more item.
func (r *ring[T]) grow() {
	if r.n < len(r.items) {
		return
	}
	grown := make([]T, max(2, 2*r.n))
	for i := range r.n {
		grown[i] = *r.at(i)
	}
	r.items, r.first = grown, 0
}

// pop removes and returns the oldest item; ok is false if there is none.
func (r *ring[T]) pop() (v T, ok bool) {
	if r.n == 0 {
		return v, false
	}
	oldest := r.at(0)
	v, *oldest = *oldest, v
	r.first++
	if r.n--; r.n == 0 && len(r.items) > 1024 {
		r.items = nil // What grew for a burst is released after it.
	}
	return v, true
}

// all yields the items, the oldest first.
func (r *ring[T]) all() iter.Seq[T] {
	return func(yield func(T) bool) {
		for i := range r.n {
			if !yield(*r.at(i)) {
				return
			}
		}
	}
}
