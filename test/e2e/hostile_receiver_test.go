package e2e

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// act is what a hostile callback does once it has read the header of a request.
// The connection is closed when it returns.
type act func(c net.Conn, r *http.Request)

// says reads the request and answers as written.
func says(text string) act {
	return func(c net.Conn, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(c, text)
	}
}

// endless reads the request and says again and again, every pause.
func endless(begin, again string, pause time.Duration) act {
	return func(c net.Conn, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, err := io.WriteString(c, begin)
		for err == nil {
			time.Sleep(pause)
			_, err = io.WriteString(c, again)
		}
	}
}

func hold(c net.Conn, _ *http.Request) { _, _ = io.Copy(io.Discard, c) }

// treatments are ways to treat a hub.
var treatments = map[string]act{
	"hangs":       hold,
	"never reads": func(net.Conn, *http.Request) { time.Sleep(time.Minute) },
	"hangs up":    func(net.Conn, *http.Request) {},
	"resets": func(c net.Conn, _ *http.Request) {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
	},
	"answers first": func(c net.Conn, r *http.Request) {
		_, _ = io.WriteString(c, "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")
		hold(c, r)
	},
	"too late": func(c net.Conn, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		time.Sleep(12 * time.Second)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	},
	"drips":           endless("HTTP/1.1 200 OK\r\nX: ", "x", 100*time.Millisecond),
	"drips a body":    endless("HTTP/1.1 500 No\r\n\r\n", "x", 100*time.Millisecond),
	"flood":           endless("HTTP/1.1 500 No\r\n\r\n", strings.Repeat("x", 1<<16), 0),
	"gzip bomb":       endless("HTTP/1.1 500 No\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", strings.Repeat("\x00", 1<<16), 0),
	"endless headers": endless("HTTP/1.1 200 OK\r\n", strings.Repeat("X-Y: z\r\n", 1000), 0),
	"huge header":     endless("HTTP/1.1 200 OK\r\nX: ", strings.Repeat("z", 1<<16), 0),
	"1xx flood":       endless("", strings.Repeat("HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n", 100), 0),
	"chunks":          endless("HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\n", strings.Repeat("x", 1<<16), 0),
	"redirect":        says("HTTP/1.1 307 Here\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n"),
	"HTTP/0.9":        says("<html>hello</html>"),
	"two lengths":     says("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx"),
	"unasked answers": says(strings.Repeat("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", 1000)),
	"wait for ever":   says("HTTP/1.1 503 Busy\r\nRetry-After: " + strings.Repeat("9", 5000) + "\r\nContent-Length: 0\r\n\r\n"),
	"wait for less":   says("HTTP/1.1 429 Busy\r\nRetry-After: -5\r\nContent-Length: 0\r\n\r\n"),
}

// evil is a callback's host that treats the hub as a says, once turned; before
// that it confirms what it is asked.
type evil struct {
	addr   string
	turned atomic.Bool
	asked  atomic.Int64 // connections since it turned
}

func newEvil(t *testing.T, a act) *evil {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	e := &evil{addr: l.Addr().String()}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go e.serve(c, a)
		}
	}()
	return e
}

func (e *evil) serve(c net.Conn, a act) {
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
	r, err := http.ReadRequest(bufio.NewReader(c))
	switch {
	case err != nil:
	case e.turned.Load():
		e.asked.Add(1)
		a(c, r)
	default:
		challenge := r.URL.Query().Get("hub.challenge")
		_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(challenge), challenge)
	}
}

// badTLS returns TLS servers that confirm, and once turned present what no client
// should take; and the file of the authority that the hub trusts.
func badTLS(t *testing.T) (hosts map[string]*evil, caFile string) {
	t.Helper()
	ca, other := newAuthority(t), newAuthority(t)
	now := time.Now()
	good := ca.issue(t, "127.0.0.1", now.Add(time.Hour))
	hosts = map[string]*evil{}
	for name, cfg := range map[string]*tls.Config{
		"expired":     {Certificates: []tls.Certificate{ca.issue(t, "127.0.0.1", now.Add(-time.Minute))}},
		"wrong name":  {Certificates: []tls.Certificate{ca.issue(t, "127.0.0.2", now.Add(time.Hour))}},
		"self-signed": {Certificates: []tls.Certificate{other.issue(t, "127.0.0.1", now.Add(time.Hour))}},
		"TLS 1.0":     {Certificates: []tls.Certificate{good}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10},
	} {
		e := &evil{}
		cfg.SessionTicketsDisabled = true
		l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
				if e.turned.Load() {
					e.asked.Add(1)
					return cfg, nil
				}
				return &tls.Config{Certificates: []tls.Certificate{good}, SessionTicketsDisabled: true}, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		e.addr = l.Addr().String()
		s := &http.Server{
			ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					t.Errorf("%s: a notification was delivered", name)
				}
				w.Header().Set("Connection", "close")
				_, _ = io.WriteString(w, r.URL.Query().Get("hub.challenge"))
			}),
		}
		t.Cleanup(func() { _ = s.Close() })
		go func() { _ = s.Serve(l) }()
		hosts[name] = e
	}
	caFile = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return hosts, caFile
}

