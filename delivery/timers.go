package delivery

import (
	"container/heap"
	"slices"
)

// timed is something that is due at a time. Its slot keeps its place in a timers, so
// that it can be moved and removed; -1 says that it is in none.
type timed interface {
	comparable
	dueAt() int64
	slot() *int32
}

// timers is a heap with the earliest on top.
type timers[T timed] struct{ items []T }

// set puts v in, or moves it after its time changed.
func (ts *timers[T]) set(v T) {
	if at := *v.slot(); at < 0 {
		heap.Push(ts, v)
	} else {
		heap.Fix(ts, int(at))
	}
}

// drop removes v, if it is in.
func (ts *timers[T]) drop(v T) {
	if at := *v.slot(); at >= 0 {
		heap.Remove(ts, int(at))
	}
}

// pop removes and returns the earliest, if it is due at now.
func (ts *timers[T]) pop(now int64) (v T, ok bool) {
	if len(ts.items) == 0 || ts.items[0].dueAt() > now {
		return v, false
	}
	v = ts.items[0]
	ts.drop(v)
	return v, true
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (ts *timers[T]) Len() int           { return len(ts.items) }
func (ts *timers[T]) Less(i, j int) bool { return ts.items[i].dueAt() < ts.items[j].dueAt() }

func (ts *timers[T]) Swap(i, j int) {
	a, b := ts.items[i], ts.items[j]
	ts.items[i], ts.items[j] = b, a
	*a.slot(), *b.slot() = int32(j), int32(i) //nolint:gosec // lanes in memory
}

func (ts *timers[T]) Push(v any) {
	*v.(T).slot() = int32(len(ts.items)) //nolint:gosec,errcheck // lanes in memory; heap.Push gets nothing else
	ts.items = append(ts.items, v.(T))   //nolint:errcheck // the same
}

func (ts *timers[T]) Pop() any {
	last := len(ts.items) - 1
	v := ts.items[last]
	*v.slot() = -1
	ts.items = slices.Delete(ts.items, last, last+1)
	return v
}
