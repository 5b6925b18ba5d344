package egress

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve listens on an address of the loopback network, on port if it is not
// empty, and returns host:port.
func serve(t *testing.T, ip, port string, h http.HandlerFunc) string {
	t.Helper()
	if port == "" {
		port = "0"
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", net.JoinHostPort(ip, port))
	if err != nil {
		t.Skipf("cannot listen on %s: %v", ip, err)
	}
	s := httptest.NewUnstartedServer(h)
	_ = s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	return l.Addr().String()
}

// ok answers 200, and counts.
func ok(n *atomic.Int32) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { n.Add(1); _, _ = io.WriteString(w, "ok") }
}

func portOf(t *testing.T, addr string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func loopback(t testing.TB) *Client { return newClient(t, Options{Allow: prefixes("127.0.0.0/8")}) }

// A name that resolves to an allowed address the first time and to another
// afterwards is judged by what is dialled (spec.md 7.24: rebinding).
func TestRebindingNameIsRefusedAtDial_HUB02(t *testing.T) {
	bothWays(t, testRebindingNameIsRefusedAtDial)
}

func testRebindingNameIsRefusedAtDial(t *testing.T, send way) {
	var good, secret atomic.Int32
	port := portOf(t, serve(t, "127.0.0.2", "", ok(&good)))
	serve(t, "127.0.0.1", port, ok(&secret))
	c := newClient(t, Options{
		Allow:    prefixes("127.0.0.2/32"),
		Resolver: resolver(t, map[string][][]string{"rebind.test": {{"127.0.0.2"}, {"127.0.0.1"}}}),
	})
	u := "http://rebind.test:" + port + "/"
	if err := c.CheckLiteral(u); err != nil {
		t.Fatalf("a name was refused unseen: %v", err)
	}
	_, err := send(t.Context(), c, u)
	if err != nil {
		t.Fatal(err)
	}
	c.CloseIdleConnections()
	if _, err = send(t.Context(), c, u); Classify(err) != FailureRefused {
		t.Errorf("second time: %v, want a refusal", err)
	}
	if good.Load() != 1 || secret.Load() != 0 {
		t.Errorf("%d and %d requests, want 1 and 0", good.Load(), secret.Load())
	}
}

// What a name stands for: one allowed address is enough; where one could be
// tried, a failure is of the connection; only where all are refused the host is.
func TestNamesWithSeveralAddresses(t *testing.T) { bothWays(t, testNamesWithSeveralAddresses) }

func testNamesWithSeveralAddresses(t *testing.T, send way) {
	var n atomic.Int32
	port := portOf(t, serve(t, "127.0.0.2", "", ok(&n)))
	many := make([]string, 0, 20)
	for i := range 20 {
		many = append(many, fmt.Sprintf("127.0.1.%d", i))
	}
	c := newClient(t, Options{
		Allow: prefixes("127.0.0.2/31", "127.0.1.0/24"), // 127.0.0.2 and .3
		Resolver: resolver(t, map[string][][]string{
			"mixed.test":   {{"10.0.0.1", "127.0.0.2"}},
			"mixed6.test":  {{"fd00::1", "127.0.0.2"}},
			"dead.test":    {{"127.0.0.1", "127.0.0.3"}},
			"private.test": {{"10.0.0.1", "169.254.169.254", "::1"}},
			"mapped.test":  {{"::ffff:127.0.0.1"}},
			"nat64.test":   {{"64:ff9b::a9fe:a9fe"}},
			"zero.test":    {{"0.0.0.0"}},
			"empty.test":   {{}},
			"many.test":    {many},
		}),
	})
	for host, want := range map[string]Failure{
		"mixed.test": FailureNone, "mixed6.test": FailureNone, "dead.test": FailureConnect, "private.test": FailureRefused,
		"mapped.test": FailureRefused, "nat64.test": FailureRefused, "zero.test": FailureRefused,
		"empty.test": FailureConnect, "unknown.test": FailureConnect, "many.test": FailureConnect,
	} {
		_, err := send(t.Context(), c, "http://"+host+":"+port+"/")
		if got := Classify(err); got != want {
			t.Errorf("%s: %v (%v), want %v", host, got, err, want)
		}
		var refused *RefusedError
		if want != FailureRefused && errors.As(err, &refused) {
			t.Errorf("%s: %v holds a refusal", host, err)
		}
	}
}

// A full-width "１２７。０。０。１" becomes 127.0.0.1 on its way to the dialler, and is
// refused there.
func TestHostsInOtherDigits(t *testing.T) { bothWays(t, testHostsInOtherDigits) }

func testHostsInOtherDigits(t *testing.T, send way) {
	c := newClient(t, Options{})
	_, err := send(t.Context(), c, "http://\uff11\uff12\uff17\u3002\uff10\u30020\u30021:8/")
	if Classify(err) != FailureRefused {
		t.Errorf("%v, want a refusal", err)
	}
}

func TestLongAnswersAreNoPortScan(t *testing.T) {
	a := &attempt{client: newClient(t, Options{})}
	allowed := 0
	for range 100 {
		if a.control(t.Context(), "tcp", "8.8.8.8:443", nil) == nil {
			allowed++
		}
	}
	if allowed != maxAddresses {
		t.Errorf("%d addresses tried, want %d", allowed, maxAddresses)
	}
}

// A redirect is an answer; body and signature go nowhere else (spec.md 7.5).
func TestRedirectsAreNotFollowed_HUB25(t *testing.T) {
	var there atomic.Int32
	target := serve(t, "127.0.0.1", "", ok(&there))
	for _, status := range []int{301, 302, 303, 307, 308} {
		addr := serve(t, "127.0.0.1", "", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://"+target+"/")
			http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
			w.WriteHeader(status)
		})
		req, _ := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://"+addr+"/", strings.NewReader("x"))
		if got, _, err := do(loopback(t), req); err != nil || got != status {
			t.Fatalf("%d: %d, %v", status, got, err)
		}
	}
	if there.Load() != 0 {
		t.Error("a redirect was followed")
	}
}

