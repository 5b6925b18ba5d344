package post

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptrace"
	"testing"
	"testing/synctest"
	"time"
)

// verdict is what a way to send makes of an answer.
type verdict struct {
	answer  Answer
	failed  bool
	timeout bool
	err     error
	kept    bool // the connection
}

// play has a peer answer with some bytes, in two parts, and then hold the connection or close it.
func play(data []byte, split int, hold bool) *peer {
	return &peer{serve: func(s *server, n int) {
		if n > 1 {
			return // nothing may be sent twice
		}
		s.request()
		split = min(split, len(data))
		_, _ = s.Write(data[:split])
		time.Sleep(time.Millisecond)
		_, _ = s.Write(data[split:])
		if hold {
			_, _ = io.Copy(io.Discard, s)
		}
	}}
}

func verdictOf(p *peer, post func(context.Context, *Request) (Answer, error)) (v verdict) {
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{PutIdleConn: func(err error) { v.kept = err == nil }})
	v.answer, v.err = post(ctx, request("body"))
	synctest.Wait()
	v.failed, v.timeout = v.err != nil, errors.As(v.err, new(*SlowError))
	if p.dials.Load() != 1 {
		v.err = errors.New("it was sent twice")
	}
	return v
}

func ofPool(data []byte, split int, hold bool) verdict {
	to := play(data, split, hold)
	p := to.pool()
	v := verdictOf(to, p.Post)
	p.shelves[0].mu.Lock()
	v.kept = p.shelves[0].idle == 1
	p.shelves[0].mu.Unlock()
	p.CloseIdleConnections()
	time.Sleep(time.Minute)
	if to.open.Load() != 0 {
		v.err = errors.New("a connection was left open")
	}
	return v
}

type doer struct{ http.RoundTripper }

func (d doer) Do(r *http.Request) (*http.Response, error) { return d.RoundTrip(r) }

func ofHTTP(data []byte, split int, hold bool) verdict {
	to := play(data, split, hold)
	t := &http.Transport{DialContext: to.dial, MaxResponseHeaderBytes: maxHead, DisableCompression: true}
	v := verdictOf(to, HTTP{doer{t}}.Post)
	t.CloseIdleConnections()
	time.Sleep(time.Minute)
	return v
}

// mayDiffer reports whether an answer is one that the package comment lists: its version or its
// status is not one.
func mayDiffer(err error) bool {
	var m malformedError
	return errors.As(err, &m) && (m == "its status is not a number of three digits" || m == "its version is not HTTP/1.0 or HTTP/1.1")
}

