package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/rshub/rshub/internal/cli"
)

// listening is a callback's server.
type listening struct {
	net.Listener
	server *http.Server
	failed chan error
}

// listenOn opens the address of --listen.
func listenOn(ctx context.Context, addr string) (*listening, error) {
	l, err := cli.Listen(ctx, addr)
	if err != nil {
		return nil, err
	}
	return &listening{Listener: l, failed: make(chan error, 1)}, nil
}

// callbackURL is what the hub is told: as given, or with --dev the address itself.
func (l *listening) callbackURL(given string, dev bool) (string, error) {
	if given != "" {
		return given, nil
	}
	if !dev {
		return "", cli.Fail(cli.ExitUsage, "--callback-url is missing: the URL at which the hub reaches this machine (with --dev it is the address of --listen)")
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return "http://127.0.0.1:" + port + "/", err
}

// serve answers with a handler until stop.
func (l *listening) serve(h http.Handler) {
	l.server = &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 5 * time.Minute, WriteTimeout: 6 * time.Minute,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	go func() {
		if err := l.server.Serve(l.Listener); !errors.Is(err, http.ErrServerClosed) {
			l.failed <- err
		}
	}()
}

// stop lets what is being answered end.
func (l *listening) stop(ctx context.Context) {
	if l.server == nil {
		_ = l.Close()
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if l.server.Shutdown(ctx) != nil {
		_ = l.server.Close()
	}
}
