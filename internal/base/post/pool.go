package post

import (
	"context"
	"errors"
	"hash/maphash"
	"net"
	"time"
)

// Options configures a Pool. All fields are required.
type Options struct {
	// Dial connects to a host:port, and DialTLS also makes the handshake of TLS and returns
	// a *tls.Conn. They decide whether the address may be called. Their errors are returned
	// as they are.
	Dial, DialTLS func(ctx context.Context, network, addr string) (net.Conn, error)
	// PerHost is how many idle connections are kept for one origin, and Idle how many in all. If Idle is
	// large, origins share parts of it, so that less than Idle may be kept.
	PerHost, Idle int
	// IdleTimeout is how long one is kept.
	IdleTimeout time.Duration
}

// Pool makes requests, over connections that it keeps. It may be shared between goroutines.
type Pool struct {
	o       Options
	shelves []shelf // each has its own origins, so that few exchanges wait for one lock
	seed    maphash.Seed
}

// A Pool has a shelf for every connsOfShelf connections that it may keep, up to mostShelves, and each has
// room for the connections of hostsOfShelf origins at least.
const (
	mostShelves  = 16
	connsOfShelf = 256
	hostsOfShelf = 8
)

// NewPool returns a Pool. Nothing has to be closed, except its idle connections.
func NewPool(o Options) *Pool {
	n := min(max(o.Idle/max(connsOfShelf, hostsOfShelf*o.PerHost), 1), mostShelves)
	p := &Pool{o: o, shelves: make([]shelf, n), seed: maphash.MakeSeed()}
	for i := range p.shelves {
		p.shelves[i] = shelf{perHost: o.PerHost, most: o.Idle / n, timeout: o.IdleTimeout, origins: make(map[string]*origin)}
	}
	return p
}

// shelf is where the idle connections to an origin are kept.
func (p *Pool) shelf(origin string) *shelf {
	return &p.shelves[maphash.String(p.seed, origin)%uint64(len(p.shelves))]
}

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
	for c := p.shelf(t.origin).take(t, l.began); c != nil; c = p.shelf(t.origin).take(t, l.began) {
		a, err := p.exchange(ctx, c, t, r, l)
		if err == nil || !errors.As(err, new(staleError)) {
			return a, err
		}
		if !errors.Is(err, errGone) {
			break
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
		p.shelf(t.origin).put(c)
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
	if end, _ := dctx.Deadline(); err != nil && !time.Now().Before(end) {
		<-dctx.Done() // a dialer notices the end of the time by itself, sometimes before the context does
	}
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

// CloseIdleConnections closes the connections that are not in use, and has those in use closed
// after that. The next Post begins to keep connections again, those of its shelf.
func (p *Pool) CloseIdleConnections() {
	for i := range p.shelves {
		p.shelves[i].close()
	}
}
