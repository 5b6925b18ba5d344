package post

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A request on the wire, to the byte.
func TestRequest(t *testing.T) {
	for _, tc := range []struct{ url, body string }{
		{"http://peer.example/cb?x=1", "body"}, {"http://peer.example", ""}, {"http://peer.example?y", strings.Repeat("z", copied)}, {"https://peer.example:1/", large},
	} {
		got := make(chan string, 1)
		inBubble(t, func(s *server, _ int) {
			var all bytes.Buffer
			s.r.Reset(io.TeeReader(s.Conn, &all))
			s.request()
			got <- all.String()
			s.say(ok)
		}, func(t *testing.T, p *Pool, _ *peer) {
			r := request(tc.body)
			r.URL = tc.url
			wantAnswer(t, p, r, 200)
		})
		u, _ := parse(tc.url)
		path := "/" + strings.TrimPrefix(u.path, "/")
		want := "POST " + path + " HTTP/1.1\r\nHost: " + u.host + "\r\nLink: <a>; rel=self\r\nX-Own: 1\r\nContent-Length: " + fmt.Sprint(len(tc.body)) + "\r\n\r\n" + tc.body
		if text := <-got; text != want {
			t.Errorf("%.300q, want %.300q", text, want)
		}
	}
}

// An exchange ends in time, whatever the other side does not do.
func TestLimits(t *testing.T) {
	hold := func(s *server) { _, _ = io.Copy(io.Discard, s) }
	slowly := func(step int) func(*server, int) {
		return func(s *server, _ int) {
			for b := make([]byte, step); ; time.Sleep(time.Second) {
				if _, err := io.ReadFull(s, b); err != nil {
					s.say(ok)
					return
				}
			}
		}
	}
	const stalled, tooLong = true, false
	for name, tc := range map[string]struct {
		serve   func(*server, int)
		body    string
		after   time.Duration
		stalled bool
	}{
		"never reads":             {func(*server, int) { time.Sleep(30 * time.Minute) }, large, 15 * time.Second, stalled},
		"never reads a small one": {func(*server, int) { time.Sleep(30 * time.Minute) }, "body", 15 * time.Second, stalled},
		"never answers":           {func(s *server, _ int) { hold(s) }, large, 15 * time.Second, stalled},
		"never answers, small":    {func(s *server, _ int) { hold(s) }, "body", 15 * time.Second, stalled},
		"reads for too long":      {slowly(10_000), large, time.Minute, tooLong},
		"reads a byte a second":   {slowly(1), large, 15 * time.Second, stalled},
		"stops reading": {func(s *server, _ int) {
			time.Sleep(14 * time.Second)
			_, _ = io.CopyN(io.Discard, s, 500_000)
			time.Sleep(time.Hour)
		}, large, 29 * time.Second, stalled},
		"header drips": {func(s *server, _ int) {
			s.request()
			for s.say("HTTP/1.1 200 OK\r\nX: "); ; time.Sleep(time.Second) {
				if _, err := s.Write([]byte("x")); err != nil {
					return
				}
			}
		}, "body", 15 * time.Second, stalled},
		"answers nothing but 1xx": {func(s *server, _ int) {
			s.request()
			for i := 0; i < 1000; i++ {
				s.say("HTTP/1.1 102 Wait\r\n\r\n")
				time.Sleep(time.Second)
			}
		}, "body", 15 * time.Second, stalled},
	} {
		for _, overHTTP := range []bool{false, true} {
			t.Run(fmt.Sprint(name, overHTTP), func(t *testing.T) {
				var post func(context.Context, *Request) (Answer, error)
				inBubble(t, tc.serve, func(t *testing.T, p *Pool, to *peer) {
					if overHTTP {
						web := &http.Transport{DialContext: to.dial}
						defer web.CloseIdleConnections()
						post = HTTP{doer{web}}.Post
					} else {
						post = p.Post
					}
					start := time.Now()
					_, err := post(t.Context(), request(tc.body))
					var slow *SlowError
					if !errors.As(err, &slow) || slow.Stalled != tc.stalled || !slow.Timeout() {
						t.Errorf("%v, want a SlowError, stalled %v", err, tc.stalled)
					}
					if took := time.Since(start); took < tc.after || took > tc.after+2*lastWords {
						t.Errorf("it took %v, want %v", took, tc.after)
					}
				})
			})
		}
	}
}

