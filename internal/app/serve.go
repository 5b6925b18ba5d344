package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/rshub/rshub/admin"
)

// The limits of the listeners, as docs/operations.md has them.
const (
	// headerTime is how long the header of a request may take, and the handshake
	// of TLS before it.
	headerTime = 10 * time.Second
	// requestTime is how long a request may take to come in, where its handler
	// does not give it more by what has come of it (hub/body.go).
	requestTime = 25 * time.Second
	idleTime    = 2 * time.Minute
	maxHeader   = 64 << 10 // bytes
	// publicTotal and publicEach bound the connections of the public listener, in
	// all and of one network, adminTotal those of the operator's.
	publicTotal = 4096
	publicEach  = 256
	adminTotal  = 256
	// limitedEvery is how often the log may say that there are too many.
	limitedEvery = time.Minute
	// errorsAtOnce is how many errors of connections the log has at a time, and
	// errorsEvery how long one more takes.
	errorsAtOnce = 100
	errorsEvery  = time.Second
)

// listen opens both listeners and settles the hub URI.
func (a *App) listen(ctx context.Context) error {
	var lc net.ListenConfig
	var err error
	scheme := "http"
	if a.cfg.TLSCert != "" {
		scheme = "https"
		if a.certificate, err = newCertificate(a.cfg.TLSCert, a.cfg.TLSKey, a.log.Named("tls")); err != nil {
			return err
		}
		a.reloads.add(a.certificate)
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

func closing(l net.Listener) func(context.Context) error {
	return func(context.Context) error {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	}
}

// listener is one of the two.
type listener struct {
	name    string
	on      net.Listener
	tls     *tls.Config // nil: plain HTTP
	gate    *gate
	handler http.Handler
	broken  http.HandlerFunc // answers where handler panicked
}

func (a *App) adminListener() listener {
	const name = "operator's listener"
	return listener{
		name: name, on: a.admin, handler: a.adminHandler(), broken: admin.Broken,
		gate: newGate(name, adminTotal, 0, nil, a.log.Named("http")),
	}
}

func (a *App) publicListener() listener {
	const name = "public listener"
	l := listener{
		name: name, on: a.public, handler: a.hub, broken: a.hub.Broken,
		gate: newGate(name, publicTotal, publicEach, a.cfg.TrustedProxy, a.log.Named("http")),
	}
	if a.certificate != nil {
		l.tls = a.certificate.config()
	}
	return l
}

// serve answers on l until it is stopped; then the requests in progress may
// finish.
func (a *App) serve(ctx context.Context, l listener) {
	server := a.server(l)
	on := l.on
	if l.tls != nil {
		on = tls.NewListener(on, l.tls)
	}
	a.stops.gently(ctx, l.name, func(context.Context) error {
		if err := server.Serve(on); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}, func(limit context.Context) error {
		if server.Shutdown(limit) != nil {
			return server.Close() // whoever still sends has had time
		}
		return nil
	}, a.failed)
}

// server is what serves l. It speaks HTTP/1.1 alone, on which every limit here is
// one of a connection.
func (a *App) server(l listener) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:                      &ingress{listener: l.name, next: l.handler, broken: l.broken, log: a.log.Named("http")},
		Protocols:                    protocols,
		DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout:            headerTime,
		ReadTimeout:                  requestTime,
		IdleTimeout:                  idleTime,
		MaxHeaderBytes:               maxHeader,
		ConnState:                    l.gate.state,
		ErrorLog:                     log.New(a.errorLog(l.name), "", 0),
	}
}

// ErrorLog is for package log to write to. Net/http tells it, without being
// asked, of answers that nobody waits for, and would let any callback write to
// the hub's log what it likes.
func (a *App) ErrorLog() io.Writer { return a.errorLog("none") }

func (a *App) errorLog(listener string) *errorLog {
	return &errorLog{log: a.log.Named("http"), listener: listener, limit: rate.NewLimiter(rate.Every(errorsEvery), errorsAtOnce)}
}

// errorLine is how many bytes of a line are logged: the rest may be a stranger's.
const errorLine = 200

// errorLog writes what net/http says of connections, and no more of it than the
// limit lets pass: any stranger can make it say something.
type errorLog struct {
	log      *zap.Logger
	listener string
	limit    *rate.Limiter
}

func (e *errorLog) Write(line []byte) (int, error) {
	if e.limit.Allow() {
		text := strings.ToValidUTF8(string(line[:min(len(line), errorLine)]), "")
		e.log.Info(strings.TrimSpace(text), zap.String("event", "http_error"), zap.String("listener", e.listener))
	}
	return len(line), nil
}
