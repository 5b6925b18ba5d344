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

	"github.com/rshub/rshub/internal/base/egress"
)

// Errors that say why something could not be read. Those of CheckDocument and
// CheckSource may wrap one of them.
var (
	// ErrAddress: it is not the URL of a web server.
	ErrAddress = errors.New("no http or https URL")
	// ErrNotFound: the server answers, and has nothing of ResourceSync there; or
	// there is no such file.
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

const (
	maxRedirects = 5
	// maxWait is the longest Retry-After that is waited for.
	maxWait = 30 * time.Second
)

// answer is what a URL answered, after redirects.
type answer struct {
	url    string // the last one
	status int
	text   string // the status in words
	header http.Header
	body   io.ReadCloser
	cancel context.CancelFunc
}

func (a *answer) close() {
	_ = a.body.Close() // only read
	a.cancel()
}

// get requests a URL and follows redirects. Header has names and values. The error
// wraps one of the errors above; a status that is no success is not an error.
func (x *examination) get(ctx context.Context, method, where string, header ...string) (*answer, error) {
	name := where
	for range maxRedirects + 1 {
		a, err := x.ask(ctx, method, where, header)
		if err != nil {
			return nil, err
		}
		location := a.header.Get("Location")
		if a.status/100 != 3 || location == "" {
			return a, nil
		}
		a.close()
		base, _ := url.Parse(where) // ask could read it
		next, err := base.Parse(location)
		if err != nil || !IsWeb(next) {
			return nil, failed(errRedirect, "%s redirects to %q, which is no http or https URL", name, location)
		}
		where = next.String()
	}
	return nil, failed(errRedirect, "%s redirects more than %d times", name, maxRedirects)
}

// ask sends one request, and repeats it once if the server says when.
func (x *examination) ask(ctx context.Context, method, where string, header []string) (*answer, error) {
	u, err := url.Parse(where)
	if err != nil || !IsWeb(u) {
		return nil, failed(ErrAddress, "%q is no http or https URL", where)
	}
	for again := true; ; again = false {
		if err := x.wait(ctx, egress.HostPort(u)); err != nil {
			return nil, failed(ErrUnreachable, "%s: %w", where, err)
		}
		a, err := x.exchange(ctx, method, where, header)
		if err != nil {
			return nil, err
		}
		after, asks := a.retryAfter()
		if !asks || !again {
			return a, nil
		}
		a.close()
		x.asked[egress.HostPort(u)] = time.Now().Add(after)
	}
}

// exchange sends one request.
func (x *examination) exchange(ctx context.Context, method, where string, header []string) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, x.o.Timeout)
	req, err := http.NewRequestWithContext(ctx, method, where, http.NoBody)
	if err != nil {
		cancel()
		return nil, failed(ErrAddress, "%w", egress.WithoutURL(err))
	}
	req.Header.Set("Accept", "application/xml, text/xml, */*;q=0.1")
	req.Header.Set("Accept-Encoding", "identity")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := x.o.Client.Do(req) //nolint:bodyclose // the caller closes the answer
	switch {
	case err == nil:
		return &answer{where, resp.StatusCode, resp.Status, resp.Header, resp.Body, cancel}, nil
	case egress.Classify(err) == egress.FailureRefused:
		cancel()
		return nil, failed(ErrRefused, "%s is not called: %w; --dev allows loopback and private addresses", where, err)
	}
	cancel()
	return nil, failed(ErrUnreachable, "%s can't be reached: %w", where, err)
}

// wait waits until a host may be asked, and sets when it may be asked again.
func (x *examination) wait(ctx context.Context, host string) error {
	if d := time.Until(x.asked[host]); d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	x.asked[host] = time.Now().Add(x.o.Pause)
	return nil
}

// retryAfter reports whether a server asks for a later request, within bounds.
func (a *answer) retryAfter() (time.Duration, bool) {
	if a.status != http.StatusTooManyRequests && a.status != http.StatusServiceUnavailable {
		return 0, false
	}
	seconds, err := strconv.ParseUint(a.header.Get("Retry-After"), 10, 16)
	after := time.Duration(seconds) * time.Second
	return after, err == nil && after <= maxWait
}

// refusal says what a status other than 200 means. Name is the URL before redirects.
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
