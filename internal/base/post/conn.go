package post

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

const (
	// oneWrite is the longest body, in bytes, that the goroutine that reads the answer writes
	// itself. The kernels hold as much, so an answer that comes before the body was read is
	// seen. A longer body is written by another goroutine, chunk by chunk. Each that is
	// written is progress.
	oneWrite = 16 << 10
	chunk    = 64 << 10
	// copied is the longest request that is written from one buffer, and the size of a reader's
	// buffer.
	copied = 8 << 10
	// lastWords is how long after a request could not be written its answer is waited for,
	// and after an answer that came early the end of the writing.
	lastWords = 50 * time.Millisecond
)

// conn is a connection. One goroutine at a time uses it; while it is idle, the pool's.
type conn struct {
	net.Conn          // with TLS, if there is any
	raw      net.Conn // without
	tls      *tls.Conn
	abort    func() // closes it, from any goroutine
	in       reader // of the exchange
	line     *line  // of raw; nil: there is no descriptor
	used     bool   // for an exchange before this one
	place    int    // in its Scope, while it is in use

	target target
	origin *origin // where it is kept while it is idle, or was the last time
	idle   bool
	since  time.Time
	older  *conn
	newer  *conn
}

func newConn(nc net.Conn, t target) *conn {
	c := &conn{Conn: nc, raw: nc, target: t}
	if secure, ok := nc.(*tls.Conn); ok {
		c.tls, c.raw = secure, secure.NetConn()
	}
	c.abort = func() { _ = c.raw.Close() }
	c.line = newLine(c.raw)
	return c
}

// retire closes an idle connection as its protocol says, without waiting for the other side.
func (c *conn) retire() {
	if c.tls != nil {
		go func() { _ = c.tls.Close() }() // waits up to 5 s to say that it ends
		return
	}
	_ = c.raw.Close()
}

// limits are the time limits of one exchange.
type limits struct {
	began        time.Time
	stall, whole time.Duration
}

// after is when an exchange has to end that makes no progress after an instant.
func (l limits) after(progress time.Time) time.Time {
	end, stalled := l.began.Add(l.whole), progress.Add(l.stall)
	if stalled.Before(end) {
		return stalled
	}
	return end
}

func (l limits) slow() error {
	if time.Since(l.began) >= l.whole {
		return &SlowError{After: l.whole}
	}
	return &SlowError{After: l.stall, Stalled: true}
}

// buffers are of copied bytes.
var buffers = sync.Pool{New: func() any { b := make([]byte, copied); return &b }}

// staleError is the error of a request on a connection that was used before, which failed before
// anything of an answer came.
type staleError struct{ error }

func (e staleError) Unwrap() error { return e.error }

// errGone says that a connection was closed while it was idle, or that something came over it which
// nobody asked for. Nothing was sent.
var errGone = errors.New("the connection was closed while it was idle")

// exchange makes a request. Reuse: the connection can be used again. Else it is closed. A request
// that failed before anything came is a staleError, of errGone if nothing was sent.
func (c *conn) exchange(ctx context.Context, r *Request, l limits) (a Answer, reuse bool, err error) {
	buf := buffers.Get().(*[]byte) //nolint:errcheck // it contains nothing else
	defer buffers.Put(buf)
	in := &c.in
	*in = reader{conn: c, buf: *buf}
	defer func() { in.buf = nil }()
	stop := func() bool { return true }
	scope, _ := ctx.(*Scope)
	switch {
	case scope != nil:
		scope.begin(c)
	case ctx.Done() != nil:
		stop = context.AfterFunc(ctx, c.abort)
	}
	h, s, err := c.askAndHear(r, l, in)
	if err == nil {
		a.Status, a.RetryAfter = h.status, h.retryAfter
		keep := 0
		if !success(h.status) {
			keep = r.Keep
		}
		if !h.bodyless() && (h.chunked || !h.hasLength || h.length > int64(in.buffered())) {
			s.answered(c, l, r.Rest)
		}
		a.Body, reuse = in.drain(&h, r.Read, keep)
		reuse = reuse && h.mayReuse() && s.finished() && c.silent()
	}
	if !stop() || scope != nil && !scope.end(c) {
		reuse = false
	}
	c.used = true
	failure := s.failure() // closing the connection makes one
	if !reuse {
		c.abort()
		s.wait()
	}
	switch {
	case err == nil:
		return a, reuse, nil
	case ctx.Err() != nil:
		return a, false, context.Cause(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded) && failure != nil:
		err = failure
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return a, false, l.slow()
	case !in.got:
		return a, false, staleError{err}
	}
	return a, false, err
}

