package hub

import (
	"sync"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/fairqueue"
	"github.com/rshub/rshub/journal"
)

const (
	// firstFetches and laterFetches are how many fetches run at once for topics without a
	// head: first tries, and later ones. firstFetches more run for established topics.
	// fetchesPerHost is how many of each run for one host.
	firstFetches   = 128
	laterFetches   = 64
	fetchesPerHost = 4
	// maxFetchJobs is how many topics are in memory: more than strangers can have wait.
	// Others that wait are in the store, and a sweep finds them.
	maxFetchJobs = 2 * journal.MaxPingRecords * journal.Partitions
	// pingedAgain is how soon a topic that could not be fetched is tried when it is pinged
	// again.
	pingedAgain = 10 * time.Second
)

// fetchQueue hands out topics to fetch by the rule of fairqueue, each topic once at a time.
// What has to be fetched is in the ping records; the queue knows topics and times.
type fetchQueue struct {
	mu       sync.Mutex
	jobs     map[string]*fetchJob // by topic
	fair     *fairqueue.Queue[string, *fetchJob]
	acquired []int // partitions that acquire was called for, until drainAcquired
}

// fetchJob is the fetching of one topic. While it runs its worker owns the fields of the
// first group.
type fetchJob struct {
	topic      string
	unrecorded *journal.PingRecord // it was fetched, and has to be stored
	pings      uint64              // of the ping record when it was last read

	fairqueue.Item[*fetchJob]
	floor time.Time // not before, even if pinged
	slow  bool      // the last try failed
	known bool      // the topic is established
	again bool      // it was pinged while it ran
}

// next says how a job goes on.
type next struct {
	keep       bool
	due, floor time.Time
	slow       bool
	pause      bool // the whole host has to wait until due
	known      bool // the topic turned out to be established
}

func newFetchQueue() *fetchQueue {
	return &fetchQueue{
		jobs: make(map[string]*fetchJob),
		fair: fairqueue.New[string, *fetchJob](fetchesPerHost, firstFetches, laterFetches, firstFetches),
	}
}

// ping queues a topic that was pinged: at once, again if it is being fetched, and soon if
// that failed. Known says that it is established.
func (q *fetchQueue) ping(topic string, known bool, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j := q.jobs[topic]
	switch {
	case j == nil:
		q.create(topic, known, now, false)
	case j.Running():
		j.again = true
	default:
		j.hurry(now)
		j.Moved()
	}
}

// hurry makes a job's next try soon, because it was pinged.
func (j *fetchJob) hurry(now time.Time) {
	soon := now.Add(pingedAgain)
	if soon.Before(j.floor) {
		soon = j.floor
	}
	if soon.Before(j.Due) {
		j.Due = soon
	}
}

// resume queues a topic whose ping record was found in the store, at the wall-clock time now, if
// the queue does not have it, or moves it forward if it was pinged since. A time further off
// than any pause was left by a clock that jumped, and does not count. Known says that the
// topic is established.
func (q *fetchQueue) resume(m journal.PingRecord, known bool, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if j := q.jobs[m.Topic]; j != nil {
		if j.Waiting() && m.Pings > j.pings { // another hub was pinged
			j.pings = m.Pings
			j.hurry(time.Now())
			j.Moved()
		}
		return
	}
	due := time.Now()
	if d := m.NextAt.Sub(now); d > 0 && d <= 2*fetchFor {
		due = due.Add(d)
	}
	q.create(m.Topic, known, due, m.Tries > 0)
}

// lacks reports whether the queue does not have a topic.
func (q *fetchQueue) lacks(topic string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.jobs[topic] == nil
}

func (q *fetchQueue) create(topic string, known bool, due time.Time, slow bool) {
	if len(q.jobs) >= maxFetchJobs {
		return
	}
	j := &fetchJob{topic: topic, known: known, slow: slow}
	j.Job, j.Due = j, due
	q.jobs[topic] = j
	q.put(j)
}

// put has a job wait in its pool: first tries, later ones, or established topics.
func (q *fetchQueue) put(j *fetchJob) {
	pool := 0
	switch {
	case j.known:
		pool = 2
	case j.slow:
		pool = 1
	}
	q.fair.Put(pool, egress.HostPortOf(j.topic), &j.Item)
}

// next starts the next job, or returns how long there is none, unless wake says otherwise.
// End each job with finish.
func (q *fetchQueue) next(now time.Time) (*fetchJob, time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j, wait, _ := q.fair.Next(now)
	return j, min(wait, sweepEvery)
}

// wake gets a value when next may return something new, or a partition was acquired.
func (q *fetchQueue) wake() <-chan struct{} { return q.fair.Wake }

// finish ends the run of a job.
func (q *fetchQueue) finish(j *fetchJob, then next) {
	q.mu.Lock()
	defer q.mu.Unlock()
	pause := time.Time{} // else an earlier one ends
	if then.pause {
		pause = then.due
	}
	j.PauseParty(pause)
	again := j.again
	j.again, j.known = false, j.known || then.known
	switch {
	case then.keep:
		j.Due, j.floor = then.due, then.floor
		j.slow = j.slow && then.pause || then.slow
		if again {
			j.hurry(time.Now())
		}
	case again:
		j.Due, j.floor, j.slow = time.Time{}, time.Time{}, false
	default:
		delete(q.jobs, j.topic)
		q.fair.Finish(&j.Item, nil)
		return
	}
	q.fair.Finish(&j.Item, func() { q.put(j) })
}

// pauseUntil starts nothing before a time. It reports whether the queue was not paused
// already.
func (q *fetchQueue) pauseUntil(now, t time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fair.PauseUntil(now, t)
}

// acquire records that this hub owns a partition from now on.
func (q *fetchQueue) acquire(partition int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.acquired = append(q.acquired, partition)
	q.fair.Signal()
}

// drainAcquired returns what acquire recorded, once.
func (q *fetchQueue) drainAcquired() []int {
	q.mu.Lock()
	defer q.mu.Unlock()
	acquired := q.acquired
	q.acquired = nil
	return acquired
}
