package egress

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const proxyPassword = "pa55word"

// testProxy is an HTTP proxy that connects to one place, whatever it is asked
// for, and notes what that was.
type testProxy struct {
	*httptest.Server
	to     string
	status int // other than 0: what it answers instead

	mu    sync.Mutex
	asked []string
	conns sync.WaitGroup
}

// startProxy starts a proxy, by TLS if secure, for a server at to.
func startProxy(t *testing.T, to string, secure bool) *testProxy {
	t.Helper()
	p := &testProxy{to: to}
	p.Server = httptest.NewUnstartedServer(p)
	if secure {
		p.StartTLS()
	} else {
		p.Start()
	}
	p.conns.Add(1) // so that there is never none while connections may be added
	t.Cleanup(func() { p.Close(); p.conns.Done(); p.conns.Wait() })
	return p
}

// options are those of a client of p that calls loopback addresses and has no
// name server.
func (p *testProxy) options(t *testing.T) Options {
	t.Helper()
	u := mustURL(t, p.URL)
	u.User = url.UserPassword("hub", proxyPassword)
	return Options{Allow: prefixes("127.0.0.2/32"), Proxy: u, UserAgent: "rshub/1", Resolver: resolver(t, nil)}
}

func (p *testProxy) seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

func (p *testProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.asked = append(p.asked, r.Method+" "+r.RequestURI)
	p.mu.Unlock()
	user, password, _ := (&http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}).BasicAuth()
	switch {
	case p.status != 0:
		w.WriteHeader(p.status)
	case user != "hub" || password != proxyPassword:
		w.WriteHeader(http.StatusProxyAuthRequired)
	case r.Method == http.MethodConnect:
		p.connect(w, r)
	default:
		r.Header.Del("Proxy-Authorization")
		out := r.Clone(r.Context())
		out.URL = &url.URL{Scheme: "http", Host: p.to, Opaque: r.URL.EscapedPath(), RawQuery: r.URL.RawQuery}
		out.RequestURI = ""
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(out)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer func() { _ = resp.Body.Close() }()
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	}
}

func (p *testProxy) connect(w http.ResponseWriter, r *http.Request) {
	there, err := new(net.Dialer).DialContext(r.Context(), "tcp", p.to)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	here, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = there.Close()
		return
	}
	_, _ = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
	p.conns.Go(func() { _, _ = io.Copy(there, here); _ = there.Close() })
	p.conns.Go(func() { _, _ = io.Copy(here, there); _ = here.Close() })
}

// Names go to the proxy as they are, by http in the absolute form and by https
// through a tunnel that ends at the host; the password ends at the proxy.
func TestProxy(t *testing.T) {
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Proxy-Authorization") != "" {
			t.Error("the host was sent the proxy's password")
		}
		_, _ = fmt.Fprintf(w, "%s %s %s", r.Host, r.RequestURI, r.UserAgent())
	})
	plain, secure := httptest.NewServer(echo), httptest.NewTLSServer(echo)
	defer plain.Close()
	defer secure.Close()
	for _, proxyTLS := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls %v", proxyTLS), func(t *testing.T) {
			toPlain, toSecure := startProxy(t, plain.Listener.Addr().String(), proxyTLS), startProxy(t, secure.Listener.Addr().String(), proxyTLS)
			roots := x509.NewCertPool()
			roots.AddCert(secure.Certificate())
			for _, tc := range []struct {
				p                 *testProxy
				url, opaque, want string
				asked             string
			}{
				{toPlain, "http://example.com/cb?b=2&a=%41", "", "example.com /cb?b=2&a=%41", "GET http://example.com/cb?b=2&a=%41"},
				{toPlain, "http://example.com:8000/a%2fb", "/a%2Fb", "example.com:8000 /a%2Fb", "GET http://example.com:8000/a%2Fb"},
				{toSecure, "https://example.com/cb?b=2&a=%41", "", "example.com /cb?b=2&a=%41", "CONNECT example.com:443"},
				{toSecure, "https://example.com:8443/a%2fb", "/a%2Fb", "example.com:8443 /a%2Fb", "CONNECT example.com:8443"},
			} {
				o := tc.p.options(t)
				o.RootCAs = roots
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, tc.url, nil)
				if err != nil {
					t.Fatal(err)
				}
				req.URL.Opaque = tc.opaque
				_, got, err := do(newClient(t, o), req)
				if err != nil || got != tc.want+" rshub/1" {
					t.Errorf("%s: %q, %v, want %q", tc.url, got, err, tc.want)
				}
				if asked := tc.p.seen(); asked[len(asked)-1] != tc.asked {
					t.Errorf("%s: the proxy was asked %v", tc.url, asked)
				}
				if req.URL.Opaque != tc.opaque || req.Header.Get("Proxy-Authorization") != "" {
					t.Error("Do changed the request")
				}
			}
		})
	}
}

