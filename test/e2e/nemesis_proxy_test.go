package e2e

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// proxy is a TCP proxy between hubs and Redis, which cuts, delays and swallows.
type proxy struct {
	to     string
	listen net.Listener
	delay  atomic.Int64 // nanoseconds before whatever is passed on, each way
	cut    atomic.Bool  // what comes is closed at once
	black  atomic.Bool  // a black hole: connections are accepted, and nothing passes

	accepted atomic.Int64 // connections so far

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{to: to, listen: l, conns: map[net.Conn]struct{}{}}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { p.serve(context.WithoutCancel(t.Context()), in) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.setCut(true)
		running.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.listen.Addr().String() }

// setCut closes all connections and those that come, until it is undone.
func (p *proxy) setCut(cut bool) {
	p.cut.Store(cut)
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if cut {
			_ = c.Close()
		}
	}
}

func (p *proxy) serve(ctx context.Context, in net.Conn) {
	defer func() { _ = in.Close() }()
	p.accepted.Add(1)
	if p.cut.Load() {
		return
	}
	if p.black.Load() {
		p.swallow(in)
		return
	}
	out, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", p.to)
	if err != nil {
		return
	}
	defer func() { _ = out.Close() }()
	defer p.keep(in, out)()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
		both.Go(func() {
			p.copy(way[1], way[0])
			_ = in.Close()
			_ = out.Close()
		})
	}
	both.Wait()
}

// keep notes connections for setCut, until the returned function is called.
func (p *proxy) keep(conns ...net.Conn) (forget func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = struct{}{}
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, c := range conns {
			delete(p.conns, c)
		}
	}
}

// swallow reads what comes, and answers nothing.
func (p *proxy) swallow(in net.Conn) {
	defer p.keep(in)()
	_, _ = io.Copy(io.Discard, in)
}

// copy passes on what comes, each piece after the delay of the moment.
func (p *proxy) copy(to io.Writer, from io.Reader) {
	piece := make([]byte, 32<<10)
	for {
		n, err := from.Read(piece)
		if n > 0 && !p.black.Load() {
			time.Sleep(time.Duration(p.delay.Load()))
			if _, err := to.Write(piece[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
