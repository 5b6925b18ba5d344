package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

const (
	// certificateEvery is how often the files of the certificate are looked at.
	certificateEvery = 5 * time.Second
	// expiryEvery is how often the log says that the certificate runs out.
	expiryEvery = 24 * time.Hour
)

// certificate is what the public listener shows, read again when one of its files
// changes.
type certificate struct {
	certFile, keyFile string
	log               *zap.Logger

	current atomic.Pointer[tls.Certificate]

	mu     sync.Mutex // of a check
	seen   [2]os.FileInfo
	later  time.Time // when what was seen begins to be good; zero: it did, or never will
	warned time.Time
}

// newCertificate reads the pair for the first time.
func newCertificate(certFile, keyFile string, log *zap.Logger) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, log: log}
	c.seen = c.look()
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

// watch checks the files until ctx ends.
func (c *certificate) watch(ctx context.Context) error {
	tick := time.NewTicker(certificateEvery)
	defer tick.Stop()
	for {
		c.check(time.Now())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// check takes a pair that is new, and says once of one that is no good. It also
// says when what is shown runs out.
func (c *certificate) check(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found := c.look(); !same(found, c.seen) || !c.later.IsZero() && !now.Before(c.later) {
		c.seen = found // before it is read: what is written meanwhile is another change
		if err := c.load(now); err != nil {
			c.log.Warn("the new certificate is no good; the old one stays", zap.String("event", "tls_reload_failed"), zap.Error(err))
		}
	}
	leaf := c.current.Load().Leaf
	if left := leaf.NotAfter.Sub(now); left < leaf.NotAfter.Sub(leaf.NotBefore)/10 && now.Sub(c.warned) >= expiryEvery {
		c.warned = now
		c.log.Warn("the certificate runs out", zap.String("event", "tls_expiring"), zap.Time("not_after", leaf.NotAfter))
	}
}

// load reads the pair and shows it from now on. One that has run out does not
// take the place of another, nor one that is not good yet until it is.
func (c *certificate) load(now time.Time) error {
	c.later = time.Time{}
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("%s and %s have to be a certificate with its chain, and its private key, in PEM form: %w", c.certFile, c.keyFile, err)
	}
	switch first := c.current.Load() == nil; {
	case first: // a bad one tells clients more than a hub that is not there
	case now.Before(pair.Leaf.NotBefore):
		c.later = pair.Leaf.NotBefore
		return errors.New("the certificate in " + c.certFile + " is not good yet; it is taken at " + c.later.Format(time.RFC3339))
	case now.After(pair.Leaf.NotAfter):
		return errors.New("the certificate in " + c.certFile + " has run out: it was good until " + pair.Leaf.NotAfter.Format(time.RFC3339))
	}
	c.current.Store(&pair)
	c.warned = time.Time{}
	c.log.Info("the public listener has its certificate", zap.String("event", "tls_loaded"),
		zap.Strings("names", pair.Leaf.DNSNames), zap.Time("not_after", pair.Leaf.NotAfter))
	return nil
}

// look is how the files are now; nil: one can't be looked at.
func (c *certificate) look() (now [2]os.FileInfo) {
	for i, name := range []string{c.certFile, c.keyFile} {
		now[i], _ = os.Stat(name) // load says why
	}
	return now
}

func same(a, b [2]os.FileInfo) bool {
	for i := range a {
		switch {
		case a[i] == nil || b[i] == nil:
			if a[i] != b[i] {
				return false
			}
		case !os.SameFile(a[i], b[i]) || a[i].Size() != b[i].Size() || !a[i].ModTime().Equal(b[i].ModTime()):
			return false
		}
	}
	return true
}