// What is refused without a proxy is refused before the proxy is asked.
func TestProxyIsNotAskedForWhatIsRefused_HUB02(t *testing.T) {
	p := startProxy(t, "127.0.0.1:9", false)
	o := p.options(t)
	var told []Refusal
	o.Refused = func(r Refusal) { told = append(told, r) }
	c := newClient(t, o)
	for _, host := range []string{
		"127.0.0.1", "127.0.0.1.", "127.0.0.1..", "127.1", "0x7f000001", "2130706433", "017700000001", "localhost", "a.LOCALHOST.",
		"169.254.169.254", "[::ffff:169.254.169.254]", "[fd00:ec2::254]", "[fe80::1%25eth0]", "[64:ff9b::7f00:1]", "10.0.0.1",
		"\uff11\uff12\uff17.0.0.1", "\u2460\u2461\u2466.0.0.1", "%E2%91%A0.0.0.1", "example.org:25", "127.0.0.1;x", "a..example", "example.org,",
	} {
		for _, scheme := range []string{"http://", "https://"} {
			told = nil
			if _, err := get(c, scheme+host+"/"); Classify(err) != FailureRefused || len(told) != 1 {
				t.Errorf("%s: %v, told %v; want a refusal", host, err, told)
			}
		}
	}
	if asked := p.seen(); len(asked) != 0 {
		t.Errorf("the proxy was asked %v", asked)
	}
}

// Where nobody here knows the address, a name counts on all its ports together;
// an address counts as itself.
func TestProxyBudget(t *testing.T) {
	p := startProxy(t, closedPort(t), false)
	c := newClient(t, p.options(t))
	b := NewBudget(2)
	send := func(u string) error {
		ctx, _, wait := b.Begin(t.Context(), noon, HostPortOf(u))
		if wait > 0 {
			t.Fatalf("%s had no place", u)
		}
		_, err := getWith(ctx, c, u)
		return err
	}
	for _, three := range [][]string{
		{"http://example.org/", "https://EXAMPLE.org.:8443/", "http://example.org:8001/"},
		{"http://127.0.0.2/", "http://127.0.0.2:81/", "http://[::ffff:127.0.0.2]:82/"},
	} {
		for i, u := range three {
			err := send(u)
			var spent *BudgetError
			if errors.As(err, &spent) != (i == 2) || i == 2 && Classify(err) != FailureBudget {
				t.Errorf("%s: %v", u, err)
			}
		}
	}
	if n := len(p.seen()); n != 4 {
		t.Errorf("the proxy was asked %d times, want 4", n)
	}
}

