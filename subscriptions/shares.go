package subscriptions

import "github.com/google/uuid"

// shares counts the places in the queue by who asked for them. It is as large as
// the queue at most; the places of requests from before a restart are nobody's.
type shares struct {
	all, each int // places of one requester, in all and at one callback host; 0: any number
	by        map[uuid.UUID]string
	count     map[place]int
}

// place is a requester and a callback host; an empty host stands for all.
type place struct{ requester, host string }

// share is the part of a limit that one requester gets; 0, no limit, stays 0.
func share(limit int) int {
	if limit <= 0 {
		return 0
	}
	return max(1, limit/requesterShare)
}

// full reports whether a requester has all the places that it may have.
func (s *shares) full(requester, host string) bool {
	return requester != "" && (s.all > 0 && s.count[place{requester, ""}] >= s.all ||
		s.each > 0 && s.count[place{requester, host}] >= s.each)
}

func (s *shares) take(id uuid.UUID, requester, host string) {
	if requester == "" || s.all == 0 && s.each == 0 {
		return
	}
	s.by[id] = requester
	s.count[place{requester, ""}]++
	s.count[place{requester, host}]++
}

func (s *shares) giveBack(id uuid.UUID, host string) {
	requester, ok := s.by[id]
	if !ok {
		return
	}
	delete(s.by, id)
	for _, p := range []place{{requester, ""}, {requester, host}} {
		if s.count[p]--; s.count[p] <= 0 {
			delete(s.count, p)
		}
	}
}
