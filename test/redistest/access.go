package redistest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// The user with which this package talks to servers that have an ACL.
const (
	ownUser     = "redistest"
	ownPassword = "of-the-tests"
)

// Access is what a client needs to connect to servers.
type Access struct {
	User, Password string // empty without ACL
	CAFile         string // PEM file of the servers' certificate, which is its own authority; empty without TLS

	tls     *tls.Config
	keyFile string // of the certificate in CAFile
}

// url returns the address of servers as --redis-url accepts it.
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
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	a.tls = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	a.tls.RootCAs.AppendCertsFromPEM(cert)
	a.CAFile, a.keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	return errors.Join(os.WriteFile(a.CAFile, cert, 0o600),
		os.WriteFile(a.keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600))
}

// Do sends the server a command over a new connection and returns the reply: nil, a
// string, an int64 or a []any of these.
func (s *Server) Do(t testing.TB, args ...any) any {
	t.Helper()
	reply, err := s.try(bound, args...)
	if err != nil {
		t.Fatalf("redistest: %v to %s: %v; its log ends:\n%s", args, s.name, err, s.LogTail())
	}
	return reply
}

// Try is Do for a caller that can continue without a reply. It waits 5 s at most.
func (s *Server) Try(args ...any) (any, error) { return s.try(5*time.Second, args...) }

func (s *Server) try(limit time.Duration, args ...any) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	logging.Disable() // the errors say the same
	o := &redis.Options{
		Addr: s.Addr(), TLSConfig: s.tls, Protocol: 2, MaxRetries: -1, DialerRetries: 1,
		ReadTimeout: limit, WriteTimeout: limit, ContextTimeoutEnabled: true,
		// A test may give the server less than what these need.
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if s.User != "" {
		o.Username, o.Password = ownUser, ownPassword
	}
	client := redis.NewClient(o)
	defer func() { _ = client.Close() }()
	reply, err := client.Do(ctx, args...).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	return reply, err
}
