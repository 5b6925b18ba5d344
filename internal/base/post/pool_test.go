package post

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// wantAnswer complains unless a request is answered with a status.
func wantAnswer(t *testing.T, p *Pool, r *Request, status int) Answer {
	t.Helper()
	a, err := p.Post(t.Context(), r)
	if a.Status != status || (err != nil) != (status == 0) {
		t.Errorf("%d, %v, want %d", a.Status, err, status)
	}
	return a
}

// After an answer whose end is beyond doubt the connection is used again, and after no other.
func TestConnectionsAreUsedAgain(t *testing.T) {
	const keeps, closes = 1, 2
	for answer, dials := range map[string]int32{
		ok:                                keeps,
		"HTTP/1.1 204 No Content\r\n\r\n": keeps,
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n":                                      keeps,
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello":                                           keeps,
		"HTTP/1.1 500 No\r\nContent-Length: 4096\r\n\r\n" + strings.Repeat("x", 4096):                 keeps,
		"HTTP/1.1 500 No\r\nContent-Length: 4097\r\n\r\n" + strings.Repeat("x", 4097):                 closes,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n":                keeps,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5 ;a=b\r\nhello\r\n000\r\nX: y\r\n\r\n": keeps,
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\n" + ok:                     keeps,
		"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 0\r\n\r\n":                      keeps,
		"HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 0\r\n\r\n":                        closes,
		"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n":                                                closes,
		"HTTP/1.1 200 OK\r\n\r\nuntil the end":                                                        closes,
		"HTTP/1.1 101 Switching\r\n\r\n":                                                              closes,
		"HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n":                                                closes,
		ok + ok:                               closes,
		"HTTP/1.1 204 No Content\r\n\r\nbody": closes,
		"HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n":                                                                                          closes,
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\n":                                                                                          closes,
		"HTTP/1.1 200 OK\r\nX: folded\r\n again\r\nContent-Length: 0\r\n\r\n":                                                                 closes,
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length : 7\r\n\r\n":                                                                  closes,
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n":                                                                   closes,
		"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n":                                                 closes,
		"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n":                                            closes,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n":                                                          closes,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello0\r\n\r\n":                                                            closes,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n":                                                       closes,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n":                                                      closes,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\na\":\r\n\r\n":                                        closes,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: \x01\r\n\r\n":                                             closes,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nno colon\r\n\r\n":                                            closes,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1000000000000000\r\nhello\r\n0\r\n\r\n":                                         closes,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\n":                                        closes,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1;"+strings.Repeat("x", 1000)+"\r\ny\r\n", 6) + "0\r\n\r\n": closes,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nHTTP/1.1 500 x\r\n":                                      closes,
	} {
		t.Run(fmt.Sprintf("%.90q", answer), func(t *testing.T) {
			inBubble(t, answering(answer), func(t *testing.T, p *Pool, to *peer) {
				for range 2 {
					if _, err := p.Post(t.Context(), request("body")); err != nil {
						t.Error(err)
					}
					synctest.Wait()
				}
				if n := to.dials.Load(); n != dials {
					t.Errorf("%d connections for two requests, want %d", n, dials)
				}
			})
		})
	}
}

// One whose answer was not read to its end is not.
func TestRestOfAnAnswer(t *testing.T) {
	inBubble(t, func(s *server, _ int) {
		for {
			if _, more := s.request(); !more {
				return
			}
			s.say("HTTP/1.1 500 No\r\nContent-Length: 5000\r\n\r\n%s", strings.Repeat("x", 4096))
			time.Sleep(time.Second)
			s.say("%s", strings.Repeat("x", 5000-4096))
		}
	}, func(t *testing.T, p *Pool, to *peer) {
		wantAnswer(t, p, request("body"), 500)
		wantAnswer(t, p, request("body"), 500)
		if n := to.dials.Load(); n != 2 {
			t.Errorf("%d connections for two requests, want 2", n)
		}
	})
	c := &scripted{data: []byte(ok), step: 100, ends: true}
	r := &reader{conn: c, buf: make([]byte, 1000)}
	if h, err := r.readHead(); err != nil {
		t.Error(err)
	} else if _, done := r.drain(&h, 100, 0); done {
		t.Error("the connection has ended, and is to be used again")
	}
}

