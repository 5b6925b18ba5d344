package post

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Doer sends one request of net/http, and follows no redirect. It may be shared between goroutines.
type Doer interface {
	Do(*http.Request) (*http.Response, error)
}

// HTTP makes requests with a client of net/http. Unlike a Pool it sends to any URL that net/http
// knows, and a request that ends early may still use its body for a moment.
type HTTP struct{ Doer }

// Post makes a request, as Pool.Post does.
func (c HTTP) Post(ctx context.Context, r *Request) (Answer, error) {
	if err := r.check(); err != nil {
		return Answer{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := newWatch(cancel, r.Stall, r.Whole)
	defer w.stop()
	a, err := c.post(ctx, w, r)
	if err != nil {
		// The cause of a cut-off says more than the error that followed from it.
		if slow := (*SlowError)(nil); errors.As(context.Cause(ctx), &slow) {
			err = slow
		}
	}
	return a, err
}

func (c HTTP) post(ctx context.Context, w *watch, r *Request) (a Answer, err error) {
	req, err := r.of(ctx, w)
	if err != nil {
		return a, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close() //nolint:errcheck // the answer means nothing
	a.Status, a.RetryAfter = resp.StatusCode, resp.Header.Get("Retry-After")
	if resp.ContentLength != 0 {
		w.answered(r.Rest)
		if !success(a.Status) {
			a.Body, _ = io.ReadAll(io.LimitReader(resp.Body, int64(r.Keep))) // nor does an error in it
		}
		_, _ = io.CopyN(io.Discard, resp.Body, int64(r.Read-len(a.Body)))
	}
	return a, nil
}

// of returns the request for net/http.
func (r *Request) of(ctx context.Context, w *watch) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL, nil)
	if err != nil {
		return nil, err
	}
	verbatim(req.URL, r.URL)
	for _, fields := range [][]Field{r.Head.fields, r.Own} {
		for _, f := range fields {
			req.Header[f.Name] = append(req.Header[f.Name], f.Value) // spelled as it is
		}
	}
	// It is never sent. With it the transport repeats a request that was lost because the other
	// side closed a keep-alive connection.
	req.Header["Idempotency-Key"] = nil
	if len(r.Body) > 0 {
		req.ContentLength = int64(len(r.Body))
		req.GetBody = func() (io.ReadCloser, error) { return w.sending(r.Body), nil }
		req.Body, _ = req.GetBody()
	}
	return req, nil
}

// verbatim makes net/http send u as it is in raw, and not percent-encoded anew (HUB-40).
func verbatim(u *url.URL, raw string) {
	_, rest, _ := strings.Cut(raw, "://")
	host, path := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		host, path = rest[:i], rest[i:]
	}
	path, _, _ = strings.Cut(path, "?")
	switch {
	case path == u.EscapedPath():
	case strings.HasPrefix(path, "//"):
		u.Opaque = "//" + host + path
	default:
		u.Opaque = path
	}
}

// heldByHTTP is the longest body, in bytes, that is not watched on its way, because it is
// written at once. Net/http knows the plain reader, and sends such a body together with its
// header.
const heldByHTTP = 32 << 10

// sending is a reader of a body on its way. Each time that the transport reads some of a
// longer one counts as progress.
func (w *watch) sending(body []byte) io.ReadCloser {
	if len(body) <= heldByHTTP {
		return io.NopCloser(bytes.NewReader(body))
	}
	return &watched{*bytes.NewReader(body), w}
}

type watched struct {
	body bytes.Reader
	w    *watch
}

func (b *watched) Read(p []byte) (int, error) {
	b.w.progress()
	return b.body.Read(p)
}

func (b *watched) Close() error { return nil }
