package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/rshub/rshub/internal/base/post"
)

// The defaults of Options, and the bounds that have no option.
const (
	DefaultConnectTimeout = 5 * time.Second
	DefaultTLSTimeout     = 5 * time.Second
	DefaultPerHost        = 8
	DefaultIdle           = 1024

	maxHeaderBytes = 64 << 10
	idleTimeout    = 90 * time.Second
	tlsSessions    = 1024
	// maxAddresses is how many addresses of one name are tried for one connection, so that
	// a long DNS answer can't turn the hub into a port scanner.
	maxAddresses = 8
)

// Options configures a Client. The zero value calls public addresses only.
type Options struct {
	// Allow lists ranges that may be called besides public addresses
	// (`--allow-cidr`; DevAllow for `--dev`). Link-local, cloud metadata,
	// multicast, unspecified and broadcast addresses stay refused in any
	// case.
	Allow []netip.Prefix
	// Unless says, in the error about an address that is not in Allow, what would allow a range: the end of a sentence. Nil: the
	// flag --allow-cidr.
	Unless func(netip.Prefix) string
	// Own are the addresses at which this process listens, an unspecified one for
	// all of the machine: it does not call itself.
	Own []netip.AddrPort
	// ConnectTimeout bounds looking the name up and connecting, TLSTimeout the
	// TLS handshake; 5 s each when zero.
	ConnectTimeout, TLSTimeout time.Duration
	// PerHost is how many idle connections are kept for one host:port, Idle how
	// many in all; 8 and 1,024 when zero. Do and Post each keep as many.
	PerHost, Idle int
	// UserAgent is sent where a request names none. Empty: net/http's.
	UserAgent string
	// RootCAs are the authorities that servers are checked against. Nil: the
	// system's.
	RootCAs *x509.CertPool
	// Resolver looks names up. Nil: the system's.
	Resolver *net.Resolver
	// Proxy is the http or https URL of the proxy that all requests go through,
	// with its user name and password if it has them (`--egress-proxy`). Addresses
	// in URLs are checked and counted as without a proxy. The proxy looks names up,
	// and has to check their addresses. Nil: no proxy.
	Proxy *url.URL
	// Refused is called for each address that is not called, to count it: one to connect
	// to, or one in a URL for CheckLiteral. It must not wait, and is called from many
	// goroutines. Nil: nothing is counted.
	Refused func(Refusal)
}

// Client makes guarded HTTP requests. It may be shared between goroutines.
//
// It speaks HTTP/1.1 only. Each exchange has a connection to itself: a stalled one delays no
// other, and time limits and the number of connections per host are exact. A foreign host
// also has fewer ways to make the client work. Keep-alive saves as much as HTTP/2 would.
type Client struct {
	policy     policy
	refused    func(Refusal)
	userAgent  string
	unguarded  net.Dialer // dials every address: dial adds the guard
	tls        *tls.Config
	tlsTimeout time.Duration
	proxy      *proxy // nil: there is none
	// kept keeps connections alive. fresh does not: requests under a Budget use
	// it, so that each of them is counted at the address that it goes to.
	kept, fresh *http.Transport
	posts       *post.Pool
}

// New returns a Client. The error names a range of o.Allow that is not valid, or
// says what is wrong with o.Proxy.
func New(o Options) (*Client, error) {
	p, err := newPolicy(o.Allow, o.Own...)
	if err != nil {
		return nil, err
	}
	if o.Unless != nil {
		p.unless = o.Unless
	}
	if o.Refused == nil {
		o.Refused = func(Refusal) {}
	}
	c := &Client{
		policy:     p,
		refused:    o.Refused,
		userAgent:  o.UserAgent,
		tlsTimeout: cmp.Or(max(o.TLSTimeout, 0), DefaultTLSTimeout),
		// No ServerName here: each connection sets its own. Sessions are kept
		// per server name.
		tls: &tls.Config{
			MinVersion:         tls.VersionTLS12,
			RootCAs:            o.RootCAs,
			ClientSessionCache: tls.NewLRUClientSessionCache(tlsSessions),
		},
	}
	c.unguarded = net.Dialer{
		Timeout:  cmp.Or(max(o.ConnectTimeout, 0), DefaultConnectTimeout),
		Resolver: o.Resolver,
	}
	if o.Proxy != nil {
		if c.proxy, err = newProxy(o.Proxy, o.UserAgent); err != nil {
			return nil, err
		}
	}
	c.kept = c.transport(o)
	c.fresh = c.kept.Clone()
	c.fresh.DisableKeepAlives = true
	c.posts = post.NewPool(post.Options{
		Dial: c.dial, DialTLS: c.dialTLS,
		PerHost: c.kept.MaxIdleConnsPerHost, Idle: c.kept.MaxIdleConns, IdleTimeout: idleTimeout,
	})
	return c, nil
}

