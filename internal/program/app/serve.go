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
	"github.com/rshub/rshub/internal/base/logs"
	"github.com/rshub/rshub/internal/engine/telemetry"
)

// adminTotal is how many connections the operator's listener has.
const adminTotal = 256

// The names of the listeners, for people.
const (
	publicName = "public listener"
	adminName  = "operator's listener"
)

// listener is one of the two that a hub has.
type listener struct {
	net.Listener
	certificate *ingress.Certificate // nil: plain HTTP
}

// listen opens both listeners and sets the hub URI.
func (a *App) listen(ctx context.Context) (err error) {
	c := &a.cfg
	if a.admin, err = a.open(ctx, adminName, "--admin-", c.AdminListen, c.AdminTLSCert, c.AdminTLSKey); err != nil {
		return err
	}
	if a.public, err = a.open(ctx, publicName, "--", c.Listen, c.TLSCert, c.TLSKey); err != nil {
		return err
	}
	if a.hubURL = c.PublicURL; a.hubURL == "" {
		u := url.URL{Scheme: "http", Host: "localhost", Path: "/"}
		if a.public.certificate != nil {
			u.Scheme = "https"
		}
		_, port, _ := net.SplitHostPort(a.Addr()) // the address of a TCP listener has a port
		u.Host += ":" + port
		a.hubURL = u.String()
	}
	return nil
}

// open opens a listener with the certificate in two files, if they are named. The names of
// the flags that configure it begin with flags.
func (a *App) open(ctx context.Context, name, flags, addr, certFile, keyFile string) (l listener, err error) {
	if certFile != "" {
		c, err := newCertificate(name, flags+"tls-cert, "+flags+"tls-key", certFile, keyFile, a.log.Named("tls"))
		if err != nil {
			return l, err
		}
		l.certificate = c.Certificate
		as := telemetry.ReloadCertificate
		if name == adminName {
			as = telemetry.ReloadAdminCertificate
		}
		a.reloads.add(as, c)
	}
	if l.Listener, err = new(net.ListenConfig).Listen(ctx, "tcp", addr); err != nil {
		return l, fmt.Errorf("opening the %s: %w; give another address with %slisten", name, err, flags)
	}
	a.stops.add("address of the "+name, func(context.Context) error {
		_ = l.Close() // the server has closed it, unless the start failed
		return nil
	})
	return l, nil
}

// hostOf is the host and port of a URL that is known to be valid.
func hostOf(valid string) string {
	u, _ := url.Parse(valid)
	return u.Host
}

// server is what serves one of the two listeners.
func (a *App) server(o ingress.Options) *http.Server {
	o.Log = logs.Slog(a.log.Named("http"))
	return ingress.NewServer(o)
}

func (a *App) adminServer() ingress.Options {
	return ingress.Options{Name: adminName, Handler: operator{a}.handler(), Broken: admin.Broken, Total: adminTotal}
}

func (a *App) publicServer() ingress.Options {
	return ingress.Options{
		Name: publicName, Handler: a.publicHandler(), Broken: a.hub.Broken,
		Total: ingress.PublicTotal, PerNetwork: ingress.PublicEach, Exempt: a.cfg.TrustedProxy,
	}
}

// serve answers on l until it is stopped. Requests in progress may then finish.
func (a *App) serve(ctx context.Context, l listener, o ingress.Options) {
	server := a.server(o)
	a.stops.gently(ctx, o.Name, func(context.Context) error {
		if err := ingress.Serve(server, l, l.certificate); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}, func(limit context.Context) error {
		if server.Shutdown(limit) != nil {
			return server.Close() // the time for its clients is over
		}
		return nil
	}, a.failed)
}

// ErrorLog is the output for package log. Net/http writes a line for an answer that no
// request waits for, so any callback could fill the hub's log. ErrorLog limits them.
func (a *App) ErrorLog() io.Writer { return ingress.ErrorLog("none", logs.Slog(a.log.Named("http"))) }