// A folded line is read whole, also where the rest of it comes later.
func TestFolded(t *testing.T) {
	for step := 1; step < 40; step++ {
		c := &scripted{data: []byte("HTTP/1.1 503 No\r\nRetry-After: abc\r\n def\r\n\tghi\r\nX: y\r\n\r\n"), step: step}
		r := &reader{conn: c, buf: make([]byte, 64)}
		if h, err := r.readHead(); err != nil || h.retryAfter != "abc def ghi" {
			t.Errorf("%d bytes at a time: %q, %v", step, h.retryAfter, err)
		}
	}
}

// A request that found its connection closed is sent once more, and only if nothing of an answer
// came.
func TestClosedWhileIdle(t *testing.T) {
	for name, tc := range map[string]struct {
		second func(s *server) // what happens to the second request of the first connection
		status int
		dials  int32
	}{
		"closed before it":   {func(*server) {}, 200, 2},
		"closed within it":   {func(s *server) { _, _ = s.Read(make([]byte, 10)) }, 200, 2},
		"closed after it":    {func(s *server) { s.request() }, 200, 2},
		"half of an answer":  {func(s *server) { s.request(); s.say("H") }, 0, 1},
		"an answer, closing": {func(s *server) { s.request(); s.say("HTTP/1.1 500 x\r\nConnection: close\r\n\r\n") }, 500, 1},
		"no answer at all":   {func(s *server) { s.request(); _, _ = io.Copy(io.Discard, s) }, 0, 1},
	} {
		for _, body := range []string{"small", large} {
			t.Run(fmt.Sprint(name, len(body)), func(t *testing.T) {
				var bodies []string
				inBubble(t, func(s *server, n int) {
					if body, more := s.request(); more {
						bodies = append(bodies, body)
						s.say(ok)
					}
					if n == 1 {
						tc.second(s)
					}
				}, func(t *testing.T, p *Pool, to *peer) {
					wantAnswer(t, p, request(body), 200)
					wantAnswer(t, p, request(body), tc.status)
					if to.dials.Load() != tc.dials {
						t.Errorf("%d connections, want %d", to.dials.Load(), tc.dials)
					}
					for _, got := range bodies {
						if got != body {
							t.Errorf("%d bytes arrived, want %d", len(got), len(body))
						}
					}
				})
			})
		}
	}
}

// The same over net/http.
func TestClosedWhileIdleOverHTTP(t *testing.T) {
	inBubble(t, func(s *server, n int) {
		for {
			if _, more := s.request(); !more {
				return
			}
			if s.say(ok); n == 1 {
				s.request()
				return
			}
		}
	}, func(t *testing.T, _ *Pool, to *peer) {
		web := &http.Transport{DialContext: to.dial}
		defer web.CloseIdleConnections()
		for range 2 {
			if a, err := (HTTP{doer{web}}).Post(t.Context(), request("body")); a.Status != 200 || err != nil {
				t.Errorf("%+v, %v", a, err)
			}
		}
		if n := to.dials.Load(); n != 2 {
			t.Errorf("%d connections, want 2", n)
		}
	})
}

// On a new connection nothing is sent again.
func TestNewConnectionIsNotTriedAgain(t *testing.T) {
	inBubble(t, func(s *server, _ int) { s.request() }, func(t *testing.T, p *Pool, to *peer) {
		_, err := p.Post(t.Context(), request("body"))
		if !errors.Is(err, ErrClosed) || to.dials.Load() != 1 {
			t.Errorf("%v, %d connections", err, to.dials.Load())
		}
	})
}

// afterASecond answers each request.
func afterASecond(s *server, _ int) {
	for {
		if _, more := s.request(); !more {
			return
		}
		time.Sleep(time.Second)
		s.say(ok)
	}
}

