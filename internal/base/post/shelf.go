package post

import (
	"slices"
	"sync"
	"time"
)

// look is the time between two looks at the idle connections, for those that are closed.
const look = 15 * time.Second

// shelf keeps idle connections to some origins.
type shelf struct {
	perHost, most int           // connections for one origin, and in all
	timeout       time.Duration // how long one is kept

	mu      sync.Mutex
	origins map[string]*origin // with idle connections
	oldest  *conn              // of the idle connections
	newest  *conn
	idle    int
	closed  bool // close was called, and nothing asked for since
	timer   *time.Timer
	looking bool // the timer runs
}

// origin has the idle connections to a scheme, host and port, the newest at the end.
type origin struct {
	name  string
	conns []*conn
}

// take returns an idle connection, which the other side may have closed; nil: there is none.
func (s *shelf) take(t target, now time.Time) *conn {
	for {
		c := s.pop(t.origin)
		if c == nil {
			return nil
		}
		if now.Sub(c.since) < s.timeout {
			return c
		}
		c.retire()
	}
}

func (s *shelf) pop(name string) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = false
	o := s.origins[name]
	if o == nil {
		return nil
	}
	c := o.conns[len(o.conns)-1]
	s.remove(c)
	return c
}

// remove removes an idle connection.
func (s *shelf) remove(c *conn) {
	o := c.origin
	c.idle = false
	i := slices.Index(o.conns, c)
	o.conns = slices.Delete(o.conns, i, i+1)
	if len(o.conns) == 0 {
		delete(s.origins, o.name)
	}
	if c.older == nil {
		s.oldest = c.newer
	} else {
		c.older.newer = c.newer
	}
	if c.newer == nil {
		s.newest = c.older
	} else {
		c.newer.older = c.older
	}
	c.older, c.newer = nil, nil
	s.idle--
}

// put keeps a connection that is not used any more, or closes it.
func (s *shelf) put(c *conn) {
	if excess := s.keep(c); excess != nil {
		excess.retire()
	}
}

// keep keeps a connection, and returns the one that is too many.
func (s *shelf) keep(c *conn) (excess *conn) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.origins[c.target.origin]
	if s.closed || o != nil && len(o.conns) >= s.perHost {
		return c
	}
	if o == nil {
		if o = c.origin; o == nil || o.name != c.target.origin || len(o.conns) > 0 {
			o = &origin{name: c.target.origin}
		}
		s.origins[o.name] = o
	}
	c.origin = o
	o.conns = append(o.conns, c)
	c.idle, c.since = true, now
	if c.older = s.newest; s.newest == nil {
		s.oldest = c
	} else {
		s.newest.newer = c
	}
	s.newest = c
	s.idle++
	if s.idle > s.most {
		excess = s.oldest
		s.remove(excess)
	}
	s.lookLater()
	return excess
}

// lookLater has look called in a while, if there are idle connections.
func (s *shelf) lookLater() {
	switch {
	case s.looking || s.idle == 0:
		return
	case s.timer == nil:
		s.timer = time.AfterFunc(look, s.look)
	default:
		s.timer.Reset(look)
	}
	s.looking = true
}

// look closes the idle connections that were idle for too long, or that the other side closed.
func (s *shelf) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*conn, 0, s.idle)
	for c := s.oldest; c != nil; c = c.newer {
		all = append(all, c)
	}
	now := time.Now()
	for i, c := range all {
		if i%64 == 63 { // others may have the lock
			s.mu.Unlock()
			s.mu.Lock()
		}
		if c.idle && (now.Sub(c.since) >= s.timeout || !c.alive()) {
			s.remove(c)
			c.retire()
		}
	}
	s.looking = false
	s.lookLater()
}

// close closes the connections, and has those in use closed after that.
func (s *shelf) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for s.oldest != nil {
		c := s.oldest
		s.remove(c)
		c.retire()
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	s.looking = false
}
