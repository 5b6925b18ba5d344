package cli

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/spf13/pflag"

	"github.com/rshub/rshub/internal/base/ingress"
)

// ServerFlags are the flags of the listener of rspub or rssub.
type ServerFlags struct {
	listen, dev string // addresses; dev with --dev
	cert, key   string
	proxies     []string
	flags       *pflag.FlagSet
}

// Add adds --listen, --tls-cert, --tls-key and --trusted-proxy. Port is that of the default
// address; what completes the help of --listen.
func (f *ServerFlags) Add(flags *pflag.FlagSet, port, what string) {
	f.flags, f.dev = flags, "127.0.0.1:"+port
	flags.StringVar(&f.listen, "listen", ":"+port, "`ADDR` "+what+"; with --dev "+f.dev)
	flags.StringVar(&f.cert, "tls-cert", "", "`FILE` with the certificate of --listen and its chain (PEM), read again when it changes; with it --listen speaks https alone")
	flags.StringVar(&f.key, "tls-key", "", "`FILE` with the private key of --tls-cert (PEM), read again when it changes")
	flags.StringSliceVar(&f.proxies, "trusted-proxy", []string{"127.0.0.0/8", "::1/128"}, "`RANGE` of proxies in front, which may have any number of the connections; repeatable")
}

// TLSFiles are the files of --tls-cert and --tls-key; empty: one is not given.
func (f *ServerFlags) TLSFiles() []string { return []string{f.cert, f.key} }

// Server is the HTTP server of rspub or rssub, or of `rshub callback`.
type Server struct {
	net.Listener
	// Failed receives an error if the server ends by itself.
	Failed chan error

	o    ingress.Options
	cert *ingress.Certificate // nil: plain HTTP
	http *http.Server         // nil: it does not serve yet
	quit context.CancelFunc   // the watch of cert
}

// newServer returns a server without an address. Name is what the log calls it; a nil log
// discards everything.
func newServer(name string, log *slog.Logger) *Server {
	return &Server{
		Failed: make(chan error, 1), quit: func() {},
		o: ingress.Options{Name: name, Total: ingress.PublicTotal, PerNetwork: ingress.PublicEach, Log: log},
	}
}

// Open reads the certificate and opens the address. Nothing is answered before Serve.
// Name is what the log calls it. An error has its exit code.
func (f *ServerFlags) Open(ctx context.Context, dev bool, name string, log *slog.Logger) (*Server, error) {
	s := newServer(name, log)
	if (f.cert == "") != (f.key == "") {
		return nil, Fail(ExitUsage, "--tls-cert and --tls-key go together; name both files, or neither")
	}
	for _, text := range f.proxies {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, Fail(ExitUsage, "--trusted-proxy %q is not a range of addresses; write it like 10.0.0.7/32 or fd00::/8", text)
		}
		s.o.Exempt = append(s.o.Exempt, p)
	}
	var err error
	if f.cert != "" {
		if s.cert, err = ingress.ReadCertificate(f.cert, f.key, log); err != nil {
			return nil, Fail(ExitFailure, "reading the certificate (--tls-cert, --tls-key): %w", err)
		}
	}
	addr := f.listen
	if dev && !f.flags.Changed("listen") {
		addr = f.dev
	}
	s.Listener, err = Listen(ctx, addr)
	return s, err
}

// URL is where the server is reached on this machine, by a name or address of it.
func (s *Server) URL(host string) string {
	scheme := "http"
	if s.cert != nil {
		scheme = "https"
	}
	_, port, _ := net.SplitHostPort(s.Addr().String()) // always an address of TCP
	return scheme + "://" + net.JoinHostPort(host, port) + "/"
}

// Serve answers with a handler until Stop. The certificate is watched until then or until
// ctx ends.
func (s *Server) Serve(ctx context.Context, h http.Handler) {
	s.o.Handler = h
	s.http = ingress.NewServer(s.o)
	if s.cert != nil {
		ctx, s.quit = context.WithCancel(ctx)
		go s.cert.Watch(ctx)
	}
	go func() {
		if err := ingress.Serve(s.http, s.Listener, s.cert); !errors.Is(err, http.ErrServerClosed) {
			s.Failed <- err
		}
	}()
}

// Stop accepts no more requests, and waits up to drain for those under way. It may be called
// again.
func (s *Server) Stop(ctx context.Context, drain time.Duration) {
	s.quit()
	if s.http == nil {
		_ = s.Close() // nothing was served
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close() // they had their time
	}
}