// What the server sees: no cookie it set, no compression asked for, one
// User-Agent, the query as it stands; and the request stays as it was.
func TestRequestsOnTheWire_HUB40(t *testing.T) {
	var got *http.Request
	addr := serve(t, "127.0.0.1", "", func(w http.ResponseWriter, r *http.Request) {
		got = r
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
		w.Header().Set("Content-Encoding", "gzip")
		var z bytes.Buffer
		zw := gzip.NewWriter(&z)
		_, _ = zw.Write(make([]byte, 1<<20))
		_ = zw.Close()
		_, _ = w.Write(z.Bytes())
	})
	c := newClient(t, Options{Allow: DevAllow(), UserAgent: "rshub/1 (+https://hub.example/)"})
	for range 2 {
		body, err := get(c, "http://"+addr+"/cb?b=2&a=1&b=%41")
		if err != nil {
			t.Fatal(err)
		}
		if len(body) > 10_000 {
			t.Errorf("the body was unpacked to %d bytes", len(body))
		}
		h := got.Header
		if h.Get("User-Agent") != "rshub/1 (+https://hub.example/)" || h.Get("Accept-Encoding") != "" || h.Get("Cookie") != "" {
			t.Errorf("headers %v", h)
		}
		if got.RequestURI != "/cb?b=2&a=1&b=%41" || got.Proto != "HTTP/1.1" {
			t.Errorf("%s %s", got.RequestURI, got.Proto)
		}
	}
	req := &http.Request{Method: http.MethodGet, URL: mustURL(t, "http://"+addr+"/")}
	if _, _, err := do(c, req); err != nil {
		t.Fatal(err)
	}
	if req.Header != nil {
		t.Error("Do changed the request")
	}
	req.Header = http.Header{"User-Agent": {"mine"}}
	if _, _, err := do(c, req); err != nil {
		t.Fatal(err)
	}
	if ua := got.UserAgent(); ua != "mine" {
		t.Errorf("User-Agent %q", ua)
	}
}

// A proxy named by the environment would dial unguarded.
func TestProxyFromTheEnvironmentIsIgnored(t *testing.T) {
	bothWays(t, testProxyFromTheEnvironmentIsIgnored)
}

