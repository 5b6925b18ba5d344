package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestClassify(t *testing.T) { bothWays(t, testClassify) }

func testClassify(t *testing.T, send way) {
	hang := make(chan struct{})
	defer close(hang)
	slow := serve(t, "127.0.0.1", "", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			_, _ = io.WriteString(w, "part")
			_ = http.NewResponseController(w).Flush()
		}
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	})
	header := serve(t, "127.0.0.1", "", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("x", 1<<20))
	})
	reset := serve(t, "127.0.0.1", "", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	garbage := rawServer(t, "SSH-2.0-OpenSSH\r\n\r\n")
	silent := rawServer(t, "")
	closed := closedPort(t)
	c := newClient(t, Options{Allow: DevAllow(), TLSTimeout: 50 * time.Millisecond, Resolver: resolver(t, nil)})
	for _, tc := range []struct {
		name, url string
		limit     time.Duration
		want      Failure
	}{
		{"no answer", "http://" + slow + "/", 50 * time.Millisecond, FailureTimeout},
		{"nothing listens", "http://" + closed + "/", 0, FailureConnect},
		{"no such name", "http://nowhere.test/", 0, FailureConnect},
		{"slow handshake", "https://" + silent + "/", 0, FailureConnect},
		{"not TLS", "https://" + garbage + "/", 0, FailureConnect},
		{"not HTTP", "http://" + garbage + "/", 0, FailureOther},
		{"broken off", "http://" + reset + "/", 0, FailureOther},
		{"endless header", "http://" + header + "/", 0, FailureOther},
		{"refused", "http://169.254.169.254/", 0, FailureRefused},
		{"other scheme", "ftp://" + slow + "/", 0, FailureOther},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if tc.limit > 0 {
			ctx, cancel = context.WithTimeout(t.Context(), tc.limit)
		}
		_, err := send(ctx, c, tc.url+"secret-path?token=1")
		cancel()
		if got := Classify(err); got != tc.want {
			t.Errorf("%s: %v (%v), want %v", tc.name, got, err, tc.want)
		}
		if err != nil && (strings.Contains(err.Error(), "secret-path") || strings.Contains(err.Error(), "token=1")) {
			t.Errorf("%s: the error quotes the URL: %v", tc.name, err)
		}
	}
	// Post has its answer before that.
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := getWith(ctx, c, "http://"+slow+"/body"); Classify(err) != FailureTimeout {
		t.Errorf("no end of the body: %v", err)
	}
	if got := Classify(nil); got != FailureNone {
		t.Errorf("nil: %v", got)
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if _, err := send(ctx, c, "http://"+slow+"/"); Classify(err) != FailureOther {
		t.Errorf("cancelled: %v", err)
	}
}

// Connecting, a name server that does not answer included, takes 5 s at most.
func TestConnectTimeout(t *testing.T) { bothWays(t, testConnectTimeout) }

func testConnectTimeout(t *testing.T, send way) {
	// Net reads its settings at the first look-up. In a bubble they would stay there.
	_, _ = resolver(t, nil).LookupHost(t.Context(), "nowhere.test")
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, Options{Resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}})
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := send(ctx, c, "http://silent.test/")
		if took := time.Since(start); Classify(err) != FailureConnect || took != DefaultConnectTimeout {
			t.Errorf("%v after %v, want a connect failure after %v", err, took, DefaultConnectTimeout)
		}
	})
}

func TestTLS(t *testing.T) { bothWays(t, testTLS) }

func testTLS(t *testing.T, send way) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTeapot) // so that Post returns the body
		_, _ = fmt.Fprintf(w, "%s %v", r.Proto, r.TLS.DidResume)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	names := resolver(t, map[string][][]string{"example.com": {{"127.0.0.1"}}, "other.test": {{"127.0.0.1"}}})
	port := portOf(t, s.Listener.Addr().String())

	c := newClient(t, Options{Allow: DevAllow(), RootCAs: roots, Resolver: names})
	for i, want := range []string{"HTTP/1.1 false", "HTTP/1.1 true"} {
		got, err := send(t.Context(), c, "https://example.com:"+port+"/")
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("request %d: %q, want %q", i+1, got, want)
		}
		c.CloseIdleConnections()
	}
	// A certificate that is not accepted is a connect failure, and says what it is.
	notAccepted := func(err error, advice string) bool {
		var bad *CertificateError
		return Classify(err) == FailureConnect && errors.As(err, &bad) && strings.Contains(err.Error(), advice)
	}
	if _, err := send(t.Context(), c, "https://other.test:"+port+"/"); !notAccepted(err, "a certificate for this name") {
		t.Errorf("a certificate of another name: %v", err)
	}
	unknown := newClient(t, Options{Allow: DevAllow(), Resolver: names})
	if _, err := send(t.Context(), unknown, "https://example.com:"+port+"/"); !notAccepted(err, "--ca-file") {
		t.Errorf("an unknown authority: %v", err)
	}

	old := httptest.NewUnstartedServer(http.NotFoundHandler())
	old.TLS = &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}
	old.StartTLS()
	defer old.Close()
	roots.AddCert(old.Certificate())
	if _, err := send(t.Context(), c, "https://example.com:"+portOf(t, old.Listener.Addr().String())+"/"); Classify(err) != FailureConnect || notAccepted(err, "") {
		t.Errorf("TLS 1.1: %v", err)
	}
}

