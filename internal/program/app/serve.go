package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/internal/base/ingress"
)

// adminTotal is how many connections the operator's listener has.
const adminTotal = 256

// The names of the listeners, for people.
const (
	publicName = "public listener"
	adminName  = "operator's listener"
)

// listen opens both listeners and sets the hub URI.
func (a *App) listen(ctx context.Context) error {
	var lc net.ListenConfig
	var err error
	scheme := "http"
	if a.cfg.TLSCert != "" {
		scheme = "https"
		if a.certificate, err = newCertificate(publicName, "--tls-cert, --tls-key", a.cfg.TLSCert, a.cfg.TLSKey, a.log.Named("tls")); err != nil {
			return err
		}
		a.reloads.add(a.certificate)
	}
	if a.cfg.AdminTLSCert != "" {
		if a.adminCertificate, err = newCertificate(adminName, "--admin-tls-cert, --admin-tls-key", a.cfg.AdminTLSCert, a.cfg.AdminTLSKey, a.log.Named("tls")); err != nil {
			return err
		}
		a.reloads.add(a.adminCertificate)
	}
	if a.admin, err = lc.Listen(ctx, "tcp", a.cfg.AdminListen); err != nil {
		return fmt.Errorf("opening the operator's listener (--admin-listen): %w", err)
	}
	a.stops.add("operator's address", closing(a.admin))
	if a.public, err = lc.Listen(ctx, "tcp", a.cfg.Listen); err != nil {
		return fmt.Errorf("opening the public listener (--listen): %w", err)
	}
	a.stops.add("public address", closing(a.public))
	if a.hubURL = a.cfg.PublicURL; a.hubURL == "" {
		_, port, err := net.SplitHostPort(a.Addr())
		if err != nil {
			return fmt.Errorf("the public listener's address: %w", err)
		}
		a.hubURL = scheme + "://" + net.JoinHostPort("localhost", port) + "/"
	}
	return nil
}

// hostOf is the host, and port, of a URL that was checked.
func hostOf(checked string) string {
	u, _ := url.Parse(checked)
	return u.Host
}

func closing(l net.Listener) func(context.Context) error {
	return func(context.Context) error {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	}
}

// server is what serves one of the two listeners.
func (a *App) server(o ingress.Options) *http.Server {
	o.Log = slogOf(a.log.Named("http"))
	return ingress.NewServer(o)
}

func (a *App) adminServer() ingress.Options {
	return ingress.Options{Name: adminName, Handler: a.adminHandler(), Broken: admin.Broken, Total: adminTotal}
}

func (a *App) publicServer() ingress.Options {
	return ingress.Options{
		Name: publicName, Handler: a.hub, Broken: a.hub.Broken,
		Total: ingress.PublicTotal, PerNetwork: ingress.PublicEach, Exempt: a.cfg.TrustedProxy,
	}
}

// serve answers on l until it is stopped; then the requests in progress may finish. A nil
// certificate stands for plain HTTP.
func (a *App) serve(ctx context.Context, l net.Listener, c *certificate, o ingress.Options) {
	server := a.server(o)
	var shown *ingress.Certificate
	if c != nil {
		shown = c.Certificate
	}
	a.stops.gently(ctx, o.Name, func(context.Context) error {
		if err := ingress.Serve(server, l, shown); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}, func(limit context.Context) error {
		if server.Shutdown(limit) != nil {
			return server.Close() // the clients had their time
		}
		return nil
	}, a.failed)
}

// ErrorLog is the output for package log. Net/http writes to it about answers that nobody
// waits for, so any callback could write whatever it likes to the hub's log.
func (a *App) ErrorLog() io.Writer { return ingress.ErrorLog("none", slogOf(a.log.Named("http"))) }
