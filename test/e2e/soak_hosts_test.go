package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	cryptorand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// callbackHost is a server of callbacks that is slow or hangs at times, and half of them has a certificate.
type callbackHost struct {
	next http.Handler

	mu    sync.Mutex
	slow  time.Duration
	hangs chan struct{} // closed when it goes on; nil: it does not hang
	cert  *tls.Certificate
}

func (h *callbackHost) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	slow, hangs := h.slow, h.hangs
	h.mu.Unlock()
	time.Sleep(slow)
	if hangs != nil {
		select {
		case <-hangs:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	}
	h.next.ServeHTTP(rw, r)
}

func (h *callbackHost) behave(slow time.Duration, hangs chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.slow, h.hangs = slow, hangs
}

func (h *callbackHost) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cert, nil
}

// addHosts makes the servers of callbacks. Every second one has a certificate. If the names can be served,
// the hubs know them by name.
func (s *soak) addHosts() {
	s.servers = nil
	for n := range 8 {
		h := &callbackHost{next: s.world}
		s.addServer(s.back, h)
		server, scheme := s.servers[n], "http"
		name := fmt.Sprintf("host-%d.%s.example", n, strings.ReplaceAll(s.back, ".", "-"))
		if n%2 == 1 {
			h.cert = s.authority.issue(s.t, 24*time.Hour, name, s.back)
			server.Listener, scheme = tls.NewListener(server.Listener, &tls.Config{GetCertificate: h.certificate, MinVersion: tls.VersionTLS12}), "https"
		}
		server.Start()
		server.URL = scheme + "://" + server.Listener.Addr().String()
		if s.dns != nil {
			s.dns.set(name, s.back)
			_, port, err := net.SplitHostPort(server.Listener.Addr().String())
			must(s.t, err)
			server.URL = scheme + "://" + net.JoinHostPort(name, port)
		}
		s.hosts, s.hostNames = append(s.hosts, h), append(s.hostNames, name)
	}
}

// hostFaults are those of callbacks, of their names and of their certificates.
func (s *soak) hostFaults() []fault {
	reconnect := func() {
		for _, server := range s.servers {
			server.CloseClientConnections()
		}
	}
	faults := []fault{
		{name: "callbacks slow or hanging", kind: slowHosts, gaps: callbacksFail, begin: func() func() {
			goOn := make(chan struct{})
			for _, h := range s.hosts {
				switch s.rnd.IntN(3) {
				case 0:
					h.behave(s.between(100*time.Millisecond, time.Second), nil)
				case 1:
					h.behave(0, goOn)
				}
			}
			time.Sleep(s.between(0, 8*time.Second)) // at times longer than --timeout
			return func() {
				close(goOn)
				for _, h := range s.hosts {
					h.behave(0, nil)
				}
			}
		}},
		{name: "certificates of callbacks expired, and renewed", kind: certificates, gaps: callbacksFail, begin: func() func() {
			issue := func(valid time.Duration) {
				for n, h := range s.hosts {
					if n%2 == 1 {
						cert := s.authority.issue(s.t, valid, s.hostNames[n], s.back)
						h.mu.Lock()
						h.cert = cert
						h.mu.Unlock()
					}
				}
			}
			issue(-time.Minute)
			reconnect()
			return func() { issue(24 * time.Hour) }
		}},
	}
	if s.dns == nil {
		s.notHad[wrongNames] = s.noNames
		return faults
	}
	return append(faults, fault{name: "names of callbacks wrong, late or changing", kind: wrongNames, gaps: callbacksFail, begin: func() func() {
		for _, name := range s.hostNames {
			s.dns.fail(name, s.rnd.IntN(len(nameFaults)+1))
		}
		reconnect()
		time.Sleep(s.between(0, 5*time.Second))
		return func() {
			for _, name := range s.hostNames {
				s.dns.fail(name, 0)
			}
		}
	}})
}