// A slow reader of a large body has as long as it makes progress.
func TestSlowReader(t *testing.T) {
	inBubble(t, func(s *server, _ int) {
		for b := make([]byte, 20_000); ; time.Sleep(time.Second) {
			if n, err := io.ReadAtLeast(s.r, b, 1); err != nil || bytes.HasSuffix(b[:n], []byte("cdef")) && s.r.Buffered() == 0 && n < len(b) {
				break
			}
		}
		s.say(ok)
	}, func(t *testing.T, p *Pool, _ *peer) {
		r := request(large)
		r.Whole = time.Hour
		start := time.Now()
		wantAnswer(t, p, r, 200)
		if took := time.Since(start); took < time.Minute {
			t.Errorf("it took %v", took)
		}
	})
}

// Connecting counts as well.
func TestLimitOfConnecting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, errors.New("cannot connect")
		}
		p := NewPool(Options{Dial: hang, DialTLS: hang, PerHost: 1, Idle: 1, IdleTimeout: time.Minute})
		start := time.Now()
		_, err := p.Post(t.Context(), request("body"))
		if took := time.Since(start); !errors.As(err, new(*SlowError)) || took != 15*time.Second {
			t.Errorf("%v after %v", err, took)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(io.ErrShortBuffer) })
		if _, err := p.Post(ctx, request("body")); !errors.Is(err, io.ErrShortBuffer) {
			t.Error(err)
		}
		due := func(ctx context.Context, _, _ string) (net.Conn, error) { // as a net.Dialer, which notices the end by itself
			end, _ := ctx.Deadline()
			time.Sleep(time.Until(end))
			return nil, io.ErrNoProgress
		}
		p = NewPool(Options{Dial: due, PerHost: 1, Idle: 1, IdleTimeout: time.Minute})
		for range 100 {
			if _, err := p.Post(t.Context(), request("body")); !errors.As(err, new(*SlowError)) {
				t.Fatal(err)
			}
		}
		refuse := func(context.Context, string, string) (net.Conn, error) { return nil, io.ErrNoProgress }
		p = NewPool(Options{Dial: refuse, PerHost: 1, Idle: 1, IdleTimeout: time.Minute})
		if _, err := p.Post(t.Context(), request("body")); err != io.ErrNoProgress { //nolint:errorlint // the error itself
			t.Error(err)
		}
	})
}

// The end of the context ends the exchange at once, wherever it is, with its cause.
func TestCancel(t *testing.T) {
	for name, serve := range map[string]func(*server, int){
		"before it reads":   func(*server, int) { time.Sleep(time.Minute) },
		"while it reads":    func(s *server, _ int) { _, _ = io.CopyN(io.Discard, s, 100_000); time.Sleep(time.Minute) },
		"before it answers": func(s *server, _ int) { s.request(); time.Sleep(time.Minute) },
		"while it answers":  func(s *server, _ int) { s.request(); s.say("HTTP/1.1 2"); time.Sleep(time.Minute) },
	} {
		for _, body := range []string{"body", large} {
			t.Run(fmt.Sprint(name, len(body)), func(t *testing.T) {
				inBubble(t, serve, func(t *testing.T, p *Pool, _ *peer) {
					cause := errors.New("enough")
					ctx, cancel := context.WithCancelCause(t.Context())
					time.AfterFunc(5*time.Second, func() { cancel(cause) })
					start := time.Now()
					_, err := p.Post(ctx, request(body))
					if took := time.Since(start); !errors.Is(err, cause) || took != 5*time.Second {
						t.Errorf("%v after %v, want the cause after 5 s", err, took)
					}
					if _, err := p.Post(ctx, request(body)); !errors.Is(err, cause) {
						t.Errorf("after that: %v", err)
					}
				})
			})
		}
	}
}

// An answer that comes before the request was read counts, however the other side goes on.
func TestEarlyAnswer(t *testing.T) {
	const early = "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 4\r\n\r\nmany"
	for name, then := range map[string]func(*server){
		"closes":           func(*server) {},
		"reads no more":    func(*server) { time.Sleep(time.Minute) },
		"reads all of it":  func(s *server) { _, _ = io.Copy(io.Discard, s) },
		"reads some of it": func(s *server) { _, _ = io.CopyN(io.Discard, s, 100_000) },
		"reads it, slowly": func(s *server) {
			for {
				if _, err := io.CopyN(io.Discard, s, 1); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *server, _ int) {
				_, _ = io.CopyN(io.Discard, s, 1000)
				s.say(early)
				then(s)
			}, func(t *testing.T, p *Pool, to *peer) {
				start := time.Now()
				if a := wantAnswer(t, p, request(large), 413); string(a.Body) != "many" {
					t.Errorf("body %q", a.Body)
				}
				if took := time.Since(start); took > 2*lastWords || to.open.Load() != 0 {
					t.Errorf("it took %v; %d connections are open", took, to.open.Load())
				}
			})
		})
	}
}