// askAndHear writes the request and reads the header of the answer.
func (c *conn) askAndHear(r *Request, l limits, in *reader) (h head, s *sending, err error) {
	out := r.appendHead(in.buf[:0], c.target)
	inOne := c.used && c.line != nil && c.tls == nil && len(out)+len(r.Body) <= copied
	switch {
	case inOne:
		err = c.ask(append(out, r.Body...), in)
	case c.used && !c.alive():
		err = errGone
	case len(r.Body) > oneWrite:
		s = c.send(append([]byte(nil), out...), r.Body, l)
	default:
		err = c.write(out, r.Body)
	}
	if errors.Is(err, errGone) {
		return h, s, err
	}
	if err != nil {
		// The other side may have answered before it closed the connection, or before it
		// stopped reading.
		_ = c.SetReadDeadline(time.Now().Add(lastWords))
		if h, herr := in.readHead(); herr == nil {
			h.close = true
			return h, s, nil
		}
		return h, s, err
	}
	h, err = in.readHead()
	return h, s, err
}

// alive reports whether the connection is open and nothing can be read from it, as far as that can be
// told. If something can, it is lost.
func (c *conn) alive() bool { return c.line == nil || c.line.alive() }

// ask is line.ask, followed by what it leaves to Write.
func (c *conn) ask(out []byte, in *reader) error {
	wrote, read, err := c.line.ask(out, in.buf)
	in.w, in.got = read, read > 0
	if err == nil && wrote < len(out) {
		_, err = c.Write(out[wrote:])
	}
	return err
}

// write writes a header and a body.
func (c *conn) write(head, body []byte) (err error) {
	switch {
	case len(head)+len(body) <= copied:
		_, err = c.Write(append(head, body...))
	case c.tls == nil:
		both := net.Buffers{head, body}
		_, err = both.WriteTo(c.Conn)
	default:
		if _, err = c.Write(head); err == nil {
			_, err = c.Write(body)
		}
	}
	return err
}

// silent reports whether nothing came after an answer that is not in the reader's buffer, but
// in that of TLS.
func (c *conn) silent() bool {
	if c.tls == nil {
		return true
	}
	_ = c.SetReadDeadline(time.Unix(1, 0))
	var b [1]byte
	n, err := c.tls.Read(b[:])
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
}

// sending is a goroutine that writes a request. Nil: there is none.
type sending struct {
	done chan struct{} // closed at its end
	err  error         // written before that

	mu    sync.Mutex
	heard bool // the header of the answer is there, and no progress counts any more
}

// send starts to write a request.
func (c *conn) send(head, body []byte, l limits) *sending {
	s := &sending{done: make(chan struct{})}
	go func() {
		defer close(s.done)
		n := min(len(body), chunk-len(head)%chunk)
		s.err = c.write(head, body[:n])
		for rest := body[n:]; s.err == nil && len(rest) > 0; rest = rest[n:] {
			s.progress(c, l.after(time.Now()))
			n = min(len(rest), chunk)
			_, s.err = c.Write(rest[:n])
		}
		end := l.after(time.Now())
		if s.err != nil {
			end = time.Now().Add(lastWords)
		}
		s.progress(c, end)
	}()
	return s
}

// progress lets the exchange go on until an instant.
func (s *sending) progress(c *conn, end time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.heard {
		_ = c.SetDeadline(end)
	}
}

// answered lets the exchange go on for no longer than rest.
func (s *sending) answered(c *conn, l limits, rest time.Duration) {
	if s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.heard = true
	}
	now := time.Now()
	end := now.Add(min(rest, l.stall))
	if whole := l.began.Add(l.whole); whole.Before(end) {
		end = whole
	}
	_ = c.SetDeadline(end)
}

// finished waits a moment for the end, and reports whether the whole request was written.
func (s *sending) finished() bool {
	if s == nil {
		return true
	}
	select {
	case <-s.done:
		return s.err == nil
	default:
	}
	timer := time.NewTimer(lastWords)
	defer timer.Stop()
	select {
	case <-s.done:
		return s.err == nil
	case <-timer.C:
		return false
	}
}

// wait waits for the end, once the connection is closed.
func (s *sending) wait() {
	if s != nil {
		<-s.done
	}
}

// failure is why the request was not written, if that is known.
func (s *sending) failure() error {
	if s == nil {
		return nil
	}
	select {
	case <-s.done:
		if !errors.Is(s.err, os.ErrDeadlineExceeded) {
			return s.err
		}
	default:
	}
	return nil
}
