package cli

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/rshub/rshub/internal/base/ingress"
	"github.com/rshub/rshub/internal/program/config"
)

// ServerFlags are the flags of the listeners of rspub or rssub: one for others, and one for
// the operator.
type ServerFlags struct {
	public, admin addressFlags
	tokenFile     string // of the operator
	dev           string // the address with --dev
	proxies       []string
	flags         *pflag.FlagSet
}

// addressFlags are where a listener listens, and its certificate. The names of the flags begin
// with prefix.
type addressFlags struct{ prefix, addr, cert, key string }

// Add adds --listen, --tls-cert, --tls-key, --trusted-proxy, and --admin-listen with its own.
// Port is that of the default address; what completes the help of --listen.
func (f *ServerFlags) Add(flags *pflag.FlagSet, port, what string) { f.AddAs(flags, "", port, what) }

// AddAs is Add with a prefix before the names of the flags of the listener for others, such as
// "public-", where another listener has these.
func (f *ServerFlags) AddAs(flags *pflag.FlagSet, prefix, port, what string) {
	f.flags, f.dev = flags, "127.0.0.1:"+port
	f.public.prefix, f.admin.prefix = "--"+prefix, "--admin-"
	flags.StringVar(&f.public.addr, prefix+"listen", ":"+port, "`ADDR` "+what+"; with --dev "+f.dev)
	flags.StringVar(&f.public.cert, prefix+"tls-cert", "", "`FILE` with the certificate of --"+prefix+"listen and its chain (PEM), read again when it changes; --"+prefix+"listen then serves only https")
	flags.StringVar(&f.public.key, prefix+"tls-key", "", "`FILE` with the private key of --"+prefix+"tls-cert (PEM), read again when it changes")
	flags.StringSliceVar(&f.proxies, "trusted-proxy", []string{"127.0.0.0/8", "::1/128"}, "`RANGE` of proxies in front, for which there is no limit of connections; repeatable")
	flags.StringVar(&f.admin.addr, "admin-listen", "", "`ADDR` of the operator's listener, such as 127.0.0.1:9090: health at /livez and /readyz, /metrics (default: none)")
	flags.StringVar(&f.tokenFile, "admin-token-file", "", "`FILE` with the bearer token of the operator's listener, at least 16 characters, read again when it changes; required unless --admin-listen is a loopback address")
	flags.StringVar(&f.admin.cert, "admin-tls-cert", "", "`FILE` with the certificate of --admin-listen and its chain (PEM), read again when it changes; --admin-listen then serves only https")
	flags.StringVar(&f.admin.key, "admin-tls-key", "", "`FILE` with the private key of --admin-tls-cert (PEM), read again when it changes")
}

// SecretFiles are the files with certificates, keys and the token; empty: one is not given.
func (f *ServerFlags) SecretFiles() []string {
	return []string{f.public.cert, f.public.key, f.admin.cert, f.admin.key, f.tokenFile}
}

// port is an HTTP server at an address.
type port struct {
	net.Listener
	o    ingress.Options
	cert *ingress.Certificate // nil: plain HTTP
	http *http.Server         // nil: it does not serve yet
	quit context.CancelFunc   // the watch of cert
}

// Server is the HTTP servers of rspub or rssub, or of `rshub callback`: the one for others, and
// the operator's if there is one.
type Server struct {
	port
	// Failed receives an error if one of them ends by itself.
	Failed chan error

	operator operator
	stopping func() // tells the service manager
}

// newServer returns a server without an address. Name is what the log calls it; a nil log
// discards everything.
func newServer(name string, log *slog.Logger) *Server {
	return &Server{
		Failed:   make(chan error, 2), // each of both can fail once
		stopping: func() {},
		port:     port{quit: func() {}, o: ingress.Options{Name: name, Total: ingress.PublicTotal, PerNetwork: ingress.PublicEach, Log: log}},
	}
}

// Check reports what is wrong with the flags, and with the files that they name. It opens no address.
func (f *ServerFlags) Check() error {
	log := slog.New(slog.DiscardHandler)
	_, proxies := f.trusted()
	_, cert := f.public.certificate(log)
	errs := []error{proxies, checkListen(f.public.prefix+"listen", f.public.addr), cert, f.checkOperator()}
	if config.Given(f.flags, strings.TrimPrefix(f.public.prefix, "--")+"listen") { // else nothing may listen there
		errs = append(errs, f.checkApart(f.public))
	}
	if f.admin.addr != "" {
		_, cert = f.admin.certificate(log)
		_, token := readToken("--admin-token-file", f.tokenFile, log)
		errs = append(errs, cert, token)
	}
	return errors.Join(errs...)
}