// The limits of idle connections: for an origin, in all, and in time. Of an origin the newest is
// used, and of all the oldest is closed.
func TestIdleConnectionsAreBounded(t *testing.T) {
	inBubble(t, afterASecond, func(t *testing.T, p *Pool, to *peer) {
		at := func(host string, n int) {
			done := make(chan struct{})
			for range n {
				go func() {
					r := request("body")
					r.URL = "http://" + host + "/"
					wantAnswer(t, p, r, 200)
					done <- struct{}{}
				}()
			}
			for range n {
				<-done
			}
			synctest.Wait()
		}
		at("a.example", 5)
		if n := to.open.Load(); n != 2 {
			t.Errorf("%d connections are kept for one origin, want 2", n)
		}
		at("b.example", 2)
		if n := to.open.Load(); n != 3 {
			t.Errorf("%d connections are kept in all, want 3", n)
		}
		dials := to.dials.Load()
		at("b.example", 2)
		at("a.example", 1)
		if n := to.dials.Load() - dials; n != 0 {
			t.Errorf("%d new connections, want none", n)
		}
		time.Sleep(60 * time.Second)
		at("a.example", 1)
		time.Sleep(45 * time.Second)
		if n := to.open.Load(); n != 1 {
			t.Errorf("%d connections are kept 105 s after the last use of all but one, want 1", n)
		}
		at("a.example", 2)
		for range 5 {
			time.Sleep(30 * time.Second)
			at("a.example", 1)
		}
		if n := to.open.Load(); n != 1 {
			t.Errorf("%d connections are kept where one at a time was used, want 1", n)
		}
		time.Sleep(time.Hour)
		p.shelves[0].mu.Lock()
		defer p.shelves[0].mu.Unlock()
		if n := to.open.Load(); n != 0 || len(p.shelves[0].origins) != 0 || p.shelves[0].looking {
			t.Errorf("%d connections are kept after an hour", n)
		}
	})
}

// A pool that keeps many connections has several shelves: the connection of an origin is found again, all of them
// together keep no more than they may, and all are closed.
func TestShelves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &peer{serve: answering(ok)}
		const most = 4 * connsOfShelf
		p := NewPool(Options{Dial: to.dial, DialTLS: to.dial, PerHost: 2, Idle: most, IdleTimeout: time.Hour})
		if len(p.shelves) != 4 {
			t.Errorf("%d shelves, want 4", len(p.shelves))
		}
		to100 := func(from int) {
			for i := range 100 {
				r := request("body")
				r.URL = fmt.Sprintf("http://h%d.example/", from+i)
				wantAnswer(t, p, r, 200)
			}
		}
		to100(0)
		to100(0)
		if n := to.dials.Load(); n != 100 {
			t.Errorf("%d connections were made to 100 origins, which were called twice", n)
		}
		for from := 100; from < 2*most; from += 100 {
			to100(from)
		}
		synctest.Wait()
		if n := to.open.Load(); n != most {
			t.Errorf("%d connections are kept, want %d", n, most)
		}
		p.CloseIdleConnections()
		synctest.Wait()
		if n := to.open.Load(); n != 0 {
			t.Errorf("%d connections are open", n)
		}
	})
	if n := len(NewPool(Options{PerHost: 512, Idle: 1024}).shelves); n != 1 {
		t.Errorf("%d shelves where one origin may have half of all connections, want 1", n)
	}
}

// CloseIdleConnections closes what is idle, and what is in use after that.
func TestCloseIdleConnections(t *testing.T) {
	inBubble(t, afterASecond, func(t *testing.T, p *Pool, to *peer) {
		wantAnswer(t, p, request("body"), 200)
		time.AfterFunc(500*time.Millisecond, p.CloseIdleConnections)
		wantAnswer(t, p, request("body"), 200)
		if n := to.open.Load(); n != 0 {
			t.Errorf("%d connections are open", n)
		}
		wantAnswer(t, p, request("body"), 200)
		if n := to.open.Load(); n != 1 {
			t.Errorf("%d connections are open after another request, want 1", n)
		}
	})
}

// On real connections: one that the other side closed, or on which it sent something that nobody
// asked for, is noticed before it is used.
func TestIdleConnectionsAreChecked(t *testing.T) {
	for name, act := range map[string]func(net.Conn){
		"closed":      func(c net.Conn) { _ = c.Close() },
		"half closed": func(c net.Conn) { _ = c.(*net.TCPConn).CloseWrite() },                //nolint:errcheck // a TCP connection
		"reset":       func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0); _ = c.Close() }, //nolint:errcheck // a TCP connection
		"unsolicited": func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 500 Not for you\r\nContent-Length: 0\r\n\r\n") },
		"open":        func(net.Conn) {},
	} {
		for _, size := range []int{4, oneWrite} {
			t.Run(fmt.Sprint(name, size), func(t *testing.T) {
				l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close() //nolint:errcheck // a listener of the test
				s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.NotFoundHandler()}
				defer s.Close() //nolint:errcheck // of the test
				conns := make(chan net.Conn, 10)
				s.ConnContext = func(ctx context.Context, c net.Conn) context.Context { conns <- c; return ctx }
				go func() { _ = s.Serve(l) }()
				var d net.Dialer
				p := NewPool(Options{Dial: d.DialContext, PerHost: 2, Idle: 2, IdleTimeout: time.Minute})
				defer p.CloseIdleConnections()
				r := request(strings.Repeat("b", size))
				r.URL = "http://" + l.Addr().String()
				wantAnswer(t, p, r, 404)
				first := p.shelves[0].newest
				act(<-conns)
				noticed := false
				for deadline := time.Now().Add(10 * time.Second); name != "open" && name != "unsolicited" && !noticed && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
					p.shelves[0].mu.Lock()
					noticed = !first.alive()
					p.shelves[0].mu.Unlock()
				}
				if noticed == (name == "open" || name == "unsolicited") { // to look would read it
					t.Errorf("noticed: %v", noticed)
				}
				wantAnswer(t, p, r, 404)
				if again := p.shelves[0].newest == first; again != (name == "open") {
					t.Errorf("the connection was used again: %v", again)
				}
			})
		}
	}
}

