package examine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/web"
)

// Errors that say why something could not be read. Those of CheckDocument and
// CheckSource may wrap one of them.
var (
	// ErrAddress: it is not the URL of a web server.
	ErrAddress = errors.New("no http or https URL")
	// ErrNotFound: the server answers, but has nothing of ResourceSync there; or there is
	// no such file.
	ErrNotFound = errors.New("not found")
	// ErrRefused: the server requires credentials, or its address is not called.
	ErrRefused = errors.New("refused")
	// ErrUnreachable: there is no answer.
	ErrUnreachable = errors.New("unreachable")

	errRedirect = errors.New("redirects that lead nowhere")
	errStatus   = errors.New("a status that is no success")
)

// failure is an error of one of these kinds. Its text is that of err alone.
type failure struct{ kind, err error }

func (f *failure) Error() string   { return f.err.Error() }
func (f *failure) Unwrap() []error { return []error{f.kind, f.err} }

func failed(kind error, format string, args ...any) error {
	return &failure{kind, fmt.Errorf(format, args...)}
}

// maxWait is the longest Retry-After that is obeyed.
const maxWait = 30 * time.Second

// answer is what a URL answered, after redirects.
type answer struct {
	url    string // the last one
	status int
	text   string // the status in words
	header http.Header
	body   io.ReadCloser
}

func (a *answer) close() { _ = a.body.Close() } // only read

// get requests a URL and follows redirects. Header has names and values. The error
// wraps one of the errors above; a status that is no success is not an error.
func (x *examination) get(ctx context.Context, method, where string, header ...string) (*answer, error) {
	if err := askable(where); err != nil {
		return nil, failed(ErrAddress, "%q is %w", where, err)
	}
	r := web.Request{Method: method, URL: where, Allow: askable, Header: http.Header{
		"Accept":          {"application/xml, text/xml, */*;q=0.1"},
		"Accept-Encoding": {"identity"},
	}}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	a, err := web.Ask(ctx, web.DoerFunc(x.ask), r)
	var redirect *web.RedirectError
	var none *web.UnansweredError
	switch {
	case err == nil:
		return &answer{a.URL, a.StatusCode, a.Status, a.Header, a.Body}, nil
	case errors.As(err, &redirect):
		return nil, failed(errRedirect, "%w", err)
	case errors.As(err, &none) && egress.Classify(err) == egress.FailureRefused:
		more := ""
		if egress.DevWouldAllow(err) {
			more = "; " + egress.DevHint
		}
		return nil, failed(ErrRefused, "%s is not requested: %w%s", none.URL, none.Err, more)
	case errors.As(err, &none):
		return nil, failed(ErrUnreachable, "%s can't be reached: %w", none.URL, none.Err)
	}
	return nil, failed(ErrAddress, "%w", err)
}

// askable returns an error if where is not the URL of a web server.
func askable(where string) error {
	if u, err := url.Parse(where); err != nil || !IsWeb(u) {
		return ErrAddress
	}
	return nil
}

// ask sends one request when the pause of its host is over, and repeats it once if the
// server says when.
func (x *examination) ask(req *http.Request) (*http.Response, error) {
	host := egress.HostPort(req.URL)
	for again := true; ; again = false {
		if err := x.wait(req.Context(), host); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(req.Context(), x.o.Timeout)
		resp, err := x.o.Client.Do(req.WithContext(ctx))
		if err != nil {
			cancel()
			return nil, err
		}
		resp.Body = limited{resp.Body, cancel}
		after, asks := retryAfter(resp.StatusCode, resp.Header)
		if !asks || !again {
			return resp, nil
		}
		_ = resp.Body.Close()
		x.asked[host] = time.Now().Add(after)
	}
}

// limited is a body that may be read until its context ends.
type limited struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (l limited) Close() error {
	defer l.cancel()
	return l.ReadCloser.Close()
}

// wait waits until the pause of a host is over, and begins the next one.
func (x *examination) wait(ctx context.Context, host string) error {
	if d := time.Until(x.asked[host]); d > 0 && !clock.Sleep(ctx, d) {
		return ctx.Err()
	}
	x.asked[host] = time.Now().Add(x.o.Pause)
	return nil
}

// retryAfter reports whether a server asks for a later request, and not later than a
// person at a terminal waits.
func retryAfter(status int, header http.Header) (time.Duration, bool) {
	if status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable {
		return 0, false
	}
	after, asks := web.ParseRetryAfter(header, time.Now(), 24*time.Hour)
	return after, asks && after <= maxWait
}

// refusal returns the error for a status other than 200. Name is the URL before
// redirects.
func (a *answer) refusal(name string) error {
	switch {
	case a.status == http.StatusOK:
		return nil
	case a.status == http.StatusNotFound, a.status == http.StatusGone:
		return failed(ErrNotFound, "%s is not there: its server answers %s", name, a.text)
	case a.status == http.StatusUnauthorized, a.status == http.StatusForbidden:
		return failed(ErrRefused, "%s is refused: its server answers %s", name, a.text)
	case a.status == http.StatusTooManyRequests, a.status >= 500:
		return failed(ErrUnreachable, "%s is not available now: its server answers %s", name, a.text)
	}
	return failed(errStatus, "%s can't be fetched: its server answers %s", name, a.text)
}

// IsWeb reports whether a URL can be requested from a web server.
func IsWeb(u *url.URL) bool {
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	return (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && (u.Port() == "" || err == nil && port > 0)
}