// What fails at the proxy is not the host's failure, and what fails behind it is;
// the password is in no error.
func TestProxyFailures(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	for _, tc := range []struct {
		name        string
		prepare     func(t *testing.T) (*testProxy, Options)
		http, https Failure
		says        string
	}{
		{"down", func(t *testing.T) (*testProxy, Options) {
			p := startProxy(t, "", false)
			o := p.options(t)
			p.Close()
			return p, o
		}, FailureOwn, FailureOwn, "connect to the proxy"},
		{"wrong password", func(t *testing.T) (*testProxy, Options) {
			p := startProxy(t, "", false)
			o := p.options(t)
			o.Proxy.User = url.UserPassword("hub", "not-"+proxyPassword)
			return p, o
		}, FailureConnect, FailureOwn, "407"},
		{"a certificate that is not accepted", func(t *testing.T) (*testProxy, Options) {
			p := startProxy(t, "", true)
			return p, p.options(t)
		}, FailureOwn, FailureOwn, "--ca-file"},
		{"says no", func(t *testing.T) (*testProxy, Options) {
			p := startProxy(t, "", false)
			p.status = http.StatusForbidden
			return p, p.options(t)
		}, FailureNone, FailureConnect, "403 Forbidden"},
		{"can't connect", func(t *testing.T) (*testProxy, Options) {
			p := startProxy(t, closedPort(t), false)
			return p, p.options(t)
		}, FailureNone, FailureConnect, "502 Bad Gateway"},
		{"the host's certificate is not accepted", func(t *testing.T) (*testProxy, Options) {
			p := startProxy(t, server.Listener.Addr().String(), false)
			return p, p.options(t)
		}, FailureNone, FailureConnect, "--ca-file"},
		{"breaks off", func(t *testing.T) (*testProxy, Options) {
			o := Options{Proxy: mustURL(t, "http://hub:"+proxyPassword+"@"+rawServer(t, "\n"))}
			return nil, o
		}, FailureOther, FailureConnect, "ask the proxy"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, o := tc.prepare(t)
			c := newClient(t, o)
			for scheme, want := range map[string]Failure{"http": tc.http, "https": tc.https} {
				_, err := get(c, scheme+"://example.com/")
				if Classify(err) != want {
					t.Errorf("%s: %v (%v), want %v", scheme, Classify(err), err, want)
				}
				if err == nil {
					continue
				}
				if strings.Contains(err.Error(), proxyPassword) {
					t.Errorf("%s: the error has the password: %v", scheme, err)
				}
				if want != FailureOther && !strings.Contains(err.Error(), tc.says) {
					t.Errorf("%s: %v, want it to say %q", scheme, err, tc.says)
				}
				if about := strings.Contains(err.Error(), "--egress-proxy"); about != (want == FailureOwn) && want != FailureOther {
					t.Errorf("%s: %v", scheme, err)
				}
			}
		})
	}
}

// A proxy that says nothing costs the time to connect and no more.
func TestProxyThatIsSilent(t *testing.T) {
	c := newClient(t, Options{Proxy: mustURL(t, "http://"+rawServer(t, "")), ConnectTimeout: 50 * time.Millisecond})
	if _, err := get(c, "https://example.com/"); Classify(err) != FailureConnect {
		t.Errorf("%v (%v), want a connect failure", Classify(err), err)
	}
}

func TestProxyURLs(t *testing.T) {
	for _, raw := range []string{"socks5://proxy.example:1080", "http://", "//hub:" + proxyPassword + "@proxy.example", "ftp://hub:" + proxyPassword + "@proxy.example"} {
		_, err := New(Options{Proxy: mustURL(t, raw)})
		if err == nil || !strings.Contains(err.Error(), "http://proxy.example:3128") || strings.Contains(err.Error(), proxyPassword) {
			t.Errorf("%s: %v", raw, err)
		}
	}
	for raw, want := range map[string]string{"http://proxy.example": "proxy.example:80", "https://PROXY.example": "proxy.example:443", "http://[fd00::1]:3128/": "[fd00::1]:3128"} {
		if p, err := newProxy(mustURL(t, raw), ""); err != nil || p.addr != want {
			t.Errorf("%s: %+v, %v", raw, p, err)
		}
	}
}