type authority struct {
	cert *x509.Certificate
	der  []byte
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{key: key, cert: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}}
	if a.der, err = x509.CreateCertificate(rand.Reader, a.cert, a.cert, key.Public(), key); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *authority) issue(t *testing.T, ip string, until time.Time) tls.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), IPAddresses: []net.IP{net.ParseIP(ip)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: until, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, a.cert, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.key}
}

// Callbacks that mean no good, asked for a challenge or brought a notification:
// honest subscribers are verified and get everything once and in order, memory is
// bounded, no host writes lines into the log, and the hub ends as it should.
func TestHostileReceivers(t *testing.T) {
	t.Parallel()
	const each, honest, publishes = 4, 30, 8
	subscriber := newReceiver(t, 6)
	hosts, caFile := badTLS(t)
	h := startHub(t, "--timeout=10s", "--ca-file="+caFile, "--log-level=debug", "--drain=5s")
	src := newSource("http://" + h.addr + "/topic")
	for name, e := range hosts {
		h.subscribe(src.topic, "https://"+e.addr+"/"+strings.ReplaceAll(name, " ", "-")).want(t, http.StatusAccepted)
	}
	for name, a := range treatments {
		e := newEvil(t, a)
		hosts[name] = e
		for n := range each {
			h.subscribe(src.topic, fmt.Sprintf("http://%s/%d", e.addr, n)).want(t, http.StatusAccepted)
		}
	}
	turncoats := 4 + each*len(treatments)
	h.active(turncoats)
	for _, e := range hosts {
		e.turned.Store(true)
	}

	// Verification: as many requests again, which nobody confirms any more.
	for _, e := range hosts {
		for n := range each {
			h.subscribe(src.topic, fmt.Sprintf("http://%s/never/%d", e.addr, n)).want(t, http.StatusAccepted)
		}
	}
	for n := range honest {
		h.subscribe(src.topic, subscriber.url(n, fmt.Sprintf("/cb/%d", n)), "hub.secret", "s").want(t, http.StatusAccepted)
	}
	h.active(turncoats + honest)

	// Delivery.
	var ids []string
	for range publishes {
		ids = append(ids, h.accepted(src.topic, src.next(200_000)).ID)
	}
	eventually(t, time.Minute, func() error {
		if n := len(subscriber.got()); n < honest*publishes {
			return fmt.Errorf("%d deliveries, want %d", n, honest*publishes)
		}
		return nil
	})
	got := map[string][]string{}
	for _, d := range subscriber.got() {
		got[d.callback] = append(got[d.callback], d.id)
		if d.signature != sign("s", d.body) || d.attempt != "1" {
			t.Errorf("%s: attempt %s, signature %s", d.callback, d.attempt, d.signature)
		}
	}
	for callback, order := range got {
		if strings.Join(order, " ") != strings.Join(ids, " ") {
			t.Errorf("%s got %v, want %v", callback, order, ids)
		}
	}
	eventually(t, time.Minute, func() error { // each has had its try
		for name, e := range hosts {
			if e.asked.Load() < 2 {
				return fmt.Errorf("%s was asked %d times", name, e.asked.Load())
			}
		}
		return nil
	})

	peak := h.peakMemory()
	t.Logf("%d hostile hosts: peak resident memory %d MiB", len(hosts), peak>>20)
	if peak > 200<<20 {
		t.Errorf("the hub took %d MiB", peak>>20)
	}
	h.log.mu.Lock()
	for _, line := range h.log.lines {
		if !json.Valid([]byte(line)) || len(line) > 2000 {
			t.Errorf("a line of the log is not the hub's: %d bytes, %.200q", len(line), line)
		}
	}
	h.log.mu.Unlock()
	if code := h.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
