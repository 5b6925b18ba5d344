package hub

import (
	"container/heap"
	"sync"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/journal"
)

const (
	// firstFetches and moreFetches are how many fetches run at once: of topics
	// without a head those that have not failed yet, and those that are tried again.
	// Of established topics firstFetches run beside these. fetchesPerHost is how many
	// of each run for one host.
	firstFetches   = 128
	moreFetches    = 64
	fetchesPerHost = 4
	// maxFetchJobs is how many topics are held in memory: more than strangers can
	// have wait. What waits beyond them is in the store, and found by a sweep.
	maxFetchJobs = 2 * journal.MaxMarks * journal.Partitions
	// pingedAgain is how soon a topic that could not be fetched is tried when it
	// is pinged again.
	pingedAgain = 10 * time.Second
)

// fetchQueue deals out what is to be fetched: each topic once at a time, hosts in
// turn, and what failed apart from what is new, so that neither a slow host nor
// many dead ones hold up the others. Established topics, which have a head, have
// workers and turns of their own, so that others do not hold them up. What is to be fetched is in the marks; it
// knows topics and times.
type fetchQueue struct {
	wake chan struct{} // something changed that next would see

	mu      sync.Mutex
	jobs    map[string]*fetchJob // by topic
	waiting fetchHeap
	classes [3]fetchClass // that did not fail yet, that did, and those of established topics
	rest    time.Time     // nothing begins before
	news    []int         // partitions that take was called for, and taken was not
}

// fetchJob is the fetching of one topic. While it runs its worker owns the
// fields of the first group.
type fetchJob struct {
	topic      string
	unrecorded *journal.Mark // was fetched, and is to be stored
	pings      uint64        // that the mark had when it was read last

	host       string
	due, floor time.Time // floor: not before, whoever pings
	slow       bool      // the last try failed
	known      bool      // the topic has a head
	running    bool
	again      bool // it was pinged while it ran
	index      int  // in waiting; -1: it runs, or its host has it
}

// next says how a job goes on.
type next struct {
	keep       bool
	due, floor time.Time
	slow       bool
	hold       bool // the host as a whole has to wait until due
	known      bool // the topic turned out to have a head
}

// fetchClass is jobs that share a number of workers.
type fetchClass struct {
	active, limit int
	hosts         map[string]*fetchHost
	turns         []*fetchHost // those that may begin a job, the next one first
}

type fetchHost struct {
	ready     []*fetchJob
	running   int
	queued    bool // in turns
	notBefore time.Time
}

func newFetchQueue() *fetchQueue {
	q := &fetchQueue{wake: make(chan struct{}, 1), jobs: make(map[string]*fetchJob)}
	q.classes[0] = fetchClass{limit: firstFetches, hosts: make(map[string]*fetchHost)}
	q.classes[1] = fetchClass{limit: moreFetches, hosts: make(map[string]*fetchHost)}
	q.classes[2] = fetchClass{limit: firstFetches, hosts: make(map[string]*fetchHost)}
	return q
}

// ping has a topic fetched that was marked: at once, once more where it is being
// fetched, and soon where that failed. Known says that it has a head.
func (q *fetchQueue) ping(topic string, known bool, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	defer q.signal()
	j := q.jobs[topic]
	switch {
	case j == nil:
		q.create(topic, known, now, false)
	case j.running:
		j.again = true
	case j.index >= 0:
		j.hurry(now)
		heap.Fix(&q.waiting, j.index)
	}
}

// hurry has a job that waits for its next try make it soon, as it was pinged.
func (j *fetchJob) hurry(now time.Time) {
	soon := now.Add(pingedAgain)
	if soon.Before(j.floor) {
		soon = j.floor
	}
	if soon.Before(j.due) {
		j.due = soon
	}
}

// resume has a topic fetched whose mark was found in the store, at the wall-clock
// time now, if it is not known of, or soon if it was pinged since. A time further
// off than any pause is what a clock that jumped left behind, and does not count.
// Known says that the topic has a head.
func (q *fetchQueue) resume(m journal.Mark, known bool, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if j := q.jobs[m.Topic]; j != nil {
		if j.index >= 0 && m.Pings > j.pings { // another hub was pinged
			j.pings = m.Pings
			j.hurry(time.Now())
			heap.Fix(&q.waiting, j.index)
			q.signal()
		}
		return
	}
	due := time.Now()
	if d := m.NextAt.Sub(now); d > 0 && d <= 2*fetchFor {
		due = due.Add(d)
	}
	q.create(m.Topic, known, due, m.Tries > 0)
	q.signal()
}

// lacks reports whether nothing is known of a topic.
func (q *fetchQueue) lacks(topic string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.jobs[topic] == nil
}