func (c *Client) transport(o Options) *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	t := &http.Transport{
		Proxy:                  nil, // a proxy from the environment would bypass the guard
		DialContext:            c.dial,
		DialTLSContext:         c.dialTLS,
		Protocols:              &protocols,
		DisableCompression:     true, // no gzip bombs, and bodies stay as they were sent
		MaxResponseHeaderBytes: maxHeaderBytes,
		MaxIdleConns:           cmp.Or(max(o.Idle, 0), DefaultIdle),
		MaxIdleConnsPerHost:    cmp.Or(max(o.PerHost, 0), DefaultPerHost),
		IdleConnTimeout:        idleTimeout,
	}
	if c.proxy != nil {
		t.Proxy, t.DialContext = c.proxy.forPlain, c.dialProxy
		t.MaxIdleConnsPerHost = t.MaxIdleConns // connections to the proxy serve all hosts of http
	}
	return t
}

// Do sends one request and returns its answer with any status. It does not follow redirects
// (a 307 would send body and signature on), and neither keeps nor sends cookies. The caller closes the answer's body. The request's context
// bounds the exchange; without a deadline only connecting is bounded. The request
// is not changed.
//
// The error is for Classify. It may hold the host and address, never the rest
// of the URL. It holds a *RefusedError if the address is one that is not called, and a
// *BudgetError if the request's context is one of Budget.Begin and too many requests went to
// the address. In both cases nothing was sent.
func (c *Client) Do(req *http.Request) (*http.Response, error) {
	if _, set := req.Header["User-Agent"]; !set && c.userAgent != "" || req.Header == nil {
		r := *req
		if r.Header = req.Header.Clone(); r.Header == nil {
			r.Header = http.Header{}
		}
		if c.userAgent != "" {
			r.Header.Set("User-Agent", c.userAgent)
		}
		req = &r
	}
	if c.proxy == nil {
		return c.roundTrip(req)
	}
	sent, err := c.throughProxy(req)
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // as a transport would
		}
		return nil, err
	}
	resp, err := c.roundTrip(sent)
	return refusedByProxy(sent, resp, err)
}

// Post makes a POST, as cheaply as possible, under the same rules as Do. It may send the request
// twice if a connection that was kept turns out to be closed. The Client's User-Agent is not added.
// The error is for Classify.
func (c *Client) Post(ctx context.Context, r *post.Request) (post.Answer, error) {
	if c.proxy == nil && placeOf(ctx) == nil {
		a, err := c.posts.Post(ctx, r)
		if !errors.Is(err, post.ErrNotPlain) {
			return a, err
		}
	}
	return post.HTTP{Doer: c}.Post(ctx, r)
}

// roundTrip uses the transport and not an http.Client: it has no redirects or
// cookies to switch off, and its errors do not quote the URL.
func (c *Client) roundTrip(req *http.Request) (*http.Response, error) {
	if placeOf(req.Context()) != nil {
		return c.fresh.RoundTrip(req)
	}
	return c.kept.RoundTrip(req)
}

// CloseIdleConnections closes the connections that are kept and not in use.
func (c *Client) CloseIdleConnections() {
	c.kept.CloseIdleConnections()
	c.posts.CloseIdleConnections()
}

// dial connects. Its error distinguishes an address that is not called, a spent budget, and
// a connection that cannot be made.
func (c *Client) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	a := &attempt{client: c}
	dialer := c.unguarded
	dialer.ControlContext = a.control
	conn, err := dialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, a.result(ctx, addr, err)
	}
	return conn, nil
}

// dialTLS is dial, or a tunnel through the proxy, and a handshake in the name of
// the host in addr.
func (c *Client) dialTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, noConnection("connect to %s: %w", addr, err)
	}
	dial := c.dial
	if c.proxy != nil {
		dial = c.tunnel
	}
	conn, err := dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	secure, err := c.handshake(ctx, conn, host)
	if err != nil {
		return nil, noConnection("TLS handshake with %s: %w", addr, err)
	}
	return secure, nil
}

