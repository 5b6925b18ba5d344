package post

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// peer is the other side of connections in memory: each is handed to serve, with its number from 1,
// and closed when it returns.
type peer struct {
	serve func(c *server, n int)
	dials atomic.Int32
	open  atomic.Int32 // connections that our side has not closed
}

type server struct {
	net.Conn
	r *bufio.Reader
}

// request reads a request, and returns its body; false: there is none.
func (s *server) request() (string, bool) {
	req, err := http.ReadRequest(s.r)
	if err != nil {
		return "", false
	}
	b, err := io.ReadAll(req.Body)
	return string(b), err == nil
}

func (s *server) say(format string, args ...any) { _, _ = fmt.Fprintf(s, format, args...) }

func (p *peer) dial(context.Context, string, string) (net.Conn, error) {
	n := p.dials.Add(1)
	p.open.Add(1)
	ours, theirs := net.Pipe()
	go func() {
		defer theirs.Close() //nolint:errcheck // of the test
		p.serve(&server{theirs, bufio.NewReader(theirs)}, int(n))
	}()
	return &counted{Conn: ours, open: &p.open}, nil
}

// counted counts the connections that are open.
type counted struct {
	net.Conn
	open   *atomic.Int32
	closed atomic.Bool
}

func (c *counted) Close() error {
	if !c.closed.Swap(true) {
		c.open.Add(-1)
	}
	return c.Conn.Close()
}

func (p *peer) pool() *Pool {
	return NewPool(Options{Dial: p.dial, DialTLS: p.dial, PerHost: 2, Idle: 3, IdleTimeout: 90 * time.Second})
}

// inBubble runs a test in virtual time, with a pool of connections to peers that serve. At the end
// all connections are closed.
func inBubble(t *testing.T, serve func(c *server, n int), test func(t *testing.T, p *Pool, to *peer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		to := &peer{serve: serve}
		p := to.pool()
		test(t, p, to)
		p.CloseIdleConnections()
		time.Sleep(time.Hour) // until the peers have noticed
		synctest.Wait()
		if n := to.open.Load(); n != 0 {
			t.Errorf("%d connections are open at the end", n)
		}
	})
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

// answering answers each request of a connection with the same.
func answering(answer string) func(*server, int) {
	return func(s *server, _ int) {
		for {
			if _, more := s.request(); !more {
				return
			}
			s.say("%s", answer)
		}
	}
}

func request(body string) *Request {
	return &Request{
		URL: "http://peer.example/cb?x=1", Head: NewHead(Field{"Link", "<a>; rel=self"}), Own: []Field{{"X-Own", "1"}}, Body: []byte(body),
		Stall: 15 * time.Second, Whole: time.Minute, Rest: time.Second, Read: 4 << 10, Keep: 1 << 10,
	}
}

var large = strings.Repeat("0123456789abcdef", 64<<10) // 1 MiB
