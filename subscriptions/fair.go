package subscriptions

import (
	"cmp"
	"container/heap"
	"time"
)

// class is the jobs that share a number of workers, by host and requester. These
// take turns.
type class struct {
	active, limit int
	turns         uint64
	hosts         map[party]*hostQueue
	ready         indexHeap[*hostQueue] // those that may start a job, the next one on top
}

// host returns the queue of a host and requester, a new one where there is none. It
// goes away when it has no job.
func (c *class) host(p party) *hostQueue {
	h := c.hosts[p]
	if h == nil {
		h = &hostQueue{class: c, party: p, index: -1}
		c.hosts[p] = h
	}
	return h
}

// next starts the job whose turn it is. Nil: there is none for the time that
// comes with it, or, if that is zero, until something changes.
func (c *class) next(now time.Time) (*job, time.Duration) {
	if c.active >= c.limit || len(c.ready) == 0 {
		return nil, 0
	}
	h := c.ready[0]
	if d := h.at().Sub(now); d > 0 {
		return nil, d
	}
	j := heap.Pop(&h.jobs).(*job) //nolint:errcheck // it holds nothing else
	c.active++
	c.turns++
	h.running, h.served, h.turn = h.running+1, now, c.turns
	h.settle()
	return j, 0
}

// hostQueue is the jobs of one class for one host and requester.
type hostQueue struct {
	class     *class
	party     party
	jobs      indexHeap[*job] // the one that is due first on top
	running   int
	notBefore time.Time // over their budget until then
	served    time.Time // when a job of it was started last, and as which
	turn      uint64
	index     int // in class.ready; -1: not there
}

// at is when the host may start a job. A host that was served goes behind those
// that waited meanwhile.
func (h *hostQueue) at() time.Time {
	t := h.jobs[0].due
	for _, u := range []time.Time{h.notBefore, h.served} {
		if u.After(t) {
			t = u
		}
	}
	return t
}

func (h *hostQueue) put(j *job) {
	j.at = h
	heap.Push(&h.jobs, j)
	h.settle()
}

func (h *hostQueue) remove(j *job) {
	heap.Remove(&h.jobs, j.index)
	h.settle()
}

// done says that a running job of the host ended.
func (h *hostQueue) done() {
	h.class.active--
	h.running--
	h.settle()
}

// settle puts the host where it belongs after any change of it.
func (h *hostQueue) settle() {
	c := h.class
	if h.index >= 0 {
		heap.Remove(&c.ready, h.index)
	}
	if len(h.jobs) > 0 && h.running < perHost {
		heap.Push(&c.ready, h)
	}
	if len(h.jobs) == 0 && h.running == 0 {
		delete(c.hosts, h.party)
	}
}

func (h *hostQueue) before(i *hostQueue) bool {
	return cmp.Or(h.at().Compare(i.at()), cmp.Compare(h.turn, i.turn)) < 0
}

func (h *hostQueue) moved(to int) { h.index = to }

func (j *job) before(k *job) bool { return j.due.Before(k.due) }

func (j *job) moved(to int) { j.index = to }

// indexed is an item of an indexHeap.
type indexed[T any] interface {
	before(T) bool
	moved(to int) // -1: out of the heap
}

var (
	_ indexed[*job]       = (*job)(nil)
	_ indexed[*hostQueue] = (*hostQueue)(nil)
)

// indexHeap is a heap.Interface over items that know where they are in it.
type indexHeap[T indexed[T]] []T

func (h indexHeap[T]) Len() int           { return len(h) }
func (h indexHeap[T]) Less(i, j int) bool { return h[i].before(h[j]) }

func (h indexHeap[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].moved(i)
	h[j].moved(j)
}

func (h *indexHeap[T]) Push(x any) {
	t := x.(T) //nolint:errcheck // only this file pushes
	t.moved(len(*h))
	*h = append(*h, t)
}

func (h *indexHeap[T]) Pop() any {
	var none T
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = none
	*h = (*h)[:last]
	t.moved(-1)
	return t
}
