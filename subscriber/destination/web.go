package destination

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/subscriber"
)

// web calls the hosts that may be called, gives each its own token, and leaves them
// alone where they ask for it. It is a subscriber.Doer.
type web struct {
	client   subscriber.Doer
	source   string // the Source's host:port
	allowed  map[string]bool
	tokens   map[string]func() string
	parallel int

	mu    sync.Mutex
	hosts map[string]*host
}

func newWeb(o *Options) *web {
	w := &web{
		client: o.Client, source: egress.HostPortOf(o.Source), parallel: o.Parallel,
		allowed: map[string]bool{}, tokens: map[string]func() string{}, hosts: map[string]*host{},
	}
	w.allowed[w.source] = true
	for _, h := range o.Hosts {
		w.allowed[strings.ToLower(h)] = true
	}
	for h, token := range o.Tokens {
		now := func() string { return token }
		if o.Token != nil {
			now = func() string { return o.Token(h) }
		}
		w.tokens[strings.ToLower(h)] = now
	}
	return w
}

// HostError says that a host was not called.
type HostError struct{ Host string }

func (e *HostError) Error() string {
	return fmt.Sprintf("%s is another host than the Source's; allow it by Options.Hosts if it is to be trusted", e.Host)
}

// Permanent says that it will not pass by itself.
func (e *HostError) Permanent() bool { return true }

// names are those under which a host is allowed, or has a token: with its port, and
// without.
func names(u *url.URL) (hostPort, name string) {
	return egress.HostPort(u), strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
}

// host returns what is known of the host of a URL, or a *HostError.
func (w *web) host(u *url.URL) (*host, error) {
	hostPort, name := names(u)
	if !w.allowed[hostPort] && !w.allowed[name] {
		return nil, &HostError{hostPort}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.hosts[hostPort]
	if h == nil {
		h = newHost(hostPort, w.parallel)
		w.hosts[hostPort] = h
	}
	return h, nil
}

// token is the one for a URL. One that was given for a name without a port does not
// go over plain http, unless that is how the Source itself is called.
func (w *web) token(u *url.URL) string {
	hostPort, name := names(u)
	if token := w.tokenOf(hostPort); token != "" {
		return token
	}
	if !strings.EqualFold(u.Scheme, "https") && hostPort != w.source {
		return ""
	}
	return w.tokenOf(name)
}

func (w *web) tokenOf(host string) string {
	if now := w.tokens[host]; now != nil {
		return now()
	}
	return ""
}

// Do sends a request to an allowed host, once that may be called. A POST is one to
// a hub, which the topic names; it has no token of ours.
func (w *web) Do(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodPost {
		return w.client.Do(req)
	}
	h, err := w.host(req.URL)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	if err := h.wait(ctx); err != nil {
		cancel(nil)
		return nil, err
	}
	req = req.Clone(ctx)
	if token := w.token(req.URL); token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	timer := time.AfterFunc(headerTime, func() { cancel(errStalled) })
	resp, err := w.client.Do(req)
	timer.Stop()
	if err != nil {
		if errors.Is(context.Cause(ctx), errStalled) {
			err = errStalled
		}
		if ctx.Err() == nil || errors.Is(err, errStalled) {
			h.failed()
		}
		cancel(nil)
		return nil, err
	}
	h.answered(resp.StatusCode, retryAfter(resp))
	resp.Body = watch(ctx, cancel, resp.Body)
	return resp, nil
}

// stalledError is that of an exchange which takes too long.
type stalledError struct{}

func (stalledError) Error() string { return "the answer stalled or came too slowly" }

// Timeout makes it one for egress.Classify.
func (stalledError) Timeout() bool { return true }

// Temporary makes it a net.Error.
func (stalledError) Temporary() bool { return true }

var errStalled error = stalledError{}

// watched is a body that ends with errStalled when nothing comes for stallTimeout,
// or less than slowest on average after the first stallTimeout. Only the time counts in
// which somebody waits for it.
type watched struct {
	io.ReadCloser
	ctx    context.Context //nolint:containedctx // that of the request
	cancel context.CancelCauseFunc
	timer  *time.Timer
	waited time.Duration
	n      int64
}

func watch(ctx context.Context, cancel context.CancelCauseFunc, body io.ReadCloser) *watched {
	b := &watched{ReadCloser: body, ctx: ctx, cancel: cancel}
	b.timer = time.AfterFunc(stallTimeout, func() { cancel(errStalled) })
	b.timer.Stop()
	return b
}

func (b *watched) Read(p []byte) (int, error) {
	began := time.Now()
	due := stallTimeout + time.Duration(b.n)*time.Second/slowest - b.waited
	b.timer.Reset(min(stallTimeout, due))
	n, err := b.ReadCloser.Read(p)
	b.timer.Stop()
	b.waited += time.Since(began)
	b.n += int64(n)
	if err != nil && !errors.Is(err, io.EOF) && errors.Is(context.Cause(b.ctx), errStalled) {
		err = errStalled
	}
	return n, err
}

func (b *watched) Close() error {
	b.timer.Stop()
	b.cancel(nil)
	return b.ReadCloser.Close()
}

// retryAfter is what an answer asks for; zero: nothing.
func retryAfter(resp *http.Response) time.Duration {
	v := resp.Header.Get("Retry-After")
	if n, err := strconv.Atoi(v); err == nil && n >= 0 {
		return time.Duration(min(n, 24*3600)) * time.Second
	}
	if t, err := http.ParseTime(v); err == nil {
		return min(max(0, time.Until(t)), 24*time.Hour)
	}
	return 0
}

// sleep waits; false: ctx ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// queueOf is the queue of a URL: that of its host, or of all that are not called.
func (w *web) queueOf(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	h, err := w.host(u)
	if err != nil {
		return ""
	}
	return h.name
}
