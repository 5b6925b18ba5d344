package app

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rshub/rshub/internal/base/ingress"
	"github.com/rshub/rshub/internal/engine/telemetry"
)

// pair is a self-signed certificate and its key, as the files have them.
type pair struct{ cert, key []byte }

// newPair makes one that is good until then, from a tenth of a year ago.
func newPair(t *testing.T, serial int64, until time.Time) pair {
	t.Helper()
	return newPairFrom(t, serial, time.Now().Add(-36*24*time.Hour), until)
}

func newPairFrom(t *testing.T, serial int64, from, until time.Time) pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "hub"}, DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: from, NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pair{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	}
}

// files are where a pair is, as --tls-cert and --tls-key name it.
type files struct{ cert, key string }

func newFiles(t *testing.T, p pair) files {
	t.Helper()
	dir := t.TempDir()
	f := files{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	f.put(t, p)
	return f
}

// put replaces both files, each as a whole.
func (f files) put(t *testing.T, p pair) {
	t.Helper()
	for name, data := range map[string][]byte{f.cert: p.cert, f.key: p.key} {
		if err := os.WriteFile(name+".new", data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(name+".new", name); err != nil {
			t.Fatal(err)
		}
	}
}

func serialOf(c *ingress.Certificate) int64 { return c.Leaf().SerialNumber.Int64() }

func nextYear() time.Time { return time.Now().Add(365 * 24 * time.Hour) }

// The hub uses a new pair. If it is invalid, the hub goes on with the old one, and the log says so
// once.
func TestCertificateIsReadAgain(t *testing.T) {
	core, logs := observer.New(zapcore.InfoLevel)
	one, two := newPair(t, 1, nextYear()), newPair(t, 2, nextYear())
	f := newFiles(t, one)
	c, err := newCertificate(publicName, "--tls-cert, --tls-key", f.cert, f.key, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	step := func(what string, do func(), serial int64, event string) {
		t.Helper()
		logs.TakeAll()
		do()
		for range 3 {
			_, _ = c.check(time.Now())
		}
		if got := serialOf(c.Certificate); got != serial {
			t.Errorf("%s: certificate %d, want %d", what, got, serial)
		}
		lines := logs.All()
		if event == "" && len(lines) == 0 {
			return
		}
		if len(lines) != 1 || lines[0].ContextMap()["event"] != event {
			t.Errorf("%s: %v, want one line %q", what, lines, event)
		}
	}
	step("no change", func() {}, 1, "")
	step("a new pair", func() { f.put(t, two) }, 2, "tls_loaded")
	step("a key that is another's", func() { f.put(t, pair{two.cert, one.key}) }, 2, "tls_reload_failed")
	step("the certificate follows", func() { f.put(t, one) }, 1, "tls_loaded")
	step("no PEM", func() { f.put(t, pair{[]byte("x"), two.key}) }, 1, "tls_reload_failed")
	step("half a file", func() { f.put(t, pair{two.cert[:200], two.key}) }, 1, "tls_reload_failed")
	step("empty", func() { f.put(t, pair{}) }, 1, "tls_reload_failed")
	step("run out", func() { f.put(t, newPair(t, 3, time.Now().Add(-time.Hour))) }, 1, "tls_reload_failed")
	step("gone", func() { _ = os.Remove(f.key) }, 1, "tls_reload_failed")
	step("back", func() { f.put(t, two) }, 2, "tls_loaded")
	step("touched", func() { _ = os.Chtimes(f.cert, time.Time{}, time.Now().Add(time.Second)) }, 2, "tls_loaded")
	step("another file, like the one before", func() {
		now, _ := os.Stat(f.key)
		_ = os.WriteFile(f.key+".new", two.key, 0o600)
		_ = os.Chtimes(f.key+".new", time.Time{}, now.ModTime())
		_ = os.Rename(f.key+".new", f.key)
	}, 2, "tls_loaded")
	step("written in place", func() {
		now, _ := os.Stat(f.key)
		_ = os.WriteFile(f.key, append(two.key, '\n'), 0o600)
		_ = os.Chtimes(f.key, time.Time{}, now.ModTime()) // in the same tick of the clock
	}, 2, "tls_loaded")
}

// No hub starts with a certificate that has expired or is not valid yet: every client would refuse it,
// and nothing would say why.
func TestCertificateIsGoodAtTheStart(t *testing.T) {
	now := time.Now()
	for want, p := range map[string]pair{
		"has run out: it was good until": newPair(t, 1, now.Add(-time.Hour)),
		"is not good before":             newPairFrom(t, 1, now.Add(time.Hour), nextYear()),
	} {
		f := newFiles(t, p)
		a := newApp(t, "--tls-cert="+f.cert, "--tls-key="+f.key)
		err := a.Start(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--tls-cert") {
			t.Errorf("%v, want %q", err, want)
		}
		if err == nil {
			_ = a.Stop(context.WithoutCancel(t.Context()))
		}
	}
}

// A certificate that is not valid yet is used as soon as it is, without another change.
func TestCertificateOfLater(t *testing.T) {
	core, logs := observer.New(zapcore.InfoLevel)
	from := time.Now().Add(time.Hour).Truncate(time.Second)
	f := newFiles(t, newPair(t, 1, nextYear()))
	c, err := newCertificate(publicName, "--tls-cert, --tls-key", f.cert, f.key, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	f.put(t, newPairFrom(t, 2, from, nextYear()))
	_, _ = c.check(time.Now()) // a change counts when it is seen twice
	logs.TakeAll()
	for _, tc := range []struct {
		at     time.Time
		serial int64
		event  string
	}{
		{time.Now(), 1, "tls_reload_failed"}, {from.Add(-1), 1, ""}, {from, 2, "tls_loaded"}, {from.Add(time.Hour), 2, ""},
	} {
		_, _ = c.check(tc.at)
		if got := serialOf(c.Certificate); got != tc.serial {
			t.Errorf("at %v: certificate %d, want %d", tc.at, got, tc.serial)
		}
		lines := logs.TakeAll()
		if tc.event == "" && len(lines) > 0 || tc.event != "" && (len(lines) != 1 || lines[0].ContextMap()["event"] != tc.event) {
			t.Errorf("at %v: %v, want a line %q", tc.at, lines, tc.event)
		}
	}
}

// The files are looked at every few seconds.
func TestCertificateIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := nextYear()
		f := newFiles(t, newPair(t, 1, until))
		c, err := newCertificate(publicName, "--tls-cert, --tls-key", f.cert, f.key, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		a := &App{}
		a.reloads.add(telemetry.ReloadCertificate, c)
		a.stops.background(t.Context(), "files", a.reloads.watch, make(chan error, 1))
		for serial := int64(2); serial < 5; serial++ {
			f.put(t, newPair(t, serial, until))
			time.Sleep(2*ingress.FilesEvery + time.Second)
			synctest.Wait()
			if got := serialOf(c.Certificate); got != serial {
				t.Errorf("certificate %d, want %d", got, serial)
			}
		}
		if err := a.stops.stop(t.Context(), zap.NewNop()); err != nil {
			t.Error(err)
		}
	})
}

// During the last tenth of its life, the log says once a day that the certificate will expire. That
// ends when it is renewed.
func TestCertificateRunsOut(t *testing.T) {
	core, logs := observer.New(zapcore.WarnLevel)
	until := time.Now().Add(324 * 24 * time.Hour) // 360 days in all
	f := newFiles(t, newPair(t, 1, until))
	c, err := newCertificate(publicName, "--tls-cert, --tls-key", f.cert, f.key, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		left  time.Duration
		lines int
	}{{100 * 24, 0}, {37 * 24, 0}, {35 * 24, 1}, {35*24 - 1, 1}, {34 * 24, 2}, {-1, 3}} {
		_, _ = c.check(until.Add(-tc.left * time.Hour))
		if n := logs.FilterField(zap.String("event", "tls_expiring")).Len(); n != tc.lines {
			t.Errorf("%d hours before: %d lines, want %d", tc.left, n, tc.lines)
		}
	}
	f.put(t, newPair(t, 2, until.Add(365*24*time.Hour)))
	_, _ = c.check(until)
	_, _ = c.check(until)
	if n := logs.Len(); n != 3 {
		t.Errorf("%d lines after it was renewed", n)
	}
}

// secured is a hub whose public listener speaks https, with a client that trusts it.
func secured(t *testing.T) (*App, files, *x509.CertPool) {
	t.Helper()
	p := newPair(t, 1, nextYear())
	f := newFiles(t, p)
	a := newApp(t, "--tls-cert="+f.cert, "--tls-key="+f.key, "--topic-check=off", "--require-https-for-secrets")
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(p.cert)
	return a, f, roots
}

// With --tls-cert the hub is at an https URL, speaks TLS 1.2 at least, HTTP/1.1
// alone and nothing without TLS; secrets count as having come safely (HUB-08).
func TestPublicListenerSpeaksHTTPS(t *testing.T) {
	a, _, roots := secured(t)
	if !strings.HasPrefix(a.HubURL(), "https://localhost:") {
		t.Errorf("the hub URI is %s", a.HubURL())
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true, DisableKeepAlives: true}
	client := &http.Client{Transport: transport}
	form := url.Values{
		"hub.mode": {"subscribe"}, "hub.topic": {"http://127.0.0.1:2/t"}, "hub.callback": {"https://127.0.0.1:2/"}, "hub.secret": {"s"},
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.HubURL(), strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted || resp.ProtoMajor != 1 || resp.Header.Get(ingress.HeaderRequestID) == "" {
		t.Errorf("%s %s %s", resp.Proto, resp.Status, body)
	}
	if code, body := get(t, "http://"+a.Addr()+"/"); code != http.StatusBadRequest || !strings.Contains(body, "HTTPS") {
		t.Errorf("without TLS: %d %s", code, body)
	}
	if code, _ := get(t, "http://"+a.AdminAddr()+"/livez"); code != http.StatusOK {
		t.Errorf("the operator's listener: %d", code)
	}
	for version, ok := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		d := tls.Dialer{Config: &tls.Config{RootCAs: roots, MinVersion: version, MaxVersion: version, ServerName: "localhost"}}
		conn, err := d.DialContext(t.Context(), "tcp", a.Addr())
		if (err == nil) != ok {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
		if err == nil {
			_ = conn.Close()
		}
	}
}

// Certificates are replaced under load, and no request fails, neither on old connections nor on new
// ones. In the end the hub uses the last one.
func TestCertificateChangesUnderLoad(t *testing.T) {
	a, f, _ := secured(t)
	const clients, changes = 8, 20
	var requests, connections atomic.Int64
	stop := make(chan struct{})
	var all sync.WaitGroup
	for i := range clients {
		stays := i%2 == 0
		all.Go(func() {
			transport := &http.Transport{
				TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
				DisableKeepAlives: !stays,
			}
			if stays {
				transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
					connections.Add(1)
					return new(net.Dialer).DialContext(ctx, network, addr)
				}
			}
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport}
			for {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.HubURL(), nil)
				if err != nil {
					t.Error(err)
					return
				}
				resp, err := client.Do(req)
				if err != nil {
					t.Errorf("after %d requests: %v", requests.Load(), err)
					return
				}
				_, err = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusOK || err != nil {
					t.Errorf("%s, %v", resp.Status, err)
				}
				requests.Add(1)
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for serial := int64(2); serial < 2+changes; serial++ {
		f.put(t, newPair(t, serial, nextYear()))
		for deadline := time.Now().Add(time.Minute); serialOf(a.public.certificate) != serial; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("certificate %d is not there", serial)
			}
			_, _ = a.public.certificate.Check(time.Now())
		}
		before := requests.Load()
		for requests.Load() < before+clients && !t.Failed() {
			time.Sleep(time.Millisecond)
		}
	}
	close(stop)
	all.Wait()
	if n := connections.Load(); n != clients/2 {
		t.Errorf("%d connections for %d clients that keep theirs", n, clients/2)
	}
	raw, err := new(net.Dialer).DialContext(t.Context(), "tcp", a.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raw.Close() }()
	conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true})
	if err := conn.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if shown := conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(); shown != 1+changes {
		t.Errorf("certificate %d is shown, want %d", shown, 1+changes)
	}
	t.Logf("%d requests while %d certificates came", requests.Load(), changes)
}

