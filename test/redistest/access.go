package redistest

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The user with which this package talks to servers that have an ACL.
const (
	ownUser     = "redistest"
	ownPassword = "of-the-tests"
)

// Access is what a client needs to connect to servers.
type Access struct {
	User, Password string // empty without ACL
	CAFile         string // the servers' certificate, their own authority, in PEM; empty without TLS

	tls     *tls.Config
	keyFile string // of the certificate in CAFile
}

// url writes the address of servers as --redis-url takes it.
func (a *Access) url(scheme, path string, servers ...*Server) string {
	if a.tls != nil {
		scheme = strings.Replace(scheme, "redis", "rediss", 1)
	}
	hosts := make([]string, len(servers))
	for i, s := range servers {
		hosts[i] = s.Addr()
	}
	at := ""
	if a.User != "" {
		at = url.UserPassword(a.User, a.Password).String() + "@"
	}
	return scheme + "://" + at + strings.Join(hosts, ",") + path
}

// certify makes a certificate for 127.0.0.1 that is its own authority.
func (a *Access) certify(dir string) error {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "127.0.0.1"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	ca, err := x509.ParseCertificate(der)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	a.tls = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	a.CAFile, a.keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	write := func(path, kind string, der []byte) error {
		return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
	}
	return errors.Join(write(a.CAFile, "CERTIFICATE", der), write(a.keyFile, "PRIVATE KEY", keyDER))
}

// Do sends the server a command over a connection of its own and returns the
// reply: nil, a string, an int64 or a []any of these.
func (s *Server) Do(t testing.TB, args ...string) any {
	t.Helper()
	reply, err := s.try(bound, args...)
	if err != nil {
		t.Fatalf("redistest: %s to %s: %v; its log ends:\n%s", strings.Join(args, " "), s.name, err, s.LogTail())
	}
	return reply
}

// Try is Do for a caller that can go on without a reply. It waits 5 s at most.
func (s *Server) Try(args ...string) (any, error) { return s.try(5*time.Second, args...) }

func (s *Server) try(limit time.Duration, args ...string) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.Addr())
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	if s.tls != nil {
		config := s.tls.Clone()
		config.ServerName = "127.0.0.1"
		conn = tls.Client(conn, config)
	}
	in := bufio.NewReader(conn)
	if s.User != "" {
		if _, err := exchange(conn, in, "AUTH", ownUser, ownPassword); err != nil {
			return nil, err
		}
	}
	return exchange(conn, in, args...)
}

func exchange(out io.Writer, in *bufio.Reader, args ...string) (any, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(out, b.String()); err != nil {
		return nil, err
	}
	return reply(in)
}

// reply reads one reply of the Redis protocol, version 2.
func reply(in *bufio.Reader) (any, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	kind, rest := line[0], strings.TrimRight(line[1:], "\r\n")
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return nil, errors.New(rest)
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil || kind == ':' {
		return n, err
	}
	switch {
	case n < 0:
		return nil, nil
	case kind == '$':
		text := make([]byte, n+2)
		_, err := io.ReadFull(in, text)
		return string(text[:n]), err
	case kind == '*':
		items := make([]any, n)
		for i := range items {
			if items[i], err = reply(in); err != nil {
				return nil, err
			}
		}
		return items, nil
	}
	return nil, fmt.Errorf("not a reply: %q", line)
}
