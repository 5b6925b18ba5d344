package post

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// overTCP runs a test with a pool of real connections to a peer that serves. At the end all connections are
// closed.
func overTCP(t *testing.T, serve func(c *server, n int), test func(t *testing.T, p *Pool, post func(ctx context.Context, body string) (Answer, error), dials *atomic.Int32)) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var dials atomic.Int32
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n := int(dials.Add(1))
			all.Go(func() {
				defer c.Close() //nolint:errcheck // of the test
				serve(&server{c, bufio.NewReader(c)}, n)
			})
		}
	})
	p := NewPool(Options{Dial: new(net.Dialer).DialContext, PerHost: 8, Idle: 8, IdleTimeout: time.Minute})
	test(t, p, func(ctx context.Context, body string) (Answer, error) {
		r := request(body)
		r.URL, r.Stall = "http://"+l.Addr().String(), 10*time.Second
		if body == slow {
			r.Stall = 100 * time.Millisecond
		}
		return p.Post(ctx, r)
	}, &dials)
	p.CloseIdleConnections()
	_ = l.Close()
	all.Wait()
}

// slow is the body of a request that waits only a moment.
const slow = "slow"

// What comes of a request on a connection that was used before is what comes of one on a new connection, but for
// connections that were closed before anything came. So a pool that is in real use judges as the one in memory does, which the
// other tests have.
func TestAskOnAKeptConnection(t *testing.T) {
	const begin = "HTTP/1.1 200 OK\r\n"
	for name, tc := range map[string]struct {
		parts  []string // of the answer, a moment apart
		holds  bool     // the connection, instead of closing it
		resets bool     // the connection at the end
		body   string
		again  bool // it is sent once more where the connection was used before
	}{
		"an answer":                      {parts: []string{ok}},
		"an answer, and it stays":        {parts: []string{ok}, holds: true},
		"an answer in bytes":             {parts: strings.Split(ok, ""), holds: true},
		"one with a body":                {parts: []string{"HTTP/1.1 500 No\r\nContent-Length: 5\r\n\r\n", "he", "llo"}, holds: true},
		"one longer than the buffer":     {parts: []string{begin + "X: " + strings.Repeat("x", 3*copied), "\r\nContent-Length: 0\r\n\r\n"}, holds: true},
		"one with informational heads":   {parts: []string{"HTTP/1.1 103 Hints\r\n\r\n", ok}, holds: true},
		"two":                            {parts: []string{ok + ok}, holds: true},
		"half of a header":               {parts: []string{begin}},
		"half of a header and a reset":   {parts: []string{begin}, resets: true},
		"nothing that is an answer":      {parts: []string{"no\r\n"}, holds: true},
		"nothing, and it closes":         {again: true},
		"nothing, and it resets":         {resets: true, again: true},
		"nothing, and it stays":          {holds: true, body: slow},
		"half of an answer, and stays":   {parts: []string{begin}, holds: true, body: slow},
		"a larger request":               {parts: []string{ok}, holds: true, body: strings.Repeat("b", oneWrite)},
		"one that is as large as it may": {parts: []string{ok}, holds: true, body: strings.Repeat("b", copied-len("POST / HTTP/1.1\r\nHost: 127.0.0.1:12345\r\nLink: <a>; rel=self\r\nX-Own: 1\r\nContent-Length: 8082\r\n\r\n"))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := tc.body
			if body == "" {
				body = "body"
			}
			answer := func(s *server) {
				if got, _ := s.request(); got != body && body != slow { // which may have ended before
					t.Errorf("%d bytes arrived, want %d", len(got), len(body))
				}
				for _, part := range tc.parts {
					s.say("%s", part)
					time.Sleep(2 * time.Millisecond)
				}
				switch {
				case tc.holds:
					_, _ = io.Copy(io.Discard, s)
				case tc.resets:
					_ = s.Conn.(*net.TCPConn).SetLinger(0) //nolint:errcheck // a TCP connection
				}
			}
			var fresh, kept Answer
			var freshErr, keptErr error
			var freshIdle, keptIdle int
			overTCP(t, func(s *server, _ int) { answer(s) }, func(t *testing.T, p *Pool, post func(context.Context, string) (Answer, error), _ *atomic.Int32) {
				fresh, freshErr = post(t.Context(), body)
				freshIdle = p.shelves[0].idle
			})
			overTCP(t, func(s *server, n int) {
				if n == 1 {
					s.request()
					s.say(ok)
				}
				answer(s)
			}, func(t *testing.T, p *Pool, post func(context.Context, string) (Answer, error), dials *atomic.Int32) {
				if _, err := post(t.Context(), "first"); err != nil {
					t.Fatal(err)
				}
				kept, keptErr = post(t.Context(), body)
				keptIdle = p.shelves[0].idle
				if n := dials.Load(); (n == 2) != tc.again {
					t.Errorf("%d connections", n)
				}
			})
			if kept.Status != fresh.Status || string(kept.Body) != string(fresh.Body) || errors.As(keptErr, new(*SlowError)) != errors.As(freshErr, new(*SlowError)) ||
				withoutAddresses(keptErr) != withoutAddresses(freshErr) || keptIdle != freshIdle {
				t.Errorf("on a kept connection %+v, %v, %d kept; on a new one %+v, %v, %d kept", kept, keptErr, keptIdle, fresh, freshErr, freshIdle)
			}
		})
	}
}

