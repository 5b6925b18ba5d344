package destination

import (
	"context"
	"slices"
	"sync"
	"time"
)

// lentFor is how long a request counts as one beyond the first of its copy. Older ones are
// slow, and must not use up what all copies share.
const lentFor = 30 * time.Second

// shared bounds the requests of several copies together: those to one host, and those in
// all. Each copy may always have one request, so that no copy waits for a slow one. Only
// further ones count against the number in all. A host that serves several copies divides
// its requests among those that want some. One whose last response was bad, or that has not
// answered a copy yet, gets one request of that copy at a time.
//
// It may be shared between goroutines.
type shared struct {
	perHost, total int

	mu      sync.Mutex
	lent    int                    // requests that count against total
	hosts   map[string]*sharedHost // by host:port; only while it has requests, or some wait
	waiting []*request             // first come, first served
}

// sharedHost is the requests to one host: those under way, by the copy, and those that wait.
type sharedHost struct {
	inUse int
	by    map[*party]*counts
}

type counts struct{ inUse, waiting int }

// party is a copy, as shared knows it.
type party struct {
	all   *shared
	inUse int // of all hosts; those that are lent are among them
}

// request is one that a copy sends, or wants to send.
type request struct {
	party  *party
	to     string
	sound  func() bool   // whether the host answers this copy well; nil: that is not known of it
	begins chan struct{} // closed when it may be sent
	lent   bool          // it counts against total
	timer  *time.Timer   // ends that; nil: it never was
}

func newShared(perHost, total int) *shared {
	return &shared{perHost: perHost, total: total, hosts: map[string]*sharedHost{}}
}

// join returns what a copy sends its requests with.
func (s *shared) join() *party { return &party{all: s} }

// enter waits until a request to a host may be sent. Call leave when it is over; a nil party
// waits for nothing.
func (p *party) enter(ctx context.Context, to string, sound func() bool) (leave func(), err error) {
	if p == nil {
		return func() {}, nil
	}
	s, r := p.all, &request{party: p, to: to, sound: sound, begins: make(chan struct{})}
	s.mu.Lock()
	s.at(r).waiting++
	s.waiting = append(s.waiting, r)
	s.admit()
	s.mu.Unlock()
	select {
	case <-r.begins:
		return sync.OnceFunc(func() { s.leave(r) }), nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting, r); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
		s.at(r).waiting--
		s.forget(r)
		s.admit() // fewer want the host
	} else {
		s.end(r)
	}
	return nil, ctx.Err()
}

func (s *shared) leave(r *request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(r)
}

// end takes back what a request occupies. Called with mu held, as all that follow.
func (s *shared) end(r *request) {
	s.takeBack(r)
	s.at(r).inUse--
	s.hosts[r.to].inUse--
	r.party.inUse--
	s.forget(r)
	s.admit()
}

// at returns the counts of the party of a request at its host.
func (s *shared) at(r *request) *counts {
	h := s.hosts[r.to]
	if h == nil {
		h = &sharedHost{by: map[*party]*counts{}}
		s.hosts[r.to] = h
	}
	if h.by[r.party] == nil {
		h.by[r.party] = &counts{}
	}
	return h.by[r.party]
}

// forget drops counts that are zero.
func (s *shared) forget(r *request) {
	h := s.hosts[r.to]
	if *h.by[r.party] == (counts{}) {
		delete(h.by, r.party)
	}
	if len(h.by) == 0 {
		delete(s.hosts, r.to)
	}
}

// admit lets those that wait begin, as far as they may.
func (s *shared) admit() {
	s.waiting = slices.DeleteFunc(s.waiting, func(r *request) bool {
		if !s.may(r) {
			return false
		}
		here := s.at(r)
		here.waiting--
		here.inUse++
		s.hosts[r.to].inUse++
		if r.party.inUse++; r.party.inUse > 1 {
			r.lent = true
			s.lent++
			r.timer = time.AfterFunc(lentFor, func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.takeBack(r)
				s.admit()
			})
		}
		close(r.begins)
		return true
	})
}

// may reports whether a request may begin.
func (s *shared) may(r *request) bool {
	h := s.hosts[r.to]
	if h.inUse >= s.perHost || r.party.inUse > 0 && s.lent >= s.total {
		return false
	}
	most := max(1, s.perHost/len(h.by))
	if r.sound != nil && !r.sound() {
		most = 1
	}
	return h.by[r.party].inUse < most
}

// takeBack ends the loan of a request.
func (s *shared) takeBack(r *request) {
	if r.lent {
		r.lent = false
		s.lent--
		r.timer.Stop()
	}
}