// soakAuthority signs certificates.
type soakAuthority struct {
	file string // PEM
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newSoakAuthority(t *testing.T) *soakAuthority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), cryptorand.Reader)
	must(t, err)
	a := &soakAuthority{file: filepath.Join(t.TempDir(), "ca.pem"), key: key, cert: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "soak"}, NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	der, err := x509.CreateCertificate(cryptorand.Reader, a.cert, a.cert, key.Public(), key)
	must(t, err)
	must(t, os.WriteFile(a.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return a
}

// issue makes a certificate for a name and addresses that is valid for so long; negative: it has expired.
func (a *soakAuthority) issue(t *testing.T, valid time.Duration, name string, addrs ...string) *tls.Certificate {
	t.Helper()
	var ips []net.IP
	for _, addr := range addrs {
		ips = append(ips, net.ParseIP(addr))
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), cryptorand.Reader)
	must(t, err)
	der, err := x509.CreateCertificate(cryptorand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), IPAddresses: ips, DNSNames: []string{name},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(valid), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, a.cert, key.Public(), a.key)
	must(t, err)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// nameFaults are the ways in which a name is answered wrongly. Zero is right, so the first is 1.
var nameFaults = []string{"no such name", "the server fails", "late", "never", "another address", "in turn right and another address"}

// names is a DNS server for the hubs.
type names struct {
	mu    sync.Mutex
	all   map[string][4]byte
	wrong map[string]int
	turn  int
}

// serveNames starts a DNS server and makes it that of this mount namespace.
func serveNames(t *testing.T) (*names, error) {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "resolv.conf")
	must(t, os.WriteFile(conf, []byte("nameserver 127.0.0.1\noptions timeout:1 attempts:2\n"), 0o644))
	c, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:53")
	if err != nil {
		return nil, err
	}
	if err := syscall.Mount(conf, "/etc/resolv.conf", "", syscall.MS_BIND, ""); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("a resolv.conf cannot be mounted: %w", err)
	}
	n := &names{all: map[string][4]byte{}, wrong: map[string]int{}}
	var running sync.WaitGroup
	t.Cleanup(func() { _ = c.Close(); running.Wait() })
	running.Go(func() {
		question := make([]byte, 1500)
		for {
			size, from, err := c.ReadFrom(question)
			if err != nil {
				return
			}
			if answer, late := n.answer(question[:size]); answer != nil {
				time.AfterFunc(late, func() { _, _ = c.WriteTo(answer, from) })
			}
		}
	})
	return n, nil
}

func (n *names) set(name, addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all[name+"."] = [4]byte(net.ParseIP(addr).To4())
}

func (n *names) fail(name string, how int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wrong[name+"."] = how
}

// answer is the answer to a question, and how late it is; nil: there is none.
func (n *names) answer(question []byte) (answer []byte, late time.Duration) {
	var m dnsmessage.Message
	if err := m.Unpack(question); err != nil || len(m.Questions) != 1 {
		return nil, 0
	}
	q := m.Questions[0]
	n.mu.Lock()
	ip, known := n.all[strings.ToLower(q.Name.String())]
	wrong := n.wrong[strings.ToLower(q.Name.String())]
	n.turn++
	turn := n.turn
	n.mu.Unlock()
	reply := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true, RecursionDesired: m.RecursionDesired, RecursionAvailable: true},
		Questions: m.Questions,
	}
	switch {
	case !known, wrong == 1:
		reply.RCode = dnsmessage.RCodeNameError
	case wrong == 2:
		reply.RCode = dnsmessage.RCodeServerFailure
	case wrong == 3:
		late = 1500 * time.Millisecond
	case wrong == 4:
		return nil, 0
	case wrong == 5, wrong == 6 && turn%4 < 2:
		ip[3] = 99 // nobody is there
	}
	if reply.RCode == 0 && q.Type == dnsmessage.TypeA {
		reply.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET, TTL: 1},
			Body:   &dnsmessage.AResource{A: ip},
		}}
	}
	packed, err := reply.Pack()
	if err != nil {
		return nil, 0
	}
	return packed, late
}