// Each way in which a server does not speak the protocol that it is asked in has an error for people.
func TestWrongProtocol(t *testing.T) {
	c := newClient(t, Options{Allow: DevAllow()})
	expired := &CertificateError{x509.CertificateInvalidError{Reason: x509.Expired}}
	if got := expired.Error(); !strings.Contains(got, "valid now") || strings.Contains(got, "SSL_CERT_FILE") {
		t.Error(got)
	}
	for _, test := range []struct{ scheme, answer, want string }{
		{"https", "HTTP/1.0 400 Bad Request\r\n\r\n", "speaks plain HTTP at this port"},
		{"https", "SSH-2.0-OpenSSH\r\n", "does not speak TLS at this port"},
		{"http", "SSH-2.0-OpenSSH\r\n", "does not speak HTTP at this port"},
		{"http", "\x15\x03\x01\x00\x02\x02\x16\r\n", "speaks TLS at this port"},
	} {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() { // one answer, after the request has begun: net/http drops what comes before it
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = io.WriteString(conn, test.answer)
			_ = conn.Close()
		}()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, test.scheme+"://"+l.Addr().String()+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = c.Do(req); err == nil { //nolint:bodyclose // there is none
			t.Fatalf("%s %q: an answer", test.scheme, test.answer)
		}
		if got := Unanswered(err).Error(); !strings.Contains(got, test.want) {
			t.Errorf("%s %q: %s", test.scheme, test.answer, got)
		}
		_ = l.Close()
	}
}

// rawServer answers every connection with some bytes, none: it stays silent.
func rawServer(t *testing.T, answer string) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var conns []net.Conn
		for {
			conn, err := l.Accept()
			if err != nil {
				break
			}
			_, _ = io.WriteString(conn, answer)
			if answer != "" {
				_ = conn.Close()
			}
			conns = append(conns, conn)
		}
		for _, conn := range conns {
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String()
}

// closedPort is an address where nothing listens, and nothing else can until the
// test ends: it is the far end of a connection.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn.LocalAddr().String()
}

// While this process may open no more files, its requests fail by its own fault, whether it is an address
// that is called or a name that has to be looked up first.
func TestNoFileIsLeft(t *testing.T) { bothWays(t, testNoFileIsLeft) }

func testNoFileIsLeft(t *testing.T, send way) {
	addr := serve(t, "127.0.0.1", "", func(http.ResponseWriter, *http.Request) {})
	c := newClient(t, Options{Allow: DevAllow()})
	var limit, none syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none.Max = limit.Max                                                                // Cur is 0
	if _, err := net.DefaultResolver.LookupHost(t.Context(), "localhost"); err != nil { // reads which name servers there are
		t.Fatal(err)
	}
	for _, url := range []string{"http://" + addr + "/", "https://" + addr + "/", "http://name.invalid/"} {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
			t.Fatal(err)
		}
		_, err := send(t.Context(), c, url)
		if back := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); back != nil {
			t.Fatal(back)
		}
		if Classify(err) != FailureOwn || !strings.Contains(err.Error(), "LimitNOFILE") {
			t.Errorf("%s: %v, want a failure of this process", url, err)
		}
	}
	if _, err := send(t.Context(), c, "http://"+addr+"/"); err != nil {
		t.Error(err)
	}
}

// A person reads what happened in place of EOF, and still whose fault it is if the proxy, or the handshake of TLS, ended.
func TestUnanswered(t *testing.T) {
	const address = "http://h.example/secret"
	for want, err := range map[string]error{
		"the server closed the connection before it answered": &url.Error{Op: "Get", URL: address, Err: io.EOF},
		"asking the proxy: EOF (--egress-proxy)":              &url.Error{Op: "Get", URL: address, Err: noProxy("asking the proxy: ", io.EOF)},
		"connect to h.example:443: EOF":                       noConnection("connect to h.example:443: %w", io.EOF),
		"unexpected EOF":                                      &url.Error{Op: "Get", URL: address, Err: io.ErrUnexpectedEOF},
	} {
		got := Unanswered(err)
		if got.Error() != want || Classify(got) != Classify(err) {
			t.Errorf("%q, want %q; %v, was %v", got, want, Classify(got), Classify(err))
		}
	}
}