// The look at the idle connections closes those that the other side closed.
func TestLook(t *testing.T) {
	inBubble(t, answering(ok), func(t *testing.T, p *Pool, to *peer) {
		wantAnswer(t, p, request("body"), 200)
		time.Sleep(look)
		if to.open.Load() != 1 {
			t.Error("a connection that is open was closed")
		}
		p.shelves[0].mu.Lock()
		p.shelves[0].newest.line = &line{raw: closedLine{}}
		p.shelves[0].mu.Unlock()
		time.Sleep(look)
		synctest.Wait()
		if to.open.Load() != 0 {
			t.Error("a connection that is closed is kept")
		}
	})
}

// closedLine is the descriptor of a connection that is closed.
type closedLine struct{ syscall.RawConn }

func (closedLine) Control(func(uintptr)) error { return net.ErrClosed }

func TestPlain(t *testing.T) {
	for url, want := range map[string]target{
		"http://h.example":                {"http://h.example", false, "h.example", ""},
		"http://h.example?q":              {"http://h.example", false, "h.example", "?q"},
		"https://h.example:8443/a%2F?%zz": {"https://h.example:8443", true, "h.example:8443", "/a%2F?%zz"},
		"http://[::1]:80/":                {"http://[::1]:80", false, "[::1]:80", "/"},
		"http://[::1]/":                   {"http://[::1]", false, "[::1]", "/"},
	} {
		if got, ok := parse(url); !ok || got != want {
			t.Errorf("%s: %+v, %v", url, got, ok)
		}
	}
	for _, url := range []string{
		"", "http://", "http:///x", "HTTP://h/", "ftp://h/", "//h/", "http://h:/", "http://:80/", "http://h:123456/", "http://h:8x/", "http://u@h/",
		"http://u:p@h/", "http://h\u00e4/", "http://%41/", "http://[::1/", "http://::1/", "http://[::1%25lo]/", "http://[1.2.3.4]/", "http://h//x", "http://h/#f",
		"http://h/ x", "http://h/\r\nX: y", "http://h/\u00e4", "http://h/%", "http://h/%4", "http://h/%zz", "http://h\\@x/", "http://h/?\x00", "http://h#x",
	} {
		if got, ok := parse(url); ok {
			t.Errorf("%q is plain: %+v", url, got)
		}
	}
	if a, b, c := (target{host: "h"}).addr(), (target{host: "h", secure: true}).addr(), (target{host: "[::1]"}).addr(); a != "h:80" || b != "h:443" || c != "[::1]:80" {
		t.Error(a, b, c)
	}
	p := (&peer{}).pool()
	if _, err := p.Post(t.Context(), &Request{URL: "http://u@h/"}); !errors.Is(err, ErrNotPlain) {
		t.Error(err)
	}
}

// What cannot be a field of a header is not sent, in either way.
func TestFieldsAreChecked(t *testing.T) {
	for _, f := range []Field{{"X", "a\r\nY: b"}, {"X", "a\x00"}, {"X\n", ""}, {"", "x"}, {"X Y", "x"}} {
		for _, r := range []*Request{{Head: NewHead(f)}, {Head: NewHead(), Own: []Field{f}}} {
			r.URL = "http://peer.example/"
			to := &peer{}
			if _, err := to.pool().Post(t.Context(), r); err == nil || to.dials.Load() > 0 {
				t.Errorf("%q: %v", f, err)
			}
			if _, err := (HTTP{}).Post(t.Context(), r); err == nil {
				t.Errorf("%q was sent", f)
			}
		}
	}
}