func (q *fetchQueue) create(topic string, known bool, due time.Time, slow bool) {
	if len(q.jobs) >= maxFetchJobs {
		return
	}
	j := &fetchJob{topic: topic, host: egress.HostPortOf(topic), known: known, due: due, slow: slow}
	q.jobs[topic] = j
	heap.Push(&q.waiting, j)
}

// next begins the job whose turn it is, or tells how long there will be none
// unless wake says otherwise. Whoever gets a job ends it with finish.
func (q *fetchQueue) next(now time.Time) (*fetchJob, time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if d := q.rest.Sub(now); d > 0 {
		return nil, d
	}
	for len(q.waiting) > 0 && !q.waiting[0].due.After(now) {
		j := heap.Pop(&q.waiting).(*fetchJob) //nolint:errcheck // it holds nothing else
		q.class(j).add(j)
	}
	for i := range q.classes {
		if j := q.begin(&q.classes[i], now); j != nil {
			return j, 0
		}
	}
	if len(q.waiting) > 0 {
		return nil, q.waiting[0].due.Sub(now)
	}
	return nil, sweepEvery
}

func (q *fetchQueue) class(j *fetchJob) *fetchClass {
	switch {
	case j.known:
		return &q.classes[2]
	case j.slow:
		return &q.classes[1]
	default:
		return &q.classes[0]
	}
}

// begin begins a job of the host whose turn it is. Nil: there is none, or no
// worker. The jobs of a host that has to wait go back to those that wait.
func (q *fetchQueue) begin(c *fetchClass, now time.Time) *fetchJob {
	for c.active < c.limit && len(c.turns) > 0 {
		h := c.turns[0]
		c.turns = c.turns[1:]
		h.queued = false
		if h.notBefore.After(now) {
			for _, j := range h.ready {
				j.due = h.notBefore
				heap.Push(&q.waiting, j)
			}
			h.ready = nil
			continue
		}
		j := h.ready[0]
		h.ready = h.ready[1:]
		c.active++
		h.running++
		j.running = true
		c.queue(h)
		return j
	}
	return nil
}

// finish ends the run of a job that next gave.
func (q *fetchQueue) finish(j *fetchJob, then next) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.class(j)
	h := c.hosts[j.host]
	c.active--
	h.running--
	h.notBefore = time.Time{}
	if then.hold {
		h.notBefore = then.due
	}
	again := j.again
	j.running, j.again, j.known = false, false, j.known || then.known
	switch {
	case then.keep:
		j.due, j.floor = then.due, then.floor
		j.slow = j.slow && then.hold || then.slow
		if again {
			j.hurry(time.Now())
		}
		heap.Push(&q.waiting, j)
	case again:
		j.due, j.floor, j.slow = time.Time{}, time.Time{}, false
		heap.Push(&q.waiting, j)
	default:
		delete(q.jobs, j.topic)
	}
	c.queue(h)
	if len(h.ready) == 0 && h.running == 0 && h.notBefore.IsZero() {
		delete(c.hosts, j.host)
	}
	q.signal()
}

// restUntil lets nothing begin before a time, and reports whether that is news.
func (q *fetchQueue) restUntil(now, t time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now.Before(q.rest) {
		return false
	}
	q.rest = t
	return true
}

// take notes that a partition is this hub's from now on.
func (q *fetchQueue) take(partition int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.news = append(q.news, partition)
	q.signal()
}

// taken returns what take noted, once.
func (q *fetchQueue) taken() []int {
	q.mu.Lock()
	defer q.mu.Unlock()
	news := q.news
	q.news = nil
	return news
}

func (q *fetchQueue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// add has a job wait for its host's turn.
func (c *fetchClass) add(j *fetchJob) {
	h := c.hosts[j.host]
	if h == nil {
		h = &fetchHost{}
		c.hosts[j.host] = h
	}
	h.ready = append(h.ready, j)
	c.queue(h)
}

// queue gives a host a turn, behind the others, if it has use for one.
func (c *fetchClass) queue(h *fetchHost) {
	if !h.queued && len(h.ready) > 0 && h.running < fetchesPerHost {
		h.queued = true
		c.turns = append(c.turns, h)
	}
}

// fetchHeap is a heap.Interface of jobs by the time when they are due.
type fetchHeap []*fetchJob

func (h fetchHeap) Len() int           { return len(h) }
func (h fetchHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }

func (h fetchHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *fetchHeap) Push(x any) {
	j := x.(*fetchJob) //nolint:errcheck // only this file pushes
	j.index = len(*h)
	*h = append(*h, j)
}

func (h *fetchHeap) Pop() any {
	last := len(*h) - 1
	j := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	j.index = -1
	return j
}
