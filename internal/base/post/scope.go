package post

import (
	"context"
	"sync"
)

// Scope is a context that many exchanges share. Post takes it like any other context, but then an exchange costs
// less: the Scope has a list of them, and none registers with the context on its own. A context made from a
// Scope is no Scope.
type Scope struct {
	context.Context

	mu    sync.Mutex
	conns []*conn // in use
	over  bool
}

// NewScope returns a Scope and a function that ends it, as context.WithCancelCause does. It also ends
// with parent.
func NewScope(parent context.Context) (*Scope, context.CancelCauseFunc) {
	ctx, end := context.WithCancelCause(parent)
	s := &Scope{Context: ctx}
	context.AfterFunc(ctx, s.cut)
	return s, end
}

// cut cuts off the exchanges.
func (s *Scope) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for _, c := range s.conns {
		c.abort()
	}
}

// begin has an exchange cut off when the Scope ends.
func (s *Scope) begin(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.place, s.conns = len(s.conns), append(s.conns, c)
	if s.over {
		c.abort()
	}
}

// end reports whether the exchange was not cut off. It will not be any more.
func (s *Scope) end(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.conns) - 1
	s.conns[c.place], s.conns[last].place = s.conns[last], c.place
	s.conns[last] = nil
	s.conns = s.conns[:last]
	return !s.over
}