// checkApart returns an error for ExitUsage if the operator's listener can't be open together with the one for others.
func (f *ServerFlags) checkApart(public addressFlags) error {
	if f.admin.addr == "" || !config.SameAddress(public.addr, f.admin.addr) {
		return nil
	}
	return Fail(ExitUsage, "%slisten %s and --admin-listen %s need different ports", public.prefix, public.addr, f.admin.addr)
}

// trusted are the ranges of --trusted-proxy.
func (f *ServerFlags) trusted() ([]netip.Prefix, error) {
	return ranges("--trusted-proxy", f.proxies, config.ParseRange)
}

// Open reads the certificates and the operator's token, and opens the addresses. Nothing is
// answered before Serve. Name is what the log calls the listener for others. An error has its
// exit code.
func (f *ServerFlags) Open(ctx context.Context, dev bool, name string, log *slog.Logger) (*Server, error) {
	s := newServer(name, log)
	var err error
	if s.o.Exempt, err = f.trusted(); err != nil {
		return nil, err
	}
	at := f.public
	if dev && !f.flags.Changed(strings.TrimPrefix(at.prefix, "--")+"listen") {
		at.addr = f.dev
	}
	// Before an address is opened: wrong usage is that, whoever has the address.
	if err := cmp.Or(f.checkOperator(), f.checkApart(at)); err != nil {
		return nil, err
	}
	if err := s.open(ctx, at); err != nil {
		return nil, err
	}
	if err := f.openOperator(ctx, s, log); err != nil {
		s.Stop(ctx, 0)
		return nil, err
	}
	return s, nil
}

// OpenOperator is Open with the operator's listener alone, if there is one: the Server has no
// address for others.
func (f *ServerFlags) OpenOperator(ctx context.Context, log *slog.Logger) (*Server, error) {
	s := newServer("", log)
	return s, f.openOperator(ctx, s, log)
}

// certificate reads the certificate; nil: there is to be none.
func (f addressFlags) certificate(log *slog.Logger) (*ingress.Certificate, error) {
	switch {
	case (f.cert == "") != (f.key == ""):
		return nil, Fail(ExitUsage, "%[1]stls-cert and %[1]stls-key go together; name both files, or neither", f.prefix)
	case f.cert == "":
		return nil, nil
	}
	cert, err := ingress.ReadCertificate(f.cert, f.key, log)
	if err != nil {
		return nil, Fail(ExitFailure, "reading the certificate (%stls-cert, %stls-key): %w", f.prefix, f.prefix, err)
	}
	return cert, nil
}

// open reads the certificate and opens the address.
func (p *port) open(ctx context.Context, f addressFlags) (err error) {
	if p.cert, err = f.certificate(p.o.Log); err != nil {
		return err
	}
	p.Listener, err = Listen(ctx, f.prefix+"listen", f.addr)
	return err
}

// URL is where the server is reached on this machine, by a name or address of it.
func (p *port) URL(host string) string {
	scheme := "http"
	if p.cert != nil {
		scheme = "https"
	}
	_, number, _ := net.SplitHostPort(p.Addr().String()) // always an address of TCP
	return scheme + "://" + net.JoinHostPort(host, number) + "/"
}

// expires returns when the certificate expires; zero: there is none.
func (p *port) expires() time.Time {
	if p.cert == nil {
		return time.Time{}
	}
	return p.cert.Leaf().NotAfter
}

// Serve answers with a handler until Stop. The certificates are watched until then or until
// ctx ends. At the end of ctx readiness ends. The service manager is told of both.
func (s *Server) Serve(ctx context.Context, h http.Handler) {
	if s.Listener != nil {
		s.serve(ctx, h, s.Failed)
	}
	s.serveOperator(ctx)
	s.stopping = Notify(ctx)
}

func (p *port) serve(ctx context.Context, h http.Handler, failed chan<- error) {
	p.o.Handler = h
	p.http = ingress.NewServer(p.o)
	if p.cert != nil {
		ctx, p.quit = context.WithCancel(ctx)
		go p.cert.Watch(ctx)
	}
	go func() {
		if err := ingress.Serve(p.http, p.Listener, p.cert); !errors.Is(err, http.ErrServerClosed) {
			failed <- err
		}
	}()
}

// Stop accepts no more requests, and waits up to drain for those in progress. The operator's
// listener answers until then. Stop may be called again.
func (s *Server) Stop(ctx context.Context, drain time.Duration) {
	s.operator.draining.Store(true)
	s.stopping()
	s.stop(ctx, drain)
	if s.operator.on() {
		s.operator.stop(ctx, 0)
	}
}

func (p *port) stop(ctx context.Context, drain time.Duration) {
	p.quit()
	switch {
	case p.Listener == nil:
		return
	case p.http == nil:
		_ = p.Close() // nothing was served
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if p.http.Shutdown(ctx) != nil {
		_ = p.http.Close() // they had their time
	}
}
