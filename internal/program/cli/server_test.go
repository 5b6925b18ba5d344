package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// opened is a server as flags describe it, at a free port.
func opened(t *testing.T, dev bool, args ...string) (*Server, error) {
	t.Helper()
	var f ServerFlags
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.Add(flags, "0", "to listen on")
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	s, err := f.Open(t.Context(), dev, "test", slog.New(slog.DiscardHandler))
	if err == nil {
		t.Cleanup(func() { s.Stop(t.Context(), 0) })
	}
	return s, err
}

// With --dev a command is reached from its own machine alone, unless --listen says
// otherwise.
func TestServerOfDevListensOnLoopback(t *testing.T) {
	for _, c := range []struct {
		dev      bool
		args     []string
		loopback bool
	}{
		{true, nil, true}, {false, nil, false}, {true, []string{"--listen", ":0"}, false}, {false, []string{"--listen", "127.0.0.1:0"}, true},
	} {
		s, err := opened(t, c.dev, c.args...)
		if err != nil {
			t.Fatal(err)
		}
		at, ok := s.Addr().(*net.TCPAddr)
		if !ok || at.IP.IsLoopback() != c.loopback {
			t.Errorf("dev %t, %q: it listens on %v", c.dev, c.args, s.Addr())
		}
	}
}

// pair writes a certificate and its key, each as a whole.
func pair(t *testing.T, dir string, serial int64, until time.Time) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), DNSNames: []string{"localhost"}, NotBefore: until.Add(-24 * time.Hour), NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key, pool = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), x509.NewCertPool()
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		text := pem.EncodeToMemory(block)
		pool.AppendCertsFromPEM(text)
		if err := os.WriteFile(name+".new", text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(name+".new", name); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key, pool
}

// With --tls-cert a command speaks https alone, and shows a certificate that replaces
// the one of the start; requests pass the same ingress as those to a hub.
func TestServerSpeaksHTTPS(t *testing.T) {
	dir, later := t.TempDir(), time.Now().Add(12*time.Hour)
	cert, key, pool := pair(t, dir, 1, later)
	s, err := opened(t, true, "--tls-cert", cert, "--tls-key", key)
	if err != nil {
		t.Fatal(err)
	}
	s.Serve(t.Context(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/mistake" {
			panic("x")
		}
		_, _ = io.WriteString(w, "hello")
	}))
	// ask returns an answer without its body.
	ask := func(pool *x509.CertPool, path string) (http.Response, error) {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL("localhost")+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			return http.Response{}, err
		}
		return http.Response{StatusCode: resp.StatusCode, Header: resp.Header, ProtoMajor: resp.ProtoMajor, TLS: resp.TLS}, resp.Body.Close()
	}
	resp, err := ask(pool, "")
	if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("X-Request-Id") == "" || resp.ProtoMajor != 1 {
		t.Fatalf("%v %v", resp, err)
	}
	if resp, err := ask(pool, "mistake"); err != nil || resp.StatusCode != http.StatusInternalServerError || resp.Header.Get("X-Request-Id") == "" {
		t.Errorf("%v %v", resp, err)
	}
	clear, err := http.Get("http://" + s.Addr().String() + "/") //nolint:noctx // a test
	if err != nil || clear.StatusCode != http.StatusBadRequest {
		t.Errorf("without TLS: %v %v", clear, err)
	} else {
		_ = clear.Body.Close()
	}
	_, _, pool = pair(t, dir, 2, later)
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		resp, err := ask(pool, "")
		if err == nil {
			if n := resp.TLS.PeerCertificates[0].SerialNumber.Int64(); n != 2 {
				t.Errorf("certificate %d", n)
			}
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the new certificate is not shown: %v", err)
		}
	}
}

// What can't be served is refused before the address is opened.
func TestServerRefuses(t *testing.T) {
	cert, key, _ := pair(t, t.TempDir(), 1, time.Now().Add(-time.Hour))
	for want, args := range map[string][]string{
		"go together":              {"--tls-cert", cert},
		"name both files":          {"--tls-key", key},
		"has run out":              {"--tls-cert", cert, "--tls-key", key},
		"in PEM form":              {"--tls-cert", key, "--tls-key", key},
		"not a range of addresses": {"--trusted-proxy", "10.0.0.1/33"},
	} {
		if _, err := opened(t, true, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}

// One network, unless it is a proxy's, has 256 connections; the one that waited longest
// without a request makes room for another.
func TestServerBoundsConnections(t *testing.T) {
	for name, args := range map[string][]string{"a network": {"--trusted-proxy", ""}, "a proxy": nil} {
		s, err := opened(t, true, args...)
		if err != nil {
			t.Fatal(err)
		}
		s.Serve(t.Context(), http.NotFoundHandler())
		var first net.Conn
		for i := range 257 {
			c, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			if i == 0 {
				first = c
			}
			if i < 256 {
				continue
			}
			// The server has seen all of them once it answers the last one.
			_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
			if _, err := c.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
		wait := 10 * time.Second // it is shut before that, and the limit of a header is as long
		if name == "a proxy" {
			wait = 50 * time.Millisecond
		}
		_ = first.SetReadDeadline(time.Now().Add(wait))
		_, err = first.Read(make([]byte, 1))
		if shut := errors.Is(err, io.EOF) || err != nil && strings.Contains(err.Error(), "reset"); shut != (name == "a network") {
			t.Errorf("%s: the first connection: %v", name, err)
		}
	}
}