func testProxyFromTheEnvironmentIsIgnored(t *testing.T, send way) {
	var proxied, direct atomic.Int32
	proxy := serve(t, "127.0.0.1", "", ok(&proxied))
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, "http://"+proxy)
	}
	port := portOf(t, serve(t, "127.0.0.2", "", ok(&direct)))
	c := newClient(t, Options{Allow: DevAllow(), Resolver: resolver(t, map[string][][]string{"direct.test": {{"127.0.0.2"}}})})
	if _, err := send(t.Context(), c, "http://direct.test:"+port+"/"); err != nil {
		t.Fatal(err)
	}
	if proxied.Load() != 0 || direct.Load() != 1 || c.kept.Proxy != nil || c.fresh.Proxy != nil {
		t.Errorf("%d proxied, %d direct", proxied.Load(), direct.Load())
	}
}

func TestConnectionsAreKept(t *testing.T) {
	var n atomic.Int32
	addr := serve(t, "127.0.0.1", "", ok(&n))
	c := loopback(t)
	reused := func(ctx context.Context) (was bool) {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { was = i.Reused }})
		if _, err := getWith(ctx, c, "http://"+addr+"/"); err != nil {
			t.Fatal(err)
		}
		return was
	}
	if reused(t.Context()) || !reused(t.Context()) {
		t.Error("the second request did not use the connection of the first")
	}
	// Under a budget each request is counted at its address: it dials.
	b := NewBudget(10)
	for range 2 {
		ctx, _, _ := b.Begin(t.Context(), noon, addr)
		if reused(ctx) {
			t.Error("a request under a budget did not dial")
		}
	}
}

// Two names of one address, and a budget of one.
func TestBudgetOfTheDialledAddress(t *testing.T) {
	var n atomic.Int32
	port := portOf(t, serve(t, "127.0.0.2", "", ok(&n)))
	c := newClient(t, Options{Allow: DevAllow(), Resolver: resolver(t, map[string][][]string{"a.test": {{"127.0.0.2"}}, "b.test": {{"127.0.0.2"}}})})
	b := NewBudget(1)
	send := func(host string) (confirm func(), _ error) {
		ctx, confirm, wait := b.Begin(t.Context(), noon, host)
		if wait > 0 {
			t.Fatalf("%s had no place", host)
		}
		_, err := getWith(ctx, c, "http://"+host+":"+port+"/")
		return confirm, err
	}
	first, err := send("a.test")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // what is not sent costs no place of its host
		_, err = send("b.test")
		var spent *BudgetError
		if !errors.As(err, &spent) || spent.Wait < 50*time.Second || Classify(err) != FailureBudget {
			t.Fatalf("%v, want *BudgetError", err)
		}
	}
	first()
	if _, err = send("b.test"); err != nil {
		t.Errorf("after the first was confirmed: %v", err)
	}
	if n.Load() != 2 {
		t.Errorf("%d requests, want 2", n.Load())
	}
}

