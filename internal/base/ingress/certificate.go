package ingress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// expiryEvery is how often the log says that the certificate runs out.
const expiryEvery = 24 * time.Hour

// Certificate is what a listener shows, read again when one of its files changes. Its
// methods may be called from many goroutines.
type Certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	current atomic.Pointer[tls.Certificate]

	mu     sync.Mutex // of a check
	files  Watched
	later  time.Time // when what was seen begins to be good; zero: it did, or never will
	warned time.Time
}

// ReadCertificate reads the pair for the first time: a certificate with its chain, and its
// private key, each a file in PEM form. One that has run out, or is not good yet, is an
// error. Changes are noticed by Check, which Watch calls.
func ReadCertificate(certFile, keyFile string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile, log: log}
	if err := c.load(time.Now()); err != nil {
		return nil, err
	}
	return c, nil
}

// config is for a listener: each handshake gets the certificate of that moment,
// and connections go on with the one that they began with.
func (c *Certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.current.Load(), nil
		},
	}
}

// Check reads a new pair, and logs once if it is not valid. It also logs when the
// certificate in use is about to expire. Read reports whether there was a new pair, and err
// what is wrong with it.
func (c *Certificate) Check(now time.Time) (read bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if read = c.files.Changed() || !c.later.IsZero() && !now.Before(c.later); read {
		err = c.again(now)
	}
	leaf := c.current.Load().Leaf
	if left := leaf.NotAfter.Sub(now); left < leaf.NotAfter.Sub(leaf.NotBefore)/10 && now.Sub(c.warned) >= expiryEvery {
		c.warned = now
		c.log.Warn("the certificate runs out", slog.String("event", "tls_expiring"), slog.Time("not_after", leaf.NotAfter))
	}
	return read, err
}

// Reload reads the pair again, changed or not. After an error the one of before stays.
func (c *Certificate) Reload(now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.again(now)
}

// Watch checks the files every few seconds until ctx ends.
func (c *Certificate) Watch(ctx context.Context) {
	tick := time.NewTicker(FilesEvery)
	defer tick.Stop()
	for {
		_, _ = c.Check(time.Now()) // which is logged
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Leaf is the certificate that is shown at this moment.
func (c *Certificate) Leaf() *x509.Certificate { return c.current.Load().Leaf }

// File is where the certificate is read from.
func (c *Certificate) File() string { return c.certFile }

func (c *Certificate) again(now time.Time) error {
	err := c.load(now)
	if err != nil {
		c.log.Warn("the new certificate is no good; the old one stays", slog.String("event", "tls_reload_failed"), slog.Any("error", err))
	}
	return err
}

// load reads the pair and uses it from now on. One that has expired, or is not valid yet,
// replaces no other. One that is not valid yet is used once it is.
func (c *Certificate) load(now time.Time) error {
	c.later = time.Time{}
	c.files.Take(c.certFile, c.keyFile)
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
	c.log.Info("the listener has its certificate", slog.String("event", "tls_loaded"),
		slog.Any("names", pair.Leaf.DNSNames), slog.Time("not_after", pair.Leaf.NotAfter))
	return nil
}
