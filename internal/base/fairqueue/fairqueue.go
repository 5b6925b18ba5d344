package fairqueue

import (
	"cmp"
	"container/heap"
	"time"
)

// longest is how long Next says to wait when there is nothing to wait for.
const longest = time.Hour

// Queue hands out jobs of type J for parties of type P. The caller locks it, except for
// Wake.
type Queue[P comparable, J any] struct {
	// Wake gets a value when Next may return something new.
	Wake chan struct{}

	perParty int
	pools    []*pool[P, J]
	pausedTo time.Time
}

// New returns a queue with a pool for each number of workers. A party may have perParty
// jobs of a pool running at once.
func New[P comparable, J any](perParty int, workers ...int) *Queue[P, J] {
	q := &Queue[P, J]{Wake: make(chan struct{}, 1), perParty: perParty}
	for _, limit := range workers {
		q.pools = append(q.pools, &pool[P, J]{queue: q, limit: limit, lanes: make(map[P]*lane[P, J])})
	}
	return q
}

// Item is the place of a job in a Queue. It is part of the job, and belongs to one Queue.
type Item[J any] struct {
	Job J
	// Due is when the job may start. Call Moved after changing it for a waiting job.
	Due time.Time

	at    place[J] // the lane where it waits or runs; nil: neither
	index int      // in the lane's heap, from 1; 0: it runs
}

// place is a lane, as its items know it.
type place[J any] interface {
	fix(*Item[J])
	remove(*Item[J])
	pause(until time.Time)
	done()
}

// Waiting reports whether the job was put into the queue and has not started.
func (it *Item[J]) Waiting() bool { return it.index > 0 }

// Running reports whether Next returned the job, and Finish was not called yet.
func (it *Item[J]) Running() bool { return it.at != nil && it.index == 0 }

// Moved says that Due of a waiting job has changed.
func (it *Item[J]) Moved() { it.at.fix(it) }

// Remove removes a waiting job from the queue.
func (it *Item[J]) Remove() {
	it.at.remove(it)
	it.at = nil
}

// PauseParty lets no job of the same party and pool start before a time. The zero time ends
// that. The job is waiting or running.
func (it *Item[J]) PauseParty(until time.Time) { it.at.pause(until) }

// Put adds a job to the jobs of a party in a pool.
func (q *Queue[P, J]) Put(pool int, party P, it *Item[J]) {
	c := q.pools[pool]
	l := c.lanes[party]
	if l == nil {
		l = &lane[P, J]{pool: c, party: party}
		c.lanes[party] = l
	}
	it.at = l
	heap.Push(&l.jobs, it)
	l.changed()
	q.Signal()
}

// Next starts the next job. If there is none, ok is false, and wait is how long until there
// may be one, unless Wake says otherwise. End each job with Finish.
func (q *Queue[P, J]) Next(now time.Time) (job J, wait time.Duration, ok bool) {
	if wait = q.pausedTo.Sub(now); wait > 0 {
		return job, wait, false
	}
	wait = longest
	for _, c := range q.pools {
		if c.running >= c.limit || len(c.ready) == 0 {
			continue
		}
		if d := c.ready[0].at().Sub(now); d > 0 {
			wait = min(wait, d)
			continue
		}
		return c.start(now), 0, true
	}
	return job, wait, false
}

// Finish ends the run of a job. If put is not nil, it is called first, to put the job or
// another one into the queue; so the party keeps its place among the others.
func (q *Queue[P, J]) Finish(it *Item[J], put func()) {
	ran := it.at
	it.at = nil
	if put != nil {
		put()
	}
	ran.done()
	q.Signal()
}

// ResumeParty ends the pause of a party in all pools.
func (q *Queue[P, J]) ResumeParty(party P) {
	for _, c := range q.pools {
		if l := c.lanes[party]; l != nil {
			l.pause(time.Time{})
		}
	}
	q.Signal()
}

// PauseUntil starts no job before a time. It reports whether the queue was not paused
// already.
func (q *Queue[P, J]) PauseUntil(now, t time.Time) bool {
	if now.Before(q.pausedTo) {
		return false
	}
	q.pausedTo = t
	return true
}

