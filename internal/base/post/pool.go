package post

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"
)

// Options configures a Pool. All fields are required.
type Options struct {
	// Dial connects to a host:port, and DialTLS also makes the handshake of TLS and returns
	// a *tls.Conn. They decide whether the address may be called. Their errors are returned
	// as they are.
	Dial, DialTLS func(ctx context.Context, network, addr string) (net.Conn, error)
	// PerHost is how many idle connections are kept for one origin, and Idle how many in all.
	PerHost, Idle int
	// IdleTimeout is how long one is kept.
	IdleTimeout time.Duration
}

// look is the time between two looks at the idle connections, for those that are closed.
const look = 15 * time.Second

// Pool makes requests, over connections that it keeps. It may be shared between goroutines.
type Pool struct {
	o Options

	mu      sync.Mutex
	origins map[string]*origin // with idle connections
	oldest  *conn              // of the idle connections
	newest  *conn
	idle    int
	closed  bool // CloseIdleConnections was called, and nothing asked for since
	timer   *time.Timer
	looking bool // the timer runs
}

// origin has the idle connections to a scheme, host and port, the newest at the end.
type origin struct {
	name  string
	conns []*conn
}

// NewPool returns a Pool. Nothing has to be closed, except its idle connections.
func NewPool(o Options) *Pool { return &Pool{o: o, origins: make(map[string]*origin)} }

// Post makes a request. If an idle connection turns out to be closed before anything of an answer
// came, the request is sent once more, over a new connection. So it has to be one that may arrive
// twice. When ctx ends, so does the exchange, with its cause as the error. The error is a SlowError
// if a limit of r was reached, and ErrNotPlain if HTTP has to make the request.
func (p *Pool) Post(ctx context.Context, r *Request) (Answer, error) {
	t, ok := parse(r.URL)
	if !ok {
		return Answer{}, ErrNotPlain
	}
	if err := r.check(); err != nil {
		return Answer{}, err
	}
	if ctx.Err() != nil {
		return Answer{}, context.Cause(ctx)
	}
	l := limits{began: time.Now(), stall: r.Stall, whole: r.Whole}
	if c := p.take(t, l.began); c != nil {
		a, err := p.exchange(ctx, c, t, r, l)
		if !errors.As(err, new(staleError)) {
			return a, err
		}
	}
	c, err := p.dial(ctx, t, l)
	if err != nil {
		return Answer{}, err
	}
	a, err := p.exchange(ctx, c, t, r, l)
	var stale staleError
	if errors.As(err, &stale) {
		err = stale.error
	}
	return a, err
}

func (p *Pool) exchange(ctx context.Context, c *conn, t target, r *Request, l limits) (Answer, error) {
	c.target = t
	_ = c.SetDeadline(l.after(l.began))
	a, reuse, err := c.exchange(ctx, r, l)
	if reuse {
		p.put(c)
	}
	return a, err
}

func (p *Pool) dial(ctx context.Context, t target, l limits) (*conn, error) {
	dctx, cancel := context.WithDeadline(ctx, l.after(l.began))
	defer cancel()
	dial := p.o.Dial
	if t.secure {
		dial = p.o.DialTLS
	}
	nc, err := dial(dctx, "tcp", t.addr())
	switch {
	case err == nil:
		return newConn(nc, t), nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case dctx.Err() != nil:
		return nil, l.slow()
	}
	return nil, err
}

// take returns an idle connection that is still open; nil: there is none.
func (p *Pool) take(t target, now time.Time) *conn {
	for {
		c := p.pop(t.origin)
		if c == nil {
			return nil
		}
		if now.Sub(c.since) < p.o.IdleTimeout && c.alive() {
			return c
		}
		c.retire()
	}
}

func (p *Pool) pop(name string) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = false
	o := p.origins[name]
	if o == nil {
		return nil
	}
	c := o.conns[len(o.conns)-1]
	p.remove(c)
	return c
}

// remove removes an idle connection.
func (p *Pool) remove(c *conn) {
	o := c.origin
	c.idle = false
	i := slices.Index(o.conns, c)
	o.conns = slices.Delete(o.conns, i, i+1)
	if len(o.conns) == 0 {
		delete(p.origins, o.name)
	}
	if c.older == nil {
		p.oldest = c.newer
	} else {
		c.older.newer = c.newer
	}
	if c.newer == nil {
		p.newest = c.older
	} else {
		c.newer.older = c.older
	}
	c.older, c.newer = nil, nil
	p.idle--
}

// put keeps a connection that is not used any more, or closes it.
func (p *Pool) put(c *conn) {
	if excess := p.keep(c); excess != nil {
		excess.retire()
	}
}

// keep keeps a connection, and returns the one that is too many.
func (p *Pool) keep(c *conn) (excess *conn) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.origins[c.target.origin]
	if p.closed || o != nil && len(o.conns) >= p.o.PerHost {
		return c
	}
	if o == nil {
		if o = c.origin; o == nil || o.name != c.target.origin || len(o.conns) > 0 {
			o = &origin{name: c.target.origin}
		}
		p.origins[o.name] = o
	}
	c.origin = o
	o.conns = append(o.conns, c)
	c.idle, c.since = true, now
	if c.older = p.newest; p.newest == nil {
		p.oldest = c
	} else {
		p.newest.newer = c
	}
	p.newest = c
	p.idle++
	if p.idle > p.o.Idle {
		excess = p.oldest
		p.remove(excess)
	}
	p.lookLater()
	return excess
}

// lookLater has look called in a while, if there are idle connections.
func (p *Pool) lookLater() {
	switch {
	case p.looking || p.idle == 0:
		return
	case p.timer == nil:
		p.timer = time.AfterFunc(look, p.look)
	default:
		p.timer.Reset(look)
	}
	p.looking = true
}

// look closes the idle connections that were idle for too long, or that the other side closed.
func (p *Pool) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*conn, 0, p.idle)
	for c := p.oldest; c != nil; c = c.newer {
		all = append(all, c)
	}
	now := time.Now()
	for i, c := range all {
		if i%64 == 63 { // others may have the lock
			p.mu.Unlock()
			p.mu.Lock()
		}
		if c.idle && (now.Sub(c.since) >= p.o.IdleTimeout || !c.alive()) {
			p.remove(c)
			c.retire()
		}
	}
	p.looking = false
	p.lookLater()
}

// CloseIdleConnections closes the connections that are not in use, and has those in use closed
// after that, until the next Post.
func (p *Pool) CloseIdleConnections() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for p.oldest != nil {
		c := p.oldest
		p.remove(c)
		c.retire()
	}
	if p.timer != nil {
		p.timer.Stop()
	}
	p.looking = false
}