// FuzzAnswers compares a Pool with net/http: the same status, or an error of the same class, with
// the exceptions in the package comment. The Pool keeps no connection that net/http closes.
func FuzzAnswers(f *testing.F) {
	log.SetOutput(io.Discard) // there net/http logs bytes that nobody waits for
	const begin = "HTTP/1.1 200 OK\r\n"
	for _, seed := range []string{
		"", "H", ok, ok + ok, "HTTP/1.0 200 OK\r\n\r\nbody", begin, begin + "\r\n", begin + "\r\nbody",
		begin + "Content-Length: 5\r\n\r\nhello", begin + "Content-Length: 5\r\n\r\nhel", begin + "Content-Length: 5\r\n\r\nhello, world",
		begin + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", begin + "Content-Length: 5\r\nContent-Length: 05\r\n\r\nhello",
		begin + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", begin + "Content-Length: 5, 5\r\n\r\nhello", begin + "Content-Length:\r\n\r\n",
		begin + "Content-Length: +5\r\n\r\nhello", begin + "Content-Length: -1\r\n\r\n", begin + "Content-Length: 0x5\r\n\r\n", begin + "Content-Length: 1_0\r\n\r\n",
		begin + "Content-Length: 9223372036854775807\r\n\r\n", begin + "Content-Length: 9223372036854775808\r\n\r\n", begin + "content-length: 5 \t\r\n\r\nhello",
		begin + "Content-Length : 5\r\n\r\nhello", begin + "Content-Length\t: 5\r\n\r\nhello", begin + " Content-Length: 5\r\n\r\nhello", begin + "X: y\r\n Content-Length: 5\r\n\r\nhello",
		begin + "Content-Length: 5\r\n 5\r\n\r\nhello", begin + "Content-Length:\r\n 5\r\n\r\nhello", begin + "X: a\r\n\tb\r\n \r\n c\r\n\r\n", begin + ": x\r\n\r\n", begin + "x\r\n\r\n",
		begin + "Content-Length: 5\r\n \r\n\r\nhello", begin + "Content-Length: 5\r\n \r\nContent-Length: 5\r\n\r\nhello", begin + "Transfer-Encoding: chunked\r\n\t\r\n\r\n0\r\n\r\n",
		"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n \r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 503 Busy\r\nRetry-After: 1\r\n \r\nContent-Length: 0\r\n\r\n",
		begin + "X\x00: y\r\n\r\n", begin + "X: \x00\r\n\r\n", begin + "X: a\rb\r\n\r\n", begin + "X: y\r\r\n\r\n", begin + "X: \x80\xff\r\n\r\n", begin + "X\xe4: y\r\n\r\n", begin + "X: \x7f\r\n\r\n",
		"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", "HTTP/1.1 200\r\n\r\n", "HTTP/1.1 200 \r\n\r\n", "HTTP/1.1  200 OK\r\n\r\n", "HTTP/1.1\t200 OK\r\n\r\n", "HTTP/1.1 200OK\r\n\r\n",
		"HTTP/1.1 2000 OK\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 +20 OK\r\n\r\n", "HTTP/1.1 -20 OK\r\n\r\n", "HTTP/1.1 000 OK\r\n\r\n", "HTTP/1.1 099 OK\r\n\r\n", "HTTP/1.1 999 OK\r\n\r\n",
		"HTTP/2.0 200 OK\r\n\r\n", "HTTP/0.9 200 OK\r\n\r\n", "HTTP/1.9 200 OK\r\n\r\n", "http/1.1 200 OK\r\n\r\n", "HTTP/11 200 OK\r\n\r\n", "HTTP/1.10 200 OK\r\n\r\n", "\r\n" + ok, " " + ok,
		"HTTP/1.1 100 Continue\r\n\r\n" + ok, "HTTP/1.1 100 Continue\r\nContent-Length: 3\r\n\r\n" + ok, "HTTP/1.1 103 Hint\r\nContent-Length: x\r\n\r\n" + ok, "HTTP/1.1 101 Switch\r\n\r\n" + ok,
		"HTTP/1.1 102 Wait\r\nTransfer-Encoding: x\r\n\r\n" + ok, "HTTP/1.1 199 Wait\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\nhello", "HTTP/1.1 204 No\r\nContent-Length: x\r\n\r\n",
		"HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "HTTP/1.1 304 No\r\nTransfer-Encoding: chunked\r\n\r\n",
		begin + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", begin + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		begin + "Transfer-Encoding: chunked\r\nContent-Length: x\r\n\r\n0\r\n\r\n", begin + "Transfer-Encoding: identity\r\n\r\nx", begin + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		begin + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", begin + "Transfer-Encoding: CHUNKED \r\n\r\n0\r\n\r\n", begin + "Transfer-Encoding:\r\n\r\nx", begin + "Transfer-Encoding: \x0bchunked\r\n\r\nx",
		"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: x\r\nContent-Length: 0\r\n\r\n",
		begin + "Trailer: X\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\n", begin + "Trailer: content-length\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", begin + "Trailer: Content-Length\r\n\r\n",
		begin + "Trailer: A,, Trailer ,B\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\n0\n\n", "HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n 5 \r\nhello\r\n0;x=\"\r\n\"\r\n\r\n",
		"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\nhello", "HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n0\r\n\r\n", "HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nhello",
		begin + "Connection: close\r\nContent-Length: 0\r\n\r\n", begin + "Connection: x,CLOSE ,y\r\nContent-Length: 0\r\n\r\n", begin + "Connection: closed\r\nContent-Length: 0\r\n\r\n", "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.0 200 OK\r\nConnection: keep-alive, close\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nRetry-After: 2\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 503 Busy\r\nRetry-After:\r\nRetry-After: 2\r\n\r\n",
		"HTTP/1.1 503 Busy\r\nRetry-After : 1\r\nContent-Length: 0\r\n\r\n", "220 mail.example ESMTP\r\n", "SSH-2.0-x\r\n", "<html>", "\x16\x03\x01\x02\x00",
	} {
		f.Add([]byte(seed), uint16(len(seed)/2), true)
		f.Add([]byte(seed), uint16(12), false)
	}
	f.Add(bytes.Repeat([]byte("HTTP/1.1 103 Hint\r\nLink: </a>; rel=b\r\n\r\n"), 2000), uint16(100), true)
	f.Add(append([]byte(begin+"X: "), bytes.Repeat([]byte("z"), 70_000)...), uint16(100), true)
	f.Add(append(bytes.Repeat([]byte("HTTP/1.1 103 Hint\r\n\r\n"), 2000), ok...), uint16(100), false)
	f.Fuzz(func(t *testing.T, data []byte, split uint16, hold bool) {
		if bytes.Count(data, []byte("\n")) > 5000 {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			pool, web := ofPool(data, int(split), hold), ofHTTP(data, int(split), hold)
			complain := func(what string) {
				t.Errorf("%s: %q\n    pool %+v\nnet/http %+v", what, data, pool, web)
			}
			switch {
			case pool.failed && mayDiffer(pool.err):
			case pool.failed != web.failed || pool.timeout != web.timeout || pool.answer.Status != web.answer.Status:
				complain("not the same")
			case pool.answer.RetryAfter != web.answer.RetryAfter || !bytes.HasPrefix(web.answer.Body, pool.answer.Body):
				complain("another answer")
			case pool.kept && !web.kept:
				complain("the pool keeps a connection that net/http closes")
			case !pool.failed && pool.err != nil:
				complain("broken")
			}
		})
	})
}

