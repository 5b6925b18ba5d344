package ingress

import (
	"bufio"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"time"

	"github.com/google/uuid"
)

const (
	// HeaderRequestID names a request, in its answer and in the log.
	HeaderRequestID = "X-Request-Id"
	// maxRequestID is how long a client's own may be.
	maxRequestID = 64
	// answerTime is how long the client may take to read each piece of an
	// answer.
	answerTime = 30 * time.Second
)

// ingress is what every request to a listener goes through first. It names the request,
// limits the time of its answer, and answers if the handler panics.
type ingress struct {
	listener string // for the log
	next     http.Handler
	broken   http.HandlerFunc // answers if next panicked
	log      *slog.Logger
}

func (i *ingress) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := requestID(r.Header)
	out := &answer{ResponseWriter: w, ctl: http.NewResponseController(w)}
	out.begin(r, id)
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		if cause == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so
			panic(cause)
		}
		i.log.Error("a handler broke off", slog.String("event", "handler_panic"), slog.String("listener", i.listener),
			slog.String("request_id", id), slog.String("cause", causeOf(cause)), slog.Any("stack", stack()))
		if out.begun {
			panic(http.ErrAbortHandler) // so that the client does not take half an answer for a whole one
		}
		clear(w.Header())
		out.begin(r, id)
		i.broken(out, r)
	}()
	i.next.ServeHTTP(out, r)
	out.limit() // an answer that is short is not sent before the handler's end
}

// requestID is the name that a client gave its request, if it may stand in headers and logs,
// and otherwise a new one.
func requestID(h http.Header) string {
	given := h.Values(HeaderRequestID)
	if len(given) != 1 || given[0] == "" || len(given[0]) > maxRequestID {
		return uuid.NewString()
	}
	for _, c := range []byte(given[0]) {
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '-' && c != '_' && c != '.' {
			return uuid.NewString()
		}
	}
	return given[0]
}

// answer is a ResponseWriter that gives what is written a time limit.
type answer struct {
	paced bool // the handler sets the deadlines of writes
	http.ResponseWriter
	ctl   *http.ResponseController
	begun bool
}

// begin prepares an answer. It closes the connection if a proxy in front may have seen the
// request end elsewhere (RFC 9112, 6.1): after a chunked body, since net/http does not say
// whether there was a Content-Length as well, and after HTTP/1.0, where net/http drops
// Transfer-Encoding and would read the chunks as the next request.
func (a *answer) begin(r *http.Request, id string) {
	a.Header().Set(HeaderRequestID, id)
	if len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1) {
		a.Header().Set("Connection", "close")
	}
}

// limit sets the deadline of the next piece, unless the handler sets it. Net/http resets it between
// requests. A ResponseWriter without a connection has none.
func (a *answer) limit() {
	if !a.paced {
		_ = a.ctl.SetWriteDeadline(time.Now().Add(answerTime))
	}
}

// SetWriteDeadline is for http.ResponseController: from now on the handler sets the deadline of
// each piece.
func (a *answer) SetWriteDeadline(t time.Time) error {
	a.paced = true
	return a.ctl.SetWriteDeadline(t)
}

// WriteHeader and Write do what they do below, in time.
func (a *answer) WriteHeader(status int) {
	a.begun = true
	a.limit()
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(p []byte) (int, error) {
	a.begun = true
	a.limit()
	return a.ResponseWriter.Write(p)
}

// Hijack is for http.ResponseController: from now on the handler answers by itself, and closes the connection.
// It is no longer one of the listener's.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := a.ctl.Hijack()
	a.begun = err == nil
	a.paced = a.begun
	return conn, buffered, err
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// causeOf describes a panic without anything from a request: the runtime's own words, or the
// type of any other value.
func causeOf(cause any) string {
	if err, ok := cause.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("%T", cause)
}

// stack is the functions that led to a panic and their places, without their arguments.
func stack() []string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	var all []string
	for {
		f, more := frames.Next()
		if f.Function != "" {
			all = append(all, fmt.Sprintf("%s:%d", f.Function, f.Line))
		}
		if !more {
			return all
		}
	}
}