// handshake starts TLS on a connection, and closes it if that fails. The error distinguishes
// a certificate that is not accepted from everything else, and says in words that a server does not speak TLS.
func (c *Client) handshake(ctx context.Context, conn net.Conn, host string) (net.Conn, error) {
	cfg := c.tls.Clone()
	cfg.ServerName = host
	ctx, cancel := context.WithTimeout(ctx, c.tlsTimeout)
	defer cancel()
	secure := tls.Client(conn, cfg)
	err := secure.HandshakeContext(ctx)
	if err == nil {
		return secure, nil
	}
	_ = conn.Close()
	var bad *tls.CertificateVerificationError
	if errors.As(err, &bad) {
		return nil, &CertificateError{bad.Err}
	}
	return nil, noTLS(err)
}

// ErrTooLarge is wrapped by what ReadBody returns for a body over its limit.
var ErrTooLarge = errors.New("the body is too large")

// ReadBody reads r to its end, if that comes within limit bytes. Otherwise it returns
// ErrTooLarge, after limit + 1 bytes.
func ReadBody(r io.Reader, limit int64) ([]byte, error) {
	limit = min(max(limit, 0), math.MaxInt64-1)
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(b)) > limit:
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
	}
	return b, nil
}

// HostPortOf is HostPort of a URL as text; empty if it can't be parsed or names no host.
func HostPortOf(rawURL string) string {
	if host, ok := plainHostPort(rawURL); ok {
		return host
	}
	u, err := url.Parse(rawURL)
	if err != nil || u.Host == "" {
		return ""
	}
	return HostPort(u)
}

// plainHostPort is HostPortOf for URLs that need no parsing, as most: a hub that starts asks for each
// subscription.
func plainHostPort(rawURL string) (string, bool) {
	authority, port := "", ""
	if rest, ok := strings.CutPrefix(rawURL, "http://"); ok {
		authority, port = rest, ":80"
	} else if rest, ok := strings.CutPrefix(rawURL, "https://"); ok {
		authority, port = rest, ":443"
	}
	end := strings.IndexAny(authority, "/?#")
	if end < 0 {
		end = len(authority)
	}
	for _, c := range []byte(authority[end:]) {
		if c <= ' ' || c >= 0x7f || c == '%' {
			return "", false
		}
	}
	authority = authority[:end]
	host, digits, explicit := strings.Cut(authority, ":")
	if explicit {
		port = ""
	}
	name := func(c rune) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '.' }
	digit := func(c rune) bool { return c >= '0' && c <= '9' }
	plain := host != "" && host[len(host)-1] != '.' && only(host, name) && explicit == (digits != "") && only(digits, digit) && !strings.HasPrefix(digits, "0")
	return authority + port, plain
}

// only reports whether all characters of s are of a kind.
func only(s string, is func(rune) bool) bool {
	return strings.IndexFunc(s, func(c rune) bool { return !is(c) }) < 0
}

// Host reads a host as people write it, a name or an address with or without a port. It returns
// the host as HostPort spells it; without a port, the name or the address alone.
func Host(text string) string {
	if addr, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil && addr.Is6() {
		text = "[" + addr.String() + "]"
	}
	u := url.URL{Scheme: "http", Host: text}
	if u.Port() != "" {
		return HostPort(&u)
	}
	return HostName(&u)
}

// IsHost reports whether a text is what Host reads.
func IsHost(text string) bool {
	if _, err := netip.ParseAddr(text); err == nil {
		return true
	}
	u, err := url.Parse("http://" + text)
	return err == nil && u.Hostname() != "" && u.Host == text
}

// HostName is HostPort without the port.
func HostName(u *url.URL) string {
	name, _, _ := net.SplitHostPort(HostPort(u)) // JoinHostPort made it
	return name
}

// HostPort is the name under which Budget and others count requests to one host, the same for
// every spelling of it: lower case, without final dots, an address as Go writes it, with the
// scheme's port if u names none, and without zeros before the port.
func HostPort(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
		port = cmp.Or(strings.TrimLeft(port, "0"), "0")
	case strings.EqualFold(u.Scheme, "https"):
		port = "443"
	default:
		port = "80"
	}
	host := strings.TrimRight(strings.ToLower(u.Hostname()), ".")
	if addr, err := netip.ParseAddr(host); err == nil {
		host = addr.Unmap().String()
	}
	return net.JoinHostPort(host, port)
}
