package app

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/internal/ingress"
)

// certificate is what the public listener shows. It is a reloadable.
type certificate struct{ *ingress.Certificate }

// newCertificate reads the pair for the first time. One that has run out, or is not
// good yet, is an error.
func newCertificate(certFile, keyFile string, log *zap.Logger) (*certificate, error) {
	c, err := ingress.ReadCertificate(certFile, keyFile, slogOf(log))
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of the public listener (--tls-cert, --tls-key): %w", err)
	}
	return &certificate{c}, nil
}

func (c *certificate) check(now time.Time) { c.Check(now) }

func (c *certificate) reload(now time.Time) (admin.Reloaded, error) {
	err := c.Reload(now)
	return admin.Reloaded{
		What: "certificate", File: c.File(),
		Detail: "good until " + c.Leaf().NotAfter.UTC().Format(time.RFC3339),
	}, err
}
