package destination

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/web"
	"github.com/rshub/rshub/subscriber"
)

// hosts calls the allowed hosts. It sends each its own token, and pauses when a host asks for it.
// It is a subscriber.Doer.
type hosts struct {
	client   subscriber.Doer
	source   string // the Source's host:port
	allowed  map[string]bool
	tokens   map[string]func() string
	parallel int
	party    *party // of those that share limits; nil: it has its own alone

	bytes atomic.Int64 // of bodies, which were read

	mu      sync.Mutex
	hosts   map[string]*host
	refused map[string]bool // hosts that were not called because they are not allowed
}

func newHosts(o *Options) *hosts {
	w := &hosts{
		client: o.Client, source: egress.HostPortOf(o.Source), parallel: o.Parallel, party: o.party,
		allowed: map[string]bool{}, tokens: map[string]func() string{}, hosts: map[string]*host{}, refused: map[string]bool{},
	}
	w.allowed[w.source] = true
	if name, plain := strings.CutSuffix(w.source, ":80"); plain && strings.HasPrefix(strings.ToLower(o.Source), "http:") {
		w.allowed[name+":443"] = true // where a Source goes that begins to use https
	}
	for _, h := range o.Hosts {
		w.allowed[egress.Host(h)] = true
	}
	for h, token := range o.Tokens {
		now := func() string { return token }
		if o.Token != nil {
			now = func() string { return o.Token(h) }
		}
		w.tokens[egress.Host(h)] = now
	}
	return w
}

// HostError says that a host was not called because it is not allowed.
type HostError struct{ Host string }

func (e *HostError) Error() string {
	return fmt.Sprintf("%s is not the Source's host; if you trust it, allow it with Options.Hosts", e.Host)
}

// Permanent says that the error does not pass by itself.
func (e *HostError) Permanent() bool { return true }

// names returns the names under which a host is allowed or has a token: with its port, and
// without.
func names(u *url.URL) (hostPort, name string) {
	return egress.HostPort(u), egress.HostName(u)
}

// host returns the state of the host of a URL, or a *HostError.
func (w *hosts) host(u *url.URL) (*host, error) {
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

// refusedMost is how many hosts are named that are not allowed.
const refusedMost = 100

// refuse remembers a host that was not called because it is not allowed.
func (w *hosts) refuse(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if host := (*HostError)(nil); errors.As(err, &host) && len(w.refused) < refusedMost {
		w.refused[host.Host] = true
	}
}

// takeRefused returns the hosts that were not called since the last time.
func (w *hosts) takeRefused() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	refused := slices.Sorted(maps.Keys(w.refused))
	clear(w.refused)
	return refused
}

// token returns the token for a URL. A token for a name without a port is not sent over
// plain http, unless the Source itself is called so.
func (w *hosts) token(u *url.URL) string {
	hostPort, name := names(u)
	if token := w.tokenOf(hostPort); token != "" {
		return token
	}
	if !strings.EqualFold(u.Scheme, "https") && hostPort != w.source {
		return ""
	}
	return w.tokenOf(name)
}

func (w *hosts) tokenOf(host string) string {
	if now := w.tokens[host]; now != nil {
		return now()
	}
	return ""
}

// Do sends a request to an allowed host, when the host may be called. The body of the
// response occupies one of the slots of the host until it is closed. A POST goes to a hub,
// which the topic names; it gets no token.
func (w *hosts) Do(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodPost {
		return w.askHub(req)
	}
	h, err := w.host(req.URL)
	if err != nil {
		w.refuse(err)
		return nil, err
	}
	if err := h.enter(req.Context()); err != nil {
		return nil, err
	}
	leave := func() {}
	if err = h.wait(req.Context()); err == nil {
		leave, err = w.party.enter(req.Context(), h.name, h.sound)
	}
	if err != nil {
		h.leave()
		return nil, err
	}
	resp, err := w.call(h, req)
	if err != nil {
		leave()
		h.leave()
		return nil, err
	}
	resp.Body = &closing{ReadCloser: resp.Body, read: &w.bytes, then: sync.OnceFunc(func() {
		leave()
		h.leave()
	})}
	return resp, nil
}

// withToken returns the request with the token of its host, if there is one.
func (w *hosts) withToken(req *http.Request) *http.Request {
	if token := w.token(req.URL); token != "" {
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return req
}

// call sends a request that has its slot.
func (w *hosts) call(h *host, req *http.Request) (*http.Response, error) {
	resp, err := web.Pace{Stall: stallTimeout, Rate: slowest}.Do(w.client, w.withToken(req))
	if err != nil {
		if req.Context().Err() == nil {
			h.answered(0, 0)
		}
		return nil, err
	}
	h.answered(resp.StatusCode, retryAfter(resp.Header))
	return resp, nil
}

// hubs calls hubs for their stream, and for what they keep. Topics name hubs, so these need not be
// allowed hosts. It is a subscriber.Doer.
type hubs struct{ *hosts }

// Do sends a request to a hub, with the token of its host. A stream stays open, so it occupies
// neither a slot of the host nor one of those that copies share.
func (w hubs) Do(req *http.Request) (*http.Response, error) {
	req = w.withToken(req)
	if strings.HasPrefix(req.Header.Get("Accept"), "text/event-stream") {
		return w.client.Do(req)
	}
	return w.askHub(req)
}

// askHub sends a request to a hub that is soon over.
func (w *hosts) askHub(req *http.Request) (*http.Response, error) {
	leave, err := w.party.enter(req.Context(), egress.HostPort(req.URL), nil)
	if err != nil {
		return nil, err
	}
	resp, err := w.client.Do(req)
	if err != nil {
		leave()
		return nil, err
	}
	resp.Body = &closing{resp.Body, &w.bytes, leave}
	return resp, nil
}

// closing counts what is read, and calls then when it is closed.
type closing struct {
	io.ReadCloser
	read *atomic.Int64
	then func()
}

func (c *closing) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.read.Add(int64(n))
	return n, err
}

func (c *closing) Close() error {
	defer c.then()
	return c.ReadCloser.Close()
}

// retryAfter returns the pause that a response asks for, a day at most, so that a host that is
// back is noticed. Requests fail at once during a pause over hostPauseMax.
func retryAfter(header http.Header) time.Duration {
	return web.RetryAfter(header, time.Now(), 24*time.Hour)
}

// queueOf returns the queue of a URL: its host, or empty for all hosts that are not
// called.
func (w *hosts) queueOf(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err == nil {
		if h, err := w.host(u); err == nil {
			return h.name
		}
	}
	return ""
}
