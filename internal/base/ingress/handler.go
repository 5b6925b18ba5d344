package ingress

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"github.com/google/uuid"
)

const (
	// HeaderRequestID names a request, in its answer and in the log.
	HeaderRequestID = "X-Request-Id"
	// maxRequestID is how long one may be that a client names.
	maxRequestID = 64
	// answerTime is how long the client may take to read each piece of an
	// answer.
	answerTime = 30 * time.Second
)

// ingress is what every request to a listener goes through first: it gets its
// name, its answer gets a time limit, and a handler that panics an answer.
type ingress struct {
	listener string // for the log
	next     http.Handler
	broken   http.HandlerFunc // answers where next did not
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
			panic(http.ErrAbortHandler) // half an answer is told from a whole one by its end
		}
		clear(w.Header())
		out.begin(r, id)
		i.broken(out, r)
	}()
	i.next.ServeHTTP(out, r)
	out.limit() // an answer that is short is not sent before the handler's end
}

// requestID is the name that a client gave its request, if it is one that can
// stand anywhere, else a new one.
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
	http.ResponseWriter
	ctl   *http.ResponseController
	begun bool
}

// begin is for a request whose answer has not begun. It closes the connection where a
// proxy in front may have seen the request end elsewhere (RFC 9112, 6.1): after a
// chunked body, since net/http does not tell whether there was a Content-Length
// beside, and after HTTP/1.0, where net/http drops Transfer-Encoding and would read
// the chunks as the next request.
func (a *answer) begin(r *http.Request, id string) {
	a.Header().Set(HeaderRequestID, id)
	if len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1) {
		a.Header().Set("Connection", "close")
	}
}

// limit gives the next piece its time. Net/http takes the limit back between
// requests; where there is no connection there is none.
func (a *answer) limit() { _ = a.ctl.SetWriteDeadline(time.Now().Add(answerTime)) }

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

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// causeOf says of a panic what can hold nothing of a request: the runtime's own
// words, and of any other value its type.
func causeOf(cause any) string {
	if err, ok := cause.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("%T", cause)
}

// stack is the functions that led to a panic and their places, without what they
// were given.
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
