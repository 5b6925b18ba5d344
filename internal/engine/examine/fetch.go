package examine

import (
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/rshub/rshub/internal/base/egress"
)

const maxRedirects = 5

// answer is what a URL answered, after redirects.
type answer struct {
	url    string // the last one
	status int
	header http.Header
	body   io.ReadCloser
	cancel context.CancelFunc
}

func (a *answer) close() {
	_ = a.body.Close() // only read
	a.cancel()
}

// media is the media type without parameters; empty where there is none.
func (a *answer) media() string {
	m, _, _ := mime.ParseMediaType(a.header.Get("Content-Type")) // what can't be read is none
	return m
}

// packed reports whether HTTP or the name says that the body is compressed.
func (a *answer) packed() bool {
	encoding := strings.ToLower(strings.TrimSpace(a.header.Get("Content-Encoding")))
	media := a.media()
	u, err := url.Parse(a.url)
	return encoding == "gzip" || encoding == "x-gzip" || media == "application/gzip" || media == "application/x-gzip" ||
		err == nil && strings.HasSuffix(strings.ToLower(u.Path), ".gz")
}

// get asks for a URL as it is, and follows redirects. The error wraps ErrRefused or
// ErrUnreachable. Headers are names and values.
func (x *examination) get(ctx context.Context, method, where string, header ...string) (*answer, error) {
	for range maxRedirects + 1 {
		a, err := x.ask(ctx, method, where, header)
		if err != nil {
			return nil, err
		}
		if a.status/100 != 3 || a.status == http.StatusNotModified {
			return a, nil
		}
		a.close()
		base, err := url.Parse(where)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
		}
		next, err := base.Parse(a.header.Get("Location"))
		if err != nil || next.Scheme != "http" && next.Scheme != "https" {
			return nil, fmt.Errorf("%w: it redirects to %q", ErrUnreachable, a.header.Get("Location"))
		}
		where = next.String()
	}
	return nil, fmt.Errorf("%w: it redirects more than %d times", ErrUnreachable, maxRedirects)
}

func (x *examination) ask(ctx context.Context, method, where string, header []string) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, x.o.Timeout)
	req, err := http.NewRequestWithContext(ctx, method, where, http.NoBody)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, egress.WithoutURL(err))
	}
	req.Header.Set("Accept-Encoding", "identity")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := x.o.Client.Do(req) //nolint:bodyclose // who gets the answer closes it
	if err != nil {
		cancel()
		if egress.Classify(err) == egress.FailureRefused {
			return nil, fmt.Errorf("%w: %w", ErrRefused, err)
		}
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return &answer{url: where, status: resp.StatusCode, header: resp.Header, body: resp.Body, cancel: cancel}, nil
}

// text is the status in words.
func (a *answer) text() string { return fmt.Sprintf("%d %s", a.status, http.StatusText(a.status)) }

// refusal says what an answer means that is not 200.
func (a *answer) refusal() error {
	why := ErrNoSource
	switch {
	case a.status == http.StatusOK:
		return nil
	case a.status == http.StatusUnauthorized, a.status == http.StatusForbidden:
		why = ErrRefused
	case a.status == http.StatusTooManyRequests, a.status >= 500:
		why = ErrUnreachable
	}
	return fmt.Errorf("%w: %s answers %s", why, a.url, a.text())
}
