package egress

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// proxy is the HTTP proxy that all requests go through: CONNECT for https, the
// absolute form for http. Hosts that are addresses are judged before anything is
// sent; names are the proxy's to look up and to judge.
type proxy struct {
	addr, host string // host:port, and host alone
	tls        bool   // it is spoken to by TLS
	// header goes with CONNECT, and authorization in it with what is sent in the
	// absolute form.
	header http.Header
	// url is what net/http's Transport is told. It dials nothing but the proxy by
	// it, so the scheme says nothing of how.
	url *url.URL
}

func newProxy(u *url.URL, userAgent string) (*proxy, error) {
	ports := map[string]string{"http": "80", "https": "443"}
	if ports[u.Scheme] == "" || u.Hostname() == "" {
		return nil, errors.New("the proxy is not an http or https URL with a host: write it like http://proxy.example:3128")
	}
	p := &proxy{
		addr:   HostPort(u),
		host:   u.Hostname(),
		tls:    u.Scheme == "https",
		header: http.Header{"User-Agent": {userAgent}},
	}
	p.url = &url.URL{Scheme: "http", Host: p.addr, User: u.User}
	if u.User != nil {
		password, _ := u.User.Password()
		p.header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password)))
	}
	return p, nil
}

// forPlain is the Proxy of the transport: requests by https have a tunnel, which
// dialTLS makes.
func (p *proxy) forPlain(req *http.Request) (*url.URL, error) {
	if req.URL.Scheme == "https" {
		return nil, nil // net/http's way to say: none
	}
	return p.url, nil
}

// proxyError marks an error as one of the proxy: the host that was to be called
// has no part in it, and can't bring it about.
type proxyError struct{ err error }

func (e *proxyError) Error() string { return e.err.Error() + " (--egress-proxy)" }
func (e *proxyError) Unwrap() error { return e.err }

// throughProxy judges a request by its URL, takes a place in the budget of what
// it names, and returns it as it is to be sent.
func (c *Client) throughProxy(req *http.Request) (*http.Request, error) {
	target, err := c.judge(req.URL)
	if err != nil {
		return nil, err
	}
	pl := placeOf(req.Context())
	if wait := pl.take(target); wait > 0 {
		pl.confirm() // nothing was sent, so the host's place is free again
		_, name, _ := strings.Cut(target, " ")
		return nil, &BudgetError{Target: name, Wait: wait}
	}
	if opaque := req.URL.Opaque; req.URL.Scheme == "http" && strings.HasPrefix(opaque, "/") && !strings.HasPrefix(opaque, "//") {
		// Net/http would send a path that is to stay as it is without the host.
		r, u := *req, *req.URL
		u.Opaque, r.URL = "//"+u.Host+opaque, &u
		req = &r
	}
	return req, nil
}

// refusedByProxy turns an answer that only a proxy gives into an error: it says
// nothing of what was asked for. It is a failure to connect and not the proxy's,
// since by http a host can say the same.
func refusedByProxy(req *http.Request, resp *http.Response, err error) (*http.Response, error) {
	if err != nil || req.URL.Scheme != "http" || resp.StatusCode != http.StatusProxyAuthRequired {
		return resp, err
	}
	_ = resp.Body.Close()
	return nil, &connectError{fmt.Errorf("connect to %s: %w", req.URL.Host, errWrongPassword)}
}

var errWrongPassword = errors.New("the proxy wants another user name and password (407 Proxy Authentication Required)")

// dialProxy connects to the proxy, whichever address net/http names.
func (c *Client) dialProxy(ctx context.Context, network, _ string) (net.Conn, error) {
	dialer := c.dialer
	dialer.ControlContext = nil // the operator chose it, on a private network most likely
	conn, err := dialer.DialContext(ctx, network, c.proxy.addr)
	if err != nil {
		return nil, &proxyError{fmt.Errorf("connect to the proxy: %w", err)}
	}
	if !c.proxy.tls {
		return conn, nil
	}
	secure, err := c.handshake(ctx, conn, c.proxy.host)
	if err != nil {
		return nil, &proxyError{fmt.Errorf("TLS handshake with the proxy: %w", err)}
	}
	return secure, nil
}

// tunnel has the proxy connect to addr, within the time to connect.
func (c *Client) tunnel(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.dialer.Timeout)
	defer cancel()
	conn, err := c.dialProxy(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	err = c.connect(conn, addr)
	if !stop() { // the time was over, and the connection is closed
		return nil, &connectError{fmt.Errorf("connect to %s through the proxy: %w", addr, context.Cause(ctx))}
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// connect speaks CONNECT on a connection to the proxy. What breaks off may do so
// because of the host.
func (c *Client) connect(conn net.Conn, addr string) error {
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: addr}, Host: addr, Header: c.proxy.header}
	if err := req.Write(conn); err != nil {
		return &connectError{fmt.Errorf("ask the proxy for %s: %w", addr, err)}
	}
	// What is read too far is lost, and there is none: the other side of TLS
	// speaks when it is spoken to.
	resp, err := http.ReadResponse(bufio.NewReader(io.LimitReader(conn, maxHeaderBytes)), req) //nolint:bodyclose // closing reads to the end; the connection is closed, or has no body
	switch {
	case err != nil:
		return &connectError{fmt.Errorf("ask the proxy for %s: %w", addr, err)}
	case resp.StatusCode == http.StatusProxyAuthRequired:
		return &proxyError{errWrongPassword}
	case resp.StatusCode/100 != 2:
		return &connectError{fmt.Errorf("connect to %s: the proxy answered %d %s", addr, resp.StatusCode, http.StatusText(resp.StatusCode))}
	}
	return nil
}
