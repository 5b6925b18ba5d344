package subscriptions

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/internal/base/fairqueue"
)

const (
	// perHost is how many requests for one host, of one requester, are worked on at once.
	perHost = 4
	// requesterDivisor limits one requester to a quarter of the places for waiting requests,
	// in total and at one callback host. So nobody can keep others from subscribing by
	// naming callbacks that never answer.
	requesterDivisor = 4
)

// The pools of workers. Retries have their own, so that many dead hosts do not delay first
// tries. First tries for established subscriptions have their own too, so that strangers do
// not delay them.
const (
	firstTries = iota
	laterTries
	establishedTries
)

// queue starts jobs when they are due, by the rule of fairqueue, in which a party is a host
// and a requester. It knows ids and times; the requests are in the store.
//
// Reserve refuses a request, before it is stored, if MaxPending requests wait, if
// MaxPendingPerHost of them are for the same callback host, or if a quarter of either comes
// from the same requester. Requests that are already stored are always added, and so are
// those by the subscriber of an established subscription.
type queue struct {
	maxPending, maxPerHost int        // of all hubs together
	live                   func() int // the number of hubs

	mu    sync.Mutex
	jobs  map[uuid.UUID]*job
	pend  map[string]int // jobs by callback host
	quota quota
	fair  *fairqueue.Queue[party, *job]
}

// job is the work on the pending request of one subscription. While it runs its worker owns
// the fields of the first group, and Due.
type job struct {
	fairqueue.Item[*job]

	id              uuid.UUID
	host, topicHost string
	check           bool      // the next step is the topic check, and calls topicHost
	requester       uint64    // of the request; 0: unknown
	established     bool      // the subscriber itself renews or ends a subscription in force
	slow            bool      // the last step failed
	checked         uuid.UUID // the request whose topic was checked
	checks          int       // topic checks in a row without a result
	tries           int       // of the request, as far as known
	lent            time.Time // since when another hub owns it; zero: this hub does

	failure string    // why the last step failed; queue.mu guards it
	request uuid.UUID // the request that the job was made for

	again *job // for a newer request, which came while this job ran
}

func newJob(id uuid.UUID, host string) *job {
	j := &job{id: id, host: host}
	j.Job = j
	return j
}

// party is a host, and the requester for whom it is called.
type party struct {
	host      string
	requester uint64
}

// party returns the host that the next step calls, and the requester.
func (j *job) party() party {
	if j.check {
		return party{j.topicHost, j.requester}
	}
	return party{j.host, j.requester}
}

func newQueue(workers, maxPending, maxPerHost int, live func() int) *queue {
	each := max(1, workers/2)
	return &queue{
		maxPending: maxPending, maxPerHost: maxPerHost, live: live,
		jobs:  make(map[uuid.UUID]*job),
		pend:  make(map[string]int),
		quota: quota{by: make(map[uuid.UUID]string), count: make(map[place]int)},
		fair:  fairqueue.New[party, *job](perHost, each, each, each),
	}
}

// reserve reserves a place for a request that is about to be stored. The place is free
// again when the job ends. *LimitError: there is no place, or none for the requester. An
// empty requester is unknown.
func (q *queue) reserve(id uuid.UUID, host, requester string) error {
	live := q.live()
	all, each := perHub(q.maxPending, live), perHub(q.maxPerHost, live)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.quota.total, q.quota.perHost = perRequester(all), perRequester(each)
	switch {
	case q.jobs[id] != nil: // it replaces one that waits
	case all > 0 && len(q.jobs) >= all:
		return &LimitError{Reason: "Too many requests wait for their verification at this hub; try again later.", RetryAfter: time.Minute}
	case each > 0 && q.pend[host] >= each:
		return &LimitError{Reason: "Too many requests of the callback's host wait for their verification; try again later.", RetryAfter: time.Minute}
	case q.quota.full(requester, host):
		return &LimitError{Reason: "Too many of your own requests wait for their verification; try again later, or see why the callbacks do not answer.", RetryAfter: time.Minute}
	default:
		q.create(newJob(id, host))
		q.quota.reserve(id, requester, host)
	}
	return nil
}