// A small request is written by the goroutine that reads the answer. If it cannot be written, an
// answer that is there counts.
func TestEarlyAnswerToSmallRequest(t *testing.T) {
	inBubble(t, func(s *server, _ int) {
		s.say("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
		time.Sleep(time.Hour)
	}, func(t *testing.T, p *Pool, to *peer) {
		start := time.Now()
		wantAnswer(t, p, request("small"), 413)
		if took := time.Since(start); took > 15*time.Second+lastWords || to.open.Load() != 0 {
			t.Errorf("it took %v; %d connections are open", took, to.open.Load())
		}
	})
}

// The exchange ends Request.Rest after the header of the answer, whether the answer has an end or
// the request was read.
func TestRest(t *testing.T) {
	drip := func(s *server) {
		for s.say("HTTP/1.1 404 No\r\n\r\n"); ; time.Sleep(300 * time.Millisecond) {
			if _, err := s.Write([]byte("x")); err != nil {
				return
			}
		}
	}
	for name, serve := range map[string]func(*server, int){
		"after the request": func(s *server, _ int) { s.request(); drip(s) },
		"within the request": func(s *server, _ int) {
			go func() {
				for b := make([]byte, chunk); ; time.Sleep(100 * time.Millisecond) {
					if _, err := io.ReadFull(s, b); err != nil {
						return
					}
				}
			}()
			drip(s)
		},
	} {
		for _, body := range []string{"small", large + large} {
			inBubble(t, serve, func(t *testing.T, p *Pool, _ *peer) {
				start := time.Now()
				a := wantAnswer(t, p, request(body), 404)
				if took := time.Since(start); took < 900*time.Millisecond || took > time.Second || len(a.Body) < 3 {
					t.Errorf("%s: %q after %v", name, a.Body, took)
				}
			})
		}
	}
}

// One that is kept alive is used again only if the whole request was read within a moment.
func TestEarlyAnswerAndKeepAlive(t *testing.T) {
	for _, reads := range []bool{true, false} {
		inBubble(t, func(s *server, _ int) {
			_, _ = io.CopyN(io.Discard, s, 1000)
			s.say(ok)
			if reads {
				_, _ = io.Copy(io.Discard, s)
			}
			time.Sleep(time.Minute)
		}, func(t *testing.T, p *Pool, to *peer) {
			wantAnswer(t, p, request(large), 200)
			if kept := to.open.Load() == 1; kept != reads {
				t.Errorf("read %v, kept %v", reads, kept)
			}
		})
	}
}

// On real connections: a server that answers a large body early, and resets the connection.
func TestEarlyAnswerAndReset(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // a listener of the test
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.CopyN(io.Discard, c, 1000)
			_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
			_ = c.Close() // there is unread data, so this is a reset
		}
	}()
	var d net.Dialer
	p := NewPool(Options{Dial: d.DialContext, PerHost: 2, Idle: 2, IdleTimeout: time.Minute})
	defer p.CloseIdleConnections()
	r := request(strings.Repeat(large, 8))
	r.URL = "http://" + l.Addr().String()
	for range 50 {
		wantAnswer(t, p, r, 413)
	}
}

// The beginning of the body of an answer that is not 2xx, and its Retry-After.
func TestAnswer(t *testing.T) {
	for answer, want := range map[string]Answer{
		"HTTP/1.1 503 Busy\r\nRetry-After: 5\r\nretry-after: 7\r\nContent-Length: 5\r\n\r\nhello": {503, "5", []byte("hello")},
		"HTTP/1.1 503 Busy\r\nRETRY-AFTER:  a\r\n\tb \r\nContent-Length: 5\r\n\r\nhello":          {503, "a b", []byte("hello")},
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello":                                       {200, "", nil},
		"HTTP/1.1 404 No\r\n\r\nuntil the end":                                                    {404, "", []byte("until the end")},
		"HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n":   {404, "", []byte("abcde")},
		"HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\nde\r\n0\r\n\r\n":  {404, "", []byte("abc")},
		"HTTP/1.1 404 No\r\nContent-Length: 100\r\n\r\nshort":                                     {404, "", []byte("short")},
		"HTTP/1.1 404 No\r\nContent-Length: 5000\r\n\r\n" + strings.Repeat("x", 5000):             {404, "", []byte(strings.Repeat("x", 1024))},
	} {
		inBubble(t, func(s *server, _ int) { s.request(); s.say("%s", answer) }, func(t *testing.T, p *Pool, _ *peer) {
			a, err := p.Post(t.Context(), request("body"))
			if err != nil || a.Status != want.Status || a.RetryAfter != want.RetryAfter || !bytes.Equal(a.Body, want.Body) {
				t.Errorf("%.60q: %+v, %v", answer, a, err)
			}
		})
	}
}