// Post keeps its connections too, and counts requests under a budget at the address that is
// dialled.
func TestPostConnects(t *testing.T) {
	var n, connections atomic.Int32
	s := httptest.NewUnstartedServer(ok(&n))
	s.Config.ConnState = func(_ net.Conn, st http.ConnState) {
		if st == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	c := loopback(t)
	for range 3 {
		if a, err := c.Post(t.Context(), postTo(s.URL)); err != nil || a.Status != 200 {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	if connections.Load() != 1 {
		t.Errorf("%d connections for three requests", connections.Load())
	}
	c.CloseIdleConnections()
	b := NewBudget(1)
	for i := range 2 {
		ctx, _, _ := b.Begin(t.Context(), noon, fmt.Sprint("host", i, ".test"))
		_, err := c.Post(ctx, postTo(s.URL))
		if spent := errors.As(err, new(*BudgetError)); spent != (i == 1) {
			t.Errorf("request %d under a budget of 1: %v", i, err)
		}
	}
	if n.Load() != 4 || connections.Load() != 2 {
		t.Errorf("%d requests on %d connections, want 4 on 2", n.Load(), connections.Load())
	}
}

func TestReadBody(t *testing.T) {
	for _, tc := range []struct {
		n, limit int64
		ok       bool
	}{{0, 0, true}, {10, 10, true}, {11, 10, false}, {1, 0, false}, {1, -5, false}, {10, 1<<63 - 1, true}} {
		b, err := ReadBody(bytes.NewReader(make([]byte, tc.n)), tc.limit)
		if tc.ok != (err == nil) || tc.ok && int64(len(b)) != tc.n || !tc.ok && !errors.Is(err, ErrTooLarge) {
			t.Errorf("%d bytes, limit %d: %d, %v", tc.n, tc.limit, len(b), err)
		}
	}
	if _, err := ReadBody(endless{}, 1<<16); !errors.Is(err, ErrTooLarge) {
		t.Errorf("an endless body: %v", err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestHostPort(t *testing.T) {
	for raw, want := range map[string]string{
		"http://Example.org/x":    "example.org:80",
		"HTTPS://example.org./":   "example.org:443",
		"http://example.org:8080": "example.org:8080",
		"http://[::1]/":           "[::1]:80",

		// Other spellings of the same hosts.
		"http://example.org:08080":        "example.org:8080",
		"http://example.org:000080/":      "example.org:80",
		"http://example.org:/":            "example.org:80",
		"http://example.org../":           "example.org:80",
		"http://example.org:0/":           "example.org:0",
		"http://[0:0::0001]:080/":         "[::1]:80",
		"https://[2001:DB8:0::1]/":        "[2001:db8::1]:443",
		"http://[::FFFF:c000:201]/":       "192.0.2.1:80",
		"http://[::ffff:192.0.2.1]:0443/": "192.0.2.1:443",
		"http://[fe80:0::1%25eth0]/":      "[fe80::1%eth0]:80",
	} {
		if got := HostPort(mustURL(t, raw)); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
		if got := HostPortOf(raw); got != want {
			t.Errorf("of the text %s: %s, want %s", raw, got, want)
		}
	}
	for text, want := range map[string]string{
		"Example.org.": "example.org", "example.org:080": "example.org:80", "192.0.2.1": "192.0.2.1", "[::ffff:c000:201]:0443": "192.0.2.1:443",
		"2001:DB8:0::1": "2001:db8::1", "[2001:db8:0::1]": "2001:db8::1", "[2001:DB8::01]:8443": "[2001:db8::1]:8443", "%zz": "%zz", "": "",
	} {
		if got := Host(text); got != want {
			t.Errorf("the host %q: %q, want %q", text, got, want)
		}
	}
	for _, raw := range []string{"", "/path", "http://%zz/", "http:///x", "http://a b/", "mailto:a@example.org"} {
		if got := HostPortOf(raw); got != "" {
			t.Errorf("%s: %s", raw, got)
		}
	}
}

func mustURL(t *testing.T, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// What needs no parsing has the same host as if it were parsed.
func TestPlainHostPort(t *testing.T) {
	pieces := []string{
		"http://", "https://", "HTTP://", "ftp://", "//", "h", "h.example", "H", "1.2.3.4", "[::1]", ".", "-", "_", "ü", ":", ":80", ":080", ":8443", ":x", "@",
		"/", "/a", "?", "?q=1", "#", "#f", "%", "%41", "%zz", " ", "\t", "\x7f", "\\", "",
	}
	rnd, plain := rand.New(rand.NewPCG(1, 1)), 0
	for range 200_000 {
		raw := pieces[rnd.IntN(3)]
		for range rnd.IntN(6) {
			raw += pieces[rnd.IntN(len(pieces))]
		}
		got, ok := plainHostPort(raw)
		if !ok {
			continue
		}
		plain++
		if u, err := url.Parse(raw); err != nil || u.Host == "" || HostPort(u) != got {
			t.Fatalf("%q: %q, but parsed it is %v %v", raw, got, u, err)
		}
	}
	if _, ok := plainHostPort("https://h.example/callback/1?a=b"); !ok || plain < 1000 {
		t.Errorf("%d were plain", plain)
	}
}

func TestIsHost(t *testing.T) {
	for text, want := range map[string]bool{
		"a.example": true, "a.example:8080": true, "127.0.0.1": true, "[::1]:8080": true, "::1": true,
		"": false, "http://a.example/": false, "a.example/": false, "a.example:http": false, "user@a.example": false, "a b": false, "a?b": false,
	} {
		if got := IsHost(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