// admit makes a place for the renewal or the end of what is established, even in a full
// queue: there is at most one such request for a subscription.
func (q *queue) admit(id uuid.UUID, host string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.jobs[id] == nil {
		q.create(newJob(id, host))
	}
}

func (q *queue) create(j *job) {
	q.jobs[j.id] = j
	bump(q.pend, j.host, 1)
}

// add queues a job. It replaces the job for an older request of the same id.
func (q *queue) add(fresh *job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch j := q.jobs[fresh.id]; {
	case j == nil:
		q.create(fresh)
	case j.Running():
		j.again = fresh
		return
	default:
		if j.Waiting() {
			j.Remove()
		}
		q.jobs[j.id] = fresh
	}
	q.put(fresh)
}

// perHub returns the fraction of a limit for one of several hubs, rounded up. 0, no limit,
// stays 0.
func perHub(limit, live int) int {
	live = max(live, 1)
	return (max(limit, 0) + live - 1) / live
}

// lacks reports whether the stored request r needs a new job: there is no job for it, or one
// for an older request, or one that another hub owned, or one that waits although the
// operator asked for the next attempt at once.
func (q *queue) lacks(r *Request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	j := q.jobs[r.SubscriptionID()]
	switch {
	case j == nil:
		return true
	case !j.Running() && !j.Waiting(): // it is being stored
		return false
	case j.again != nil:
		return j.again.request != r.ID
	case j.request != r.ID:
		return true
	default:
		return j.Waiting() && (j.tries > r.Tries || !j.lent.IsZero())
	}
}

// known reports whether there is a job for an id.
func (q *queue) known(id uuid.UUID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.jobs[id] != nil
}

// setFailure records why the last step of a job failed; empty: it did not.
func (q *queue) setFailure(j *job, why string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j.failure = why
}

// tried returns why the last step of the job for an id failed, and when the next one is due. Zero: it is
// running, or is another hub's.
func (q *queue) tried(id uuid.UUID) (failure string, next time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j := q.jobs[id]
	if j == nil {
		return "", next
	}
	if j.Waiting() && j.lent.IsZero() {
		next = j.Due
	}
	return j.failure, next
}

// waiting returns the number of all jobs.
func (q *queue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.jobs)
}

// next starts the next job, or returns how long there is none, unless wake says otherwise.
// End each job with finish.
func (q *queue) next(now time.Time) (*job, time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j, wait, _ := q.fair.Next(now)
	return j, wait
}

// wake gets a value when next may return something new.
func (q *queue) wake() <-chan struct{} { return q.fair.Wake }

// finish ends the run of a job. If keep is set it waits again as its fields say.
func (q *queue) finish(j *job, keep bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.fair.Finish(&j.Item, func() {
		switch {
		case j.again != nil:
			q.jobs[j.id] = j.again
			q.put(j.again)
		case keep:
			q.put(j)
		default:
			delete(q.jobs, j.id)
			bump(q.pend, j.host, -1)
			q.quota.release(j.id, j.host)
		}
	})
}

// pauseParty starts no job of the party of j in its pool before a time.
func (q *queue) pauseParty(j *job, until time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j.PauseParty(until)
}

// resumeParty ends what pauseParty began.
func (q *queue) resumeParty(p party) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.fair.ResumeParty(p)
}

// pauseUntil starts no job at all before a time. It reports whether the queue was not
// paused already.
func (q *queue) pauseUntil(now, t time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fair.PauseUntil(now, t)
}

// put makes a job wait in its pool until it is due. Call it with mu locked.
func (q *queue) put(j *job) {
	pool := firstTries
	switch {
	case j.slow:
		pool = laterTries
	case j.established:
		pool = establishedTries
	}
	q.fair.Put(pool, j.party(), &j.Item)
}
