package subscriptions

import (
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	// perHost is how many requests of the queue are worked on at once for one
	// host.
	perHost = 4
	// requesterShare is which part of the places for requests that wait one
	// requester may take, in all and at one callback host: who names callbacks
	// that never answer is not to keep others from subscribing.
	requesterShare = 4
)

// queue holds what is to be done and when, and deals it out fairly: hosts take
// turns, each has at most perHost jobs running for one requester, and retries have
// workers of their own, so that neither a slow host nor many dead ones keep a first
// try from being made. So have first tries of what is established, which strangers
// do not hold up. It knows ids and times; the requests are in the store.
type queue struct {
	maxPending, maxPerHost int           // of all hubs together
	live                   func() int    // how many they are
	wake                   chan struct{} // something changed that next would see

	mu      sync.Mutex
	jobs    map[uuid.UUID]*job
	pend    map[string]int // jobs by callback host
	asked   shares
	classes [3]class // first tries, retries, first tries of what is established
	// rest is when next gives out jobs again, after trouble with the store.
	rest time.Time
}

// job is the work on the pending request of one subscription. While it runs
// its worker owns the fields of the first group.
type job struct {
	id              uuid.UUID
	host, topicHost string
	due             time.Time
	check           bool      // the next step is the topic check, and calls topicHost
	requester       uint64    // who asked for it; 0: it is not known
	established     bool      // it is the subscriber's own renewal or end of what is in force
	slow            bool      // the last step failed
	checked         uuid.UUID // the request whose topic was checked
	checks          int       // topic checks that could not tell, in a row
	tries           int       // of the request, as far as known
	lent            time.Time // since when another hub is to do it; zero: it is this one's

	request uuid.UUID // what it was made for

	at    *hostQueue // where it waits or runs; nil: only reserved
	index int        // in at.jobs; -1: not there
	again *job       // a newer request came while it ran
}

func newJob(id uuid.UUID, host string) *job { return &job{id: id, host: host, index: -1} }

// party is a host and one who has it called: what takes turns with others.
type party struct {
	host      string
	requester uint64
}

// party is the host that the next step calls, and who asked for it.
func (j *job) party() party {
	if j.check {
		return party{j.topicHost, j.requester}
	}
	return party{j.host, j.requester}
}

func newQueue(workers, maxPending, maxPerHost int, live func() int) *queue {
	q := &queue{
		maxPending: maxPending, maxPerHost: maxPerHost, live: live,
		wake: make(chan struct{}, 1),
		jobs: make(map[uuid.UUID]*job),
		pend: make(map[string]int),
		asked: shares{
			by: make(map[uuid.UUID]string), count: make(map[place]int),
		},
	}
	for i := range q.classes {
		q.classes[i] = class{limit: max(1, workers/2), hosts: make(map[party]*hostQueue)}
	}
	return q
}

// reserve takes a place for a request that is about to be stored; add or a
// worker gives it back. *LimitError: there is none, or none for its requester, who
// may be empty: unknown.
func (q *queue) reserve(id uuid.UUID, host, requester string) error {
	live := q.live()
	all, each := part(q.maxPending, live), part(q.maxPerHost, live)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asked.all, q.asked.each = share(all), share(each)
	switch {
	case q.jobs[id] != nil: // it replaces one that waits
	case all > 0 && len(q.jobs) >= all:
		return &LimitError{Reason: "Too many requests wait for their verification at this hub; try again later.", RetryAfter: time.Minute}
	case each > 0 && q.pend[host] >= each:
		return &LimitError{Reason: "Too many requests of the callback's host wait for their verification; try again later.", RetryAfter: time.Minute}
	case q.asked.full(requester, host):
		return &LimitError{Reason: "Too many of your own requests wait for their verification; try again later, or see why the callbacks do not answer.", RetryAfter: time.Minute}
	default:
		q.create(newJob(id, host))
		q.asked.take(id, requester, host)
	}
	return nil
}

// admit takes a place for the renewal or the end of what is established, which has
// one whatever others take: there is one for a subscription.
func (q *queue) admit(id uuid.UUID, host string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.jobs[id] == nil {
		q.create(newJob(id, host))
	}
}

func (q *queue) create(j *job) {
	q.jobs[j.id] = j
	q.pend[j.host]++
}

// add has a request worked on as fresh says. What was planned for an older one of
// the same id is forgotten.
func (q *queue) add(fresh *job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch j := q.jobs[fresh.id]; {
	case j == nil:
		q.create(fresh)
	case j.at != nil && j.index < 0: // it runs
		j.again = fresh
		return
	default:
		if j.at != nil {
			j.at.remove(j)
		}
		q.jobs[j.id] = fresh
	}
	q.put(fresh)
	q.signal()
}

// part is what one of so many hubs has of a limit, rounded up; 0, no limit, stays.
func part(limit, live int) int {
	live = max(live, 1)
	return (max(limit, 0) + live - 1) / live
}

// lacks reports whether r, as it is stored, is news: there is no job for it, or one
// for an older request, one that was another hub's to do, or one that waits though
// the operator had it begin anew.
func (q *queue) lacks(r *Request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	j := q.jobs[r.SubscriptionID()]
	switch {
	case j == nil:
		return true
	case j.at == nil: // it is being stored
		return false
	case j.again != nil:
		return j.again.request != r.ID
	case j.request != r.ID:
		return true
	default:
		return j.index >= 0 && (j.tries > r.Tries || !j.lent.IsZero())
	}
}

// pending is the number of jobs of a callback host.
func (q *queue) pending(host string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pend[host]
}

// waiting is the number of all jobs.
func (q *queue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.jobs)
}

// next starts the job whose turn it is, or tells how long there will be none
// unless wake says otherwise. Whoever gets a job ends it with finish.
func (q *queue) next(now time.Time) (*job, time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if d := q.rest.Sub(now); d > 0 {
		return nil, d
	}
	wait := time.Hour
	for i := range q.classes {
		if j, d := q.classes[i].next(now); j != nil {
			return j, 0
		} else if d > 0 {
			wait = min(wait, d)
		}
	}
	return nil, wait
}

// finish ends the run of a job that next gave. Where keep is set it waits again
// as its fields say.
func (q *queue) finish(j *job, keep bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	ran := j.at
	switch {
	case j.again != nil:
		q.jobs[j.id] = j.again
		q.put(j.again)
	case keep:
		q.put(j)
	default:
		delete(q.jobs, j.id)
		if q.pend[j.host]--; q.pend[j.host] == 0 {
			delete(q.pend, j.host)
		}
		q.asked.giveBack(j.id, j.host)
	}
	ran.done() // last, so that the host is remembered where the job goes on
	q.signal()
}

// hold lets no job start before a time that waits where j ran.
func (q *queue) hold(j *job, until time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j.at.notBefore = until
	j.at.settle()
	q.signal()
}

// lift ends what hold began.
func (q *queue) lift(p party) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.classes {
		if h := q.classes[i].hosts[p]; h != nil {
			h.notBefore = time.Time{}
			h.settle()
		}
	}
	q.signal()
}

// restUntil lets no job start at all before a time, and reports whether that is
// news.
func (q *queue) restUntil(now, t time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now.Before(q.rest) {
		return false
	}
	q.rest = t
	return true
}

// put has a job wait where its fields say. Called with mu held.
func (q *queue) put(j *job) {
	c := &q.classes[0]
	switch {
	case j.slow:
		c = &q.classes[1]
	case j.established:
		c = &q.classes[2]
	}
	c.host(j.party()).put(j)
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}
