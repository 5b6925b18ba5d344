package subscriptions

import "github.com/google/uuid"

// quota counts the places in the queue by requester. It is at most as large as the queue.
// Requests from before a restart count for no requester.
type quota struct {
	total, perHost int // places of one requester, in total and at one callback host; 0: any number
	by             map[uuid.UUID]string
	count          map[place]int
}

// place is a requester and a callback host; an empty host stands for all.
type place struct{ requester, host string }

// perRequester returns how much of a limit one requester gets. 0, no limit, stays 0.
func perRequester(limit int) int {
	if limit <= 0 {
		return 0
	}
	return max(1, limit/requesterDivisor)
}

// full reports whether a requester has all the places that it may have.
func (q *quota) full(requester, host string) bool {
	return requester != "" && (q.total > 0 && q.count[place{requester, ""}] >= q.total ||
		q.perHost > 0 && q.count[place{requester, host}] >= q.perHost)
}

func (q *quota) reserve(id uuid.UUID, requester, host string) {
	if requester == "" || q.total == 0 && q.perHost == 0 {
		return
	}
	q.by[id] = requester
	q.add(requester, host, 1)
}

func (q *quota) release(id uuid.UUID, host string) {
	if requester, ok := q.by[id]; ok {
		delete(q.by, id)
		q.add(requester, host, -1)
	}
}

func (q *quota) add(requester, host string, n int) {
	bump(q.count, place{requester, ""}, n)
	bump(q.count, place{requester, host}, n)
}