// A hub does not start with an invalid certificate, and names the setting.
func TestStartsWithAGoodCertificateOnly(t *testing.T) {
	one, two := newPair(t, 1, nextYear()), newPair(t, 2, nextYear())
	mixed, missing := newFiles(t, pair{one.cert, two.key}), newFiles(t, one)
	if err := os.Remove(missing.cert); err != nil {
		t.Fatal(err)
	}
	for _, f := range []files{mixed, missing} {
		a := newApp(t, "--tls-cert="+f.cert, "--tls-key="+f.key)
		if err := a.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "(--tls-cert") {
			t.Errorf("%v", err)
		}
		a = newApp(t, "--admin-tls-cert="+f.cert, "--admin-tls-key="+f.key)
		if err := a.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "(--admin-tls-cert") {
			t.Errorf("%v", err)
		}
	}
}

// With --admin-tls-cert the operator's listener speaks https alone, whatever the public
// one does, and shows a new pair when its files change.
func TestOperatorsListenerSpeaksHTTPS(t *testing.T) {
	one, two := newPair(t, 1, nextYear()), newPair(t, 2, nextYear())
	f := newFiles(t, one)
	token := filepath.Join(t.TempDir(), "token")
	put(t, token, "the-token-of-the-operator")
	a := newApp(t, "--admin-tls-cert="+f.cert, "--admin-tls-key="+f.key, "--admin-token-file="+token)
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Stop(context.WithoutCancel(t.Context())) }()
	if !strings.HasPrefix(a.HubURL(), "http://") {
		t.Errorf("the hub URI is %s", a.HubURL())
	}
	ask := func(scheme string, p pair) (int, error) {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(p.cert)
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, scheme+"://"+a.AdminAddr()+"/api/v1/info", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer the-token-of-the-operator")
		resp, err := client.Do(req)
		if err != nil {
			return 0, err
		}
		_ = resp.Body.Close()
		return resp.StatusCode, nil
	}
	if status, err := ask("https", one); status != http.StatusOK {
		t.Errorf("by https: %d, %v", status, err)
	}
	if status, _ := ask("http", one); status != http.StatusBadRequest {
		t.Errorf("by http: %d", status)
	}
	f.put(t, two)
	done := a.reloads.reload()
	if status, err := ask("https", two); status != http.StatusOK {
		t.Errorf("with the new certificate: %d, %v", status, err)
	}
	if _, err := ask("https", one); err == nil {
		t.Error("the old certificate is shown")
	}
	if len(done) != 3 || done[2].What != "certificate of the operator's listener" || done[2].File != f.cert {
		t.Errorf("%+v", done)
	}
}