// A header has 64 KiB at most, and a few bytes at a time are as good as all at once.
func TestHeaderIsBounded(t *testing.T) {
	head := func(n int) string {
		const rest = "HTTP/1.1 200 OK\r\nX: \r\nContent-Length: 0\r\n\r\n"
		return strings.Replace(rest, "X: ", "X: "+strings.Repeat("x", n-len(rest)), 1)
	}
	const hint = "HTTP/1.1 103 Hint\r\n\r\n"
	for _, tc := range []struct {
		answer string
		want   bool
	}{
		{head(maxHead), true},
		{head(maxHead + 1), false},
		{strings.Repeat(hint, 100) + head(maxHead-100*len(hint)), true},
		{strings.Repeat(hint, 100) + head(maxHead-100*len(hint)+1), false},
		{strings.Repeat(hint, 10_000) + ok, false},
	} {
		for _, step := range []int{7, 1000, 1 << 20} {
			inBubble(t, func(s *server, _ int) {
				s.request()
				for rest := tc.answer; rest != ""; {
					n := min(step, len(rest))
					s.say("%s", rest[:n])
					rest = rest[n:]
				}
			}, func(t *testing.T, p *Pool, _ *peer) {
				if a, err := p.Post(t.Context(), request("body")); (err == nil && a.Status == 200) != tc.want {
					t.Errorf("%d bytes: %d, %v, want an answer: %v", len(tc.answer), a.Status, err, tc.want)
				}
			})
		}
	}
}

// With TLS: connections are kept, large bodies arrive, and what comes behind an answer ends the
// connection.
func TestTLS(t *testing.T) {
	extra := ""
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		w.Header().Set("X-Size", fmt.Sprint(n))
		if n != r.ContentLength {
			w.WriteHeader(400)
		}
		if extra != "" {
			c, _, _ := http.NewResponseController(w).Hijack()
			_, _ = io.WriteString(c, ok+extra)
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}
	}))
	defer s.Close()
	dials := 0
	d := tls.Dialer{Config: s.Client().Transport.(*http.Transport).TLSClientConfig} //nolint:errcheck // it is one
	p := NewPool(Options{DialTLS: func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials++
		return d.DialContext(ctx, network, addr)
	}, PerHost: 2, Idle: 2, IdleTimeout: time.Minute})
	defer p.CloseIdleConnections()
	for _, body := range []string{"", "small", strings.Repeat("x", copied), large, "small"} {
		r := request(body)
		r.URL = s.URL
		wantAnswer(t, p, r, 200)
	}
	if dials != 1 {
		t.Errorf("%d connections, want 1", dials)
	}
	extra = ok
	for range 2 {
		r := request("small")
		r.URL = s.URL
		wantAnswer(t, p, r, 200)
	}
	if dials != 2 {
		t.Errorf("%d connections, want 2: one has an answer too many", dials)
	}
}

// What comes behind an answer in a record of its own ends the connection as well. It may wait in a
// buffer of TLS, where nobody sees it.
func TestUnsolicitedRecord(t *testing.T) {
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	defer s.Close()
	certificate, roots := s.TLS.Certificates, s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs //nolint:errcheck // it is one
	for _, extra := range []bool{false, true} {
		to := &peer{serve: func(s *server, _ int) {
			cork := &corked{Conn: s.Conn}
			c := tls.Server(cork, &tls.Config{Certificates: certificate})
			s.r.Reset(c)
			for {
				if _, more := s.request(); !more {
					return
				}
				cork.held = new(bytes.Buffer)
				_, _ = io.WriteString(c, ok)
				if extra {
					_, _ = io.WriteString(c, ok)
				}
				_, _ = s.Write(cork.held.Bytes())
				cork.held = nil
			}
		}}
		p := to.pool()
		p.o.DialTLS = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, _ := to.dial(ctx, network, addr)
			return tls.Client(c, &tls.Config{RootCAs: roots, ServerName: "example.com"}), nil
		}
		r := request("body")
		r.URL = "https://example.com/"
		for range 3 {
			wantAnswer(t, p, r, 200)
		}
		want := int32(1)
		if extra {
			want = 3
		}
		if n := to.dials.Load(); n != want {
			t.Errorf("%d connections for three requests, want %d", n, want)
		}
		p.CloseIdleConnections()
	}
}

// corked holds what is written.
type corked struct {
	net.Conn
	held *bytes.Buffer
}

func (c *corked) Write(b []byte) (int, error) {
	if c.held != nil {
		return c.held.Write(b)
	}
	return c.Conn.Write(b)
}
