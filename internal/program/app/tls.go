package app

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/internal/base/ingress"
	"github.com/rshub/rshub/internal/base/logs"
)

// certificate is the reloadable certificate of one of the listeners.
type certificate struct {
	*ingress.Certificate
	what string // for people
}

// newCertificate reads the pair of a listener for the first time. One that has expired,
// or is not valid yet, is an error. The flags are those that name the files.
func newCertificate(listener, flags, certFile, keyFile string, log *zap.Logger) (*certificate, error) {
	c, err := ingress.ReadCertificate(certFile, keyFile, logs.Slog(log.With(zap.String("listener", listener))))
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of the %s (%s): %w", listener, flags, err)
	}
	return &certificate{c, "certificate of the " + listener}, nil
}

func (c *certificate) check(now time.Time) (bool, error) { return c.Check(now) }

func (c *certificate) reload(now time.Time) (admin.Reloaded, error) {
	err := c.Reload(now)
	return admin.Reloaded{
		What: c.what, File: c.File(),
		Detail: "good until " + c.Leaf().NotAfter.UTC().Format(time.RFC3339),
	}, err
}
