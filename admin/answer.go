package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"go.uber.org/zap"
)

// problem is an error that says what to answer.
type problem struct {
	status     int
	detail     string
	retryAfter int // seconds; 0: no Retry-After
}

func (p *problem) Error() string { return p.detail }

func refuse(status int, format string, args ...any) *problem {
	return &problem{status: status, detail: fmt.Sprintf(format, args...)}
}

func notFound(format string, args ...any) *problem {
	return refuse(http.StatusNotFound, format, args...)
}

func badRequest(format string, args ...any) *problem {
	return refuse(http.StatusBadRequest, format, args...)
}

// problemOf returns the problem for err. An error that is no problem is the store's.
func problemOf(err error) *problem {
	var p *problem
	if !errors.As(err, &p) {
		p = refuse(http.StatusServiceUnavailable, "The store did not answer: %v. Try again; /readyz may say more.", err)
		p.retryAfter = 5
	}
	return p
}

// brokenOff is the error of the store after which half of an answer was sent.
type brokenOff struct{ error }

func (b *brokenOff) Unwrap() error { return b.error }

// fail answers a call that only reads with the problem for err. If half of another answer was sent, it closes the
// connection, because that must not look like a whole one.
func (a *Options) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	switch {
	case p.status != http.StatusServiceUnavailable:
	case r.Context().Err() != nil: // a client that closed only its sending side reads the answer
		p = refuse(http.StatusServiceUnavailable, "The client closed its side of the connection before the answer was ready. Keep it open until then.")
	default:
		a.Log.Warn("a request could not be answered", zap.String("event", "admin_failed"), zap.String("path", r.URL.Path), requestID(w), zap.Error(err))
	}
	if half := (*brokenOff)(nil); errors.As(err, &half) {
		panic(http.ErrAbortHandler)
	}
	writeProblem(w, p)
}

// writeRefusal answers a request that was refused before its handler ran. A browser gets the sentence
// as plain text.
func writeRefusal(w http.ResponseWriter, r *http.Request, p *problem) {
	if !isPage(r) {
		writeProblem(w, p)
		return
	}
	setRetryAfter(w, p)
	http.Error(w, p.detail, p.status)
}

func setRetryAfter(w http.ResponseWriter, p *problem) {
	if p.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.retryAfter))
	}
}

func writeProblem(w http.ResponseWriter, p *problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	setRetryAfter(w, p)
	w.WriteHeader(p.status)
	_ = newEncoder(w).Encode(Problem{Type: "about:blank", Title: http.StatusText(p.status), Status: p.status, Detail: p.detail}) // the reader has gone
}

func writeJSON(w http.ResponseWriter, v any) error { return writeAs(w, http.StatusOK, v) }

func writeAs(w http.ResponseWriter, status int, v any) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = newEncoder(w).Encode(v) // our types encode; else the reader has gone
	return nil
}

func newEncoder(w http.ResponseWriter) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false) // URLs stay readable
	return e
}