// Parties is the number of parties with a job, each counted once for each pool.
func (q *Queue[P, J]) Parties() (n int) {
	for _, c := range q.pools {
		n += len(c.lanes)
	}
	return n
}

// Signal makes Wake ready.
func (q *Queue[P, J]) Signal() {
	select {
	case q.Wake <- struct{}{}:
	default:
	}
}

// pool is the jobs that share a number of workers.
type pool[P comparable, J any] struct {
	queue          *Queue[P, J]
	running, limit int
	turns          uint64
	lanes          map[P]*lane[P, J]
	ready          order[*lane[P, J]] // lanes that may start a job, the next one first
}

func (c *pool[P, J]) start(now time.Time) J {
	l := c.ready[0]
	it := heap.Pop(&l.jobs).(*Item[J]) //nolint:errcheck // there is nothing else in it
	c.running++
	c.turns++
	l.running, l.served, l.turn = l.running+1, now, c.turns
	l.changed()
	return it.Job
}

// lane is the jobs of one party in one pool. It exists while there are any.
type lane[P comparable, J any] struct {
	pool      *pool[P, J]
	party     P
	jobs      order[*Item[J]] // those that were due first, first
	running   int
	notBefore time.Time // the end of its pause
	served    time.Time // when a job of it was last started, and in which turn
	turn      uint64
	index     int // in pool.ready, from 1; 0: not there
}

// at is when the lane may start a job. A lane that was served goes behind those that have
// been waiting.
func (l *lane[P, J]) at() time.Time {
	t := l.jobs[0].Due
	for _, u := range []time.Time{l.notBefore, l.served} {
		if u.After(t) {
			t = u
		}
	}
	return t
}

func (l *lane[P, J]) fix(it *Item[J]) {
	heap.Fix(&l.jobs, it.index-1)
	l.changed()
	l.pool.queue.Signal()
}

func (l *lane[P, J]) remove(it *Item[J]) {
	heap.Remove(&l.jobs, it.index-1)
	l.changed()
}

func (l *lane[P, J]) pause(until time.Time) {
	l.notBefore = until
	l.changed()
	l.pool.queue.Signal()
}

func (l *lane[P, J]) done() {
	l.pool.running--
	l.running--
	l.changed()
}

// changed puts the lane into its order after any change of it.
func (l *lane[P, J]) changed() {
	c := l.pool
	if l.index > 0 {
		heap.Remove(&c.ready, l.index-1)
	}
	if len(l.jobs) > 0 && l.running < c.queue.perParty {
		heap.Push(&c.ready, l)
	}
	if len(l.jobs) == 0 && l.running == 0 {
		delete(c.lanes, l.party)
	}
}

func (it *Item[J]) before(other *Item[J]) bool { return it.Due.Before(other.Due) }
func (it *Item[J]) position() *int             { return &it.index }

func (l *lane[P, J]) before(other *lane[P, J]) bool {
	return cmp.Or(l.at().Compare(other.at()), cmp.Compare(l.turn, other.turn)) < 0
}
func (l *lane[P, J]) position() *int { return &l.index }

// indexed is an element of an order. Its position there counts from 1; 0: it is in none.
type indexed[T any] interface {
	before(T) bool
	position() *int
}

// order is a heap.Interface over elements that know where they are in it.
type order[T indexed[T]] []T

func (o order[T]) Len() int           { return len(o) }
func (o order[T]) Less(i, j int) bool { return o[i].before(o[j]) }
func (o order[T]) Swap(i, j int) {
	o[i], o[j] = o[j], o[i]
	*o[i].position(), *o[j].position() = i+1, j+1
}

func (o *order[T]) Push(x any) {
	*o = append(*o, x.(T)) //nolint:errcheck // only this file pushes
	*(*o)[len(*o)-1].position() = len(*o)
}

func (o *order[T]) Pop() any {
	last := len(*o) - 1
	t := (*o)[last]
	clear((*o)[last:])
	*o = (*o)[:last]
	*t.position() = 0
	return t
}
