package egress

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// proxy is the HTTP proxy that all requests go through: CONNECT for https, the
// absolute form for http. Hosts that are addresses are checked before anything is sent.
// Names are looked up and checked by the proxy.
type proxy struct {
	addr, host string      // host:port, and host alone
	tls        bool        // connections to it use TLS
	header     http.Header // of CONNECT; the authorization in it also goes with the absolute form
	// url is for net/http's Transport, which always dials the proxy by dialProxy: the scheme
	// has no meaning.
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

// throughProxy checks the URL of a request, acquires a place of its target in the budget,
// and returns the request as it is to be sent.
func (c *Client) throughProxy(req *http.Request) (*http.Request, error) {
	target, err := c.checkURL(req.URL)
	if err != nil {
		return nil, err
	}
	pl := placeOf(req.Context())
	if wait := pl.acquire(target); wait > 0 {
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

// refusedByProxy turns a response that only a proxy gives into an error, because it is not a
// response of the host. It is a FailureConnect and not a FailureOwn: by http a host can
// answer the same.
func refusedByProxy(req *http.Request, resp *http.Response, err error) (*http.Response, error) {
	if err != nil || req.URL.Scheme != "http" || resp.StatusCode != http.StatusProxyAuthRequired {
		return resp, err
	}
	_ = resp.Body.Close()
	return nil, noConnection("connect to %s: %w", req.URL.Host, errWrongPassword)
}

var errWrongPassword = errors.New("the proxy wants another user name and password (407 Proxy Authentication Required)")

// dialProxy connects to the proxy, whichever address net/http names.
func (c *Client) dialProxy(ctx context.Context, network, _ string) (net.Conn, error) {
	conn, err := c.unguarded.DialContext(ctx, network, c.proxy.addr) // the operator chose the proxy
	if err != nil {
		return nil, noProxy("connect to the proxy: ", err)
	}
	if !c.proxy.tls {
		return conn, nil
	}
	secure, err := c.handshake(ctx, conn, c.proxy.host)
	if err != nil {
		return nil, noProxy("TLS handshake with the proxy: ", err)
	}
	return secure, nil
}

// tunnel has the proxy connect to addr, within the time to connect.
func (c *Client) tunnel(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.unguarded.Timeout)
	defer cancel()
	conn, err := c.dialProxy(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	err = c.connect(conn, addr)
	if !stop() { // the time was over, and the connection is closed
		return nil, noConnection("connect to %s through the proxy: %w", addr, context.Cause(ctx))
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// connect sends CONNECT on a connection to the proxy. If the proxy breaks it off, the host
// may be the cause.
func (c *Client) connect(conn net.Conn, addr string) error {
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: addr}, Host: addr, Header: c.proxy.header}
	if err := req.Write(conn); err != nil {
		return noConnection("ask the proxy for %s: %w", addr, err)
	}
	// Bytes behind the response would be lost. There are none: the other side of TLS does
	// not send first.
	resp, err := http.ReadResponse(bufio.NewReader(io.LimitReader(conn, maxHeaderBytes)), req) //nolint:bodyclose // closing reads to the end; the connection is closed, or has no body
	switch {
	case err != nil:
		return noConnection("ask the proxy for %s: %w", addr, err)
	case resp.StatusCode == http.StatusProxyAuthRequired:
		return noProxy("", errWrongPassword)
	case resp.StatusCode/100 != 2:
		return noConnection("connect to %s: the proxy answered %d %s", addr, resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	return nil
}