// withoutAddresses is the text of an error without the addresses that package net writes.
func withoutAddresses(err error) string {
	if err == nil {
		return ""
	}
	before, after, _ := strings.Cut(err.Error(), "->")
	_, after, _ = strings.Cut(after, ": ")
	before, _, _ = strings.Cut(before, "127.0.0.1")
	return before + after
}

// A request of which the kernel takes nothing for the moment is written to its end.
func TestAskWhileTheKernelIsFull(t *testing.T) {
	ours, theirs := pair(t)
	c, s := newConn(ours, target{host: "peer.example"}), &server{theirs, bufio.NewReader(theirs)}
	for _, size := range []int{1 << 20, 1} { // where there is no room for many bytes, there may be some for one
		for err := error(nil); err == nil; {
			_ = c.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
			_, err = c.Write(make([]byte, size))
		}
	}
	for _, end := range []net.Conn{c, s} {
		_ = end.SetDeadline(time.Now().Add(10 * time.Second))
	}
	r := request("body")
	in := &reader{conn: c, buf: make([]byte, copied)}
	var all sync.WaitGroup
	all.Go(func() {
		time.Sleep(50 * time.Millisecond)
		b, _ := s.r.ReadBytes('|') // what fills the kernel
		if got, _ := s.request(); len(b) < 1000 || got != "body" {
			t.Errorf("%q arrived after %d bytes", got, len(b))
		}
		s.say(ok)
	})
	if err := c.ask(append([]byte{'|'}, append(r.appendHead(nil, c.target), r.Body...)...), in); err != nil || in.w != 0 {
		t.Errorf("%v, %d bytes are read", err, in.w)
	}
	if h, err := in.readHead(); h.status != 200 || err != nil {
		t.Errorf("%d, %v", h.status, err)
	}
	all.Wait()
}

// pair returns the two ends of a connection in the kernel, which has a fixed room.
func pair(t *testing.T) (ours, theirs net.Conn) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	end := func(fd int) net.Conn {
		f := os.NewFile(uintptr(fd), "")
		defer f.Close() //nolint:errcheck // the connection is a copy
		c, err := net.FileConn(f)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	return end(fds[0]), end(fds[1])
}

// A connection that is open is used, however many newer ones the other side closed while they were idle.
func TestIdleConnectionThatIsOpen(t *testing.T) {
	const first = 5
	var begun, closed sync.WaitGroup
	begun.Add(first)
	closed.Add(first - 1)
	kept := make(chan struct{}) // the one that stays open
	overTCP(t, func(s *server, n int) {
		if n <= first {
			s.request()
			begun.Done()
			begun.Wait()
			if n > 1 {
				<-kept
				s.say(ok)
				_ = s.Close()
				closed.Done()
				return
			}
			s.say(ok)
		}
		answering(ok)(s, n)
	}, func(t *testing.T, _ *Pool, post func(context.Context, string) (Answer, error), dials *atomic.Int32) {
		ask := func() {
			if _, err := post(t.Context(), "body"); err != nil {
				t.Error(err)
			}
		}
		var all sync.WaitGroup
		all.Go(func() { ask(); close(kept) })
		for dials.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		for range first - 1 {
			all.Go(ask)
		}
		all.Wait()
		closed.Wait()
		ask()
		if n := dials.Load(); n != first {
			t.Errorf("%d connections, want %d", n, first)
		}
	})
}
