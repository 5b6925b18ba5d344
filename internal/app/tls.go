package app

import (
	"crypto/tls"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/rshub/rshub/admin"
)

// expiryEvery is how often the log says that the certificate runs out.
const expiryEvery = 24 * time.Hour

// certificate is what the public listener shows, read again when one of its files
// changes.
type certificate struct {
	certFile, keyFile string
	log               *zap.Logger

	current atomic.Pointer[tls.Certificate]

	mu     sync.Mutex // of a check
	files  watched
	later  time.Time // when what was seen begins to be good; zero: it did, or never will
	warned time.Time
}

// newCertificate reads the pair for the first time. One that has run out, or is not
// good yet, is an error.
func newCertificate(certFile, keyFile string, log *zap.Logger) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, log: log}
	if err := c.load(time.Now()); err != nil {
		return nil, fmt.Errorf("reading the certificate of the public listener (--tls-cert, --tls-key): %w", err)
	}
	return c, nil
}

// config is for a listener: each handshake gets the certificate of that moment,
// and connections go on with the one that they began with.
func (c *certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.current.Load(), nil
		},
	}
}

// check takes a pair that is new, and says once of one that is no good. It also
// says when what is shown runs out.
func (c *certificate) check(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.files.changed() || !c.later.IsZero() && !now.Before(c.later) {
		_ = c.again(now) // it is logged
	}
	leaf := c.current.Load().Leaf
	if left := leaf.NotAfter.Sub(now); left < leaf.NotAfter.Sub(leaf.NotBefore)/10 && now.Sub(c.warned) >= expiryEvery {
		c.warned = now
		c.log.Warn("the certificate runs out", zap.String("event", "tls_expiring"), zap.Time("not_after", leaf.NotAfter))
	}
}

// reload implements reloadable.
func (c *certificate) reload(now time.Time) (admin.Reloaded, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.again(now)
	return admin.Reloaded{
		What: "certificate", File: c.certFile,
		Detail: "good until " + c.current.Load().Leaf.NotAfter.UTC().Format(time.RFC3339),
	}, err
}

func (c *certificate) again(now time.Time) error {
	err := c.load(now)
	if err != nil {
		c.log.Warn("the new certificate is no good; the old one stays", zap.String("event", "tls_reload_failed"), zap.Error(err))
	}
	return err
}

// load reads the pair and shows it from now on. One that has run out, or is not
// good yet, does not take the place of another; the latter is taken when it is.
func (c *certificate) load(now time.Time) error {
	c.later = time.Time{}
	c.files.take(c.certFile, c.keyFile)
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("%s and %s have to be a certificate with its chain, and its private key, in PEM form: %w", c.certFile, c.keyFile, err)
	}
	switch {
	case now.Before(pair.Leaf.NotBefore):
		c.later = pair.Leaf.NotBefore
		return fmt.Errorf("the certificate in %s is not good before %s, and it is %s now", c.certFile, c.later.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	case now.After(pair.Leaf.NotAfter):
		return fmt.Errorf("the certificate in %s has run out: it was good until %s, and it is %s now; renew it", c.certFile, pair.Leaf.NotAfter.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	c.current.Store(&pair)
	c.warned = time.Time{}
	c.log.Info("the public listener has its certificate", zap.String("event", "tls_loaded"),
		zap.Strings("names", pair.Leaf.DNSNames), zap.Time("not_after", pair.Leaf.NotAfter))
	return nil
}
