package delivery

import (
	"container/heap"
	"slices"
)

// timed is something that is due at a time. Its slot keeps its place in a timers, so
// that it can be moved and removed; -1 says that it is in none.
type timed interface {
	comparable
	slot() *int32
}

// timers is a heap with the earliest on top.
type timers[T timed] struct{ items []timerOf[T] }

// timerOf is an item, and when it is due. What is in no timers needs no memory for a time.
type timerOf[T timed] struct {
	due int64
	of  T
}

// set puts v in, or moves it to another time.
func (ts *timers[T]) set(v T, due int64) {
	if at := *v.slot(); at < 0 {
		heap.Push(ts, timerOf[T]{due, v})
	} else {
		ts.items[at].due = due
		heap.Fix(ts, int(at))
	}
}

// due is the time of v, which is in.
func (ts *timers[T]) due(v T) int64 { return ts.items[*v.slot()].due }

// drop removes v, if it is in.
func (ts *timers[T]) drop(v T) {
	if at := *v.slot(); at >= 0 {
		heap.Remove(ts, int(at))
	}
}

// pop removes and returns the earliest, if it is due at now.
func (ts *timers[T]) pop(now int64) (v T, ok bool) {
	if len(ts.items) == 0 || ts.items[0].due > now {
		return v, false
	}
	v = ts.items[0].of
	ts.drop(v)
	return v, true
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (ts *timers[T]) Len() int           { return len(ts.items) }
func (ts *timers[T]) Less(i, j int) bool { return ts.items[i].due < ts.items[j].due }

func (ts *timers[T]) Swap(i, j int) {
	a, b := ts.items[i], ts.items[j]
	ts.items[i], ts.items[j] = b, a
	*a.of.slot(), *b.of.slot() = int32(j), int32(i) //nolint:gosec // lanes in memory
}

func (ts *timers[T]) Push(v any) {
	t := v.(timerOf[T])                 //nolint:errcheck // heap.Push gets nothing else
	*t.of.slot() = int32(len(ts.items)) //nolint:gosec // lanes in memory
	ts.items = append(ts.items, t)
}

func (ts *timers[T]) Pop() any {
	last := len(ts.items) - 1
	v := ts.items[last]
	*v.of.slot() = -1
	ts.items = slices.Delete(ts.items, last, last+1)
	return v
}
