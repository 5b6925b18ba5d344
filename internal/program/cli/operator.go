package cli

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/internal/base/ingress"
	"github.com/rshub/rshub/internal/base/logs"
	"github.com/rshub/rshub/internal/engine/figures"
	"github.com/rshub/rshub/internal/program/config"
)

// operatorTotal is how many connections the operator's listener has.
const operatorTotal = 256

// operator is the operator's listener of rspub or rssub. It follows the rules of the hub's:
// package admin has them.
type operator struct {
	port
	token   *Credential
	log     *slog.Logger
	checks  func() []admin.Check
	look    func()
	figures *figures.Set
	refused figures.Counters[admin.Refusal]

	ready    bool // at the last scrape
	draining atomic.Bool
}

// on reports whether there is a listener.
func (o *operator) on() bool { return o.Listener != nil }

// checkOperator returns an error for ExitUsage if the flags of the operator's listener can't be right.
func (f *ServerFlags) checkOperator() error {
	if f.admin.addr == "" {
		for _, name := range []string{"admin-token-file", "admin-tls-cert", "admin-tls-key"} {
			if config.Given(f.flags, name) {
				return Fail(ExitUsage, "--%s has no effect without --admin-listen", name)
			}
		}
		return nil
	}
	if err := checkListen("--admin-listen", f.admin.addr); err != nil {
		return err
	}
	if err := config.CheckAdminListen(f.admin.addr, f.tokenFile != ""); err != nil {
		return Fail(ExitUsage, "--admin-listen: %w", err)
	}
	return nil
}

// openOperator opens the operator's listener of s, if there is to be one.
func (f *ServerFlags) openOperator(ctx context.Context, s *Server, log *slog.Logger) error {
	o := &s.operator
	o.quit, o.log = func() {}, log
	if err := f.checkOperator(); err != nil || f.admin.addr == "" {
		return err
	}
	o.o = ingress.Options{Name: "operator's listener", Broken: admin.Broken, Total: operatorTotal, Log: log}
	var err error
	if o.token, err = readToken("--admin-token-file", f.tokenFile, log); err != nil {
		return err
	}
	return o.open(ctx, f.admin)
}

// readToken reads the file with the token of a listener; an empty name means no file.
func readToken(flag, file string, log *slog.Logger) (*Credential, error) {
	token, err := readCredential(file, func() (string, error) {
		token, exposed, err := config.ReadAdminToken(file)
		if err != nil {
			return "", Fail(ExitUsage, "%s: %w", flag, err)
		}
		if exposed {
			log.Warn("everyone on this machine may read or change the token of "+flag+"; prevent that with: chmod o= "+file, "event", "operator_token_exposed")
		}
		return string(token), nil
	})
	if err != nil {
		return nil, err
	}
	token.refused = func(err error) {
		log.Warn("the token of "+flag+" could not be read again; the earlier token stays in force", "event", "token_reload_failed", "file", file, "error", err)
	}
	return token, nil
}

// The listeners, as labels name them.
const (
	publicListener = "public"
	adminListener  = "admin"
)

// Figures returns the metrics that rspub and rssub have in common. Their names begin with
// name; what is the program, for people. Add others, and call Operate before Serve.
func (s *Server) Figures(name, what, version string) *figures.Set {
	o := &s.operator
	o.figures = figures.New(name, what, version)
	o.figures.Gauge(name+"_ready", "1 if GET /readyz says that the "+what+" is ready, else 0.", nil, func() float64 { return figures.Truth(o.ready) })
	for listener, p := range map[string]*port{publicListener: &s.port, adminListener: &o.port} {
		o.figures.Gauge(name+"_certificate_not_after_timestamp_seconds", "When the certificate of a listener runs out; 0: the listener has none.",
			prometheus.Labels{"listener": listener}, func() float64 { return figures.Unix(p.expires()) })
	}
	o.refused = figures.Family(o.figures, name+"_operator_refused_total", "Requests to the operator's listener that were refused before they were read, by reason.",
		"reason", admin.Refusals()...)
	return o.figures
}

// Operate says what the operator's listener shows besides: checks are those of readiness, and
// look refreshes what the gauges of Figures read. Slow collectors are asked every few seconds.
func (s *Server) Operate(checks func() []admin.Check, look func(), slow ...prometheus.Collector) {
	s.operator.checks, s.operator.look = checks, look
	s.operator.figures.Seal(slow...)
}

// ready returns all checks.
func (o *operator) readiness() []admin.Check {
	var ending error
	if o.draining.Load() {
		ending = errors.New("the program is shutting down")
	}
	return append(o.checks(), admin.Check{Name: "draining", Holds: "the program was not asked to end", Err: ending})
}

// scrape refreshes what the gauges read.
func (o *operator) scrape() {
	o.look()
	o.ready = true
	for _, c := range o.readiness() {
		o.ready = o.ready && c.Err == nil
	}
}

// serveOperator answers the operator, if there is a listener.
func (s *Server) serveOperator(ctx context.Context) {
	o := &s.operator
	if !o.on() {
		return
	}
	context.AfterFunc(ctx, func() { o.draining.Store(true) })
	go func() { _ = o.figures.Run(ctx) }() // it returns nil
	var token func() string
	if o.token.name != "" {
		token = o.token.Get
	}
	o.serve(ctx, admin.New(admin.Options{
		Token: token, Metrics: o.figures.Handler(o.scrape), Refused: func(why admin.Refusal) { o.refused.One(why) }, Log: logs.Zap(o.log),
		Ready: func(context.Context) []admin.Check { return o.readiness() },
	}), s.Failed)
	o.log.Info("the operator's listener answers", "event", "operator_listening", "addr", o.Addr().String(), "url", o.URL("localhost"))
}