// The parser of heads alone, which may not panic, read too far, or take forever.
func FuzzHead(f *testing.F) {
	f.Add([]byte(ok), uint8(3))
	f.Add([]byte("HTTP/1.1 200 OK\r\nRetry-After: abc\r\n def\r\n  ghi\r\nX: y\r\n\r\n"), uint8(0))
	f.Add([]byte("HTTP/1.1 200 OK\r\nX: y\r\n z\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"), uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, step uint8) {
		c := &scripted{data: data, step: int(step) + 1}
		r := &reader{conn: c, buf: make([]byte, 64)}
		h, err := r.readHead()
		if err != nil {
			return
		}
		if h.status < 101 || h.status > 999 {
			t.Errorf("status %d", h.status)
		}
		if kept, _ := r.drain(&h, 100, 50); len(kept) > 50 {
			t.Errorf("%d bytes are kept", len(kept))
		}
		if resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(data)), &http.Request{Method: http.MethodPost}); err != nil {
			t.Errorf("net/http refuses what was accepted: %v", err)
		} else {
			_ = resp.Body.Close()
			if was := resp.Header.Get("Retry-After"); h.retryAfter != was && resp.StatusCode == h.status {
				t.Errorf("Retry-After %q, net/http has %q", h.retryAfter, was)
			}
		}
	})
}

// scripted is a connection on which some bytes come, a few at a time.
type scripted struct {
	net.Conn
	data []byte
	step int
	ends bool // with the last byte
}

func (c *scripted) Read(p []byte) (int, error) {
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.step)], c.data)
	if c.data = c.data[n:]; c.ends && len(c.data) == 0 {
		return n, io.EOF
	}
	return n, nil
}
