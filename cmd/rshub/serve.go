package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	stdlog "log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/rshub/rshub/internal/base/logs"
	"github.com/rshub/rshub/internal/program/app"
	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/internal/program/config"
)

func serveCommand(environ []string, version string) *cobra.Command {
	cmd := &cobra.Command{
		Use: "serve", Short: "Run a hub", Args: cli.NoArguments,
		Long: `Runs a hub until SIGTERM or SIGINT. The hub then refuses new publishes, lets the
deliveries in progress finish (--drain), and exits with 0 at most two seconds later.
A second signal ends it at once.

Every few seconds the hub checks whether the publishers file, the operator's token
or the certificate has changed, and reads it again. SIGHUP makes it do so at once.
The log goes to standard error; its line with "event":"listening" has the addresses.

` + settingsHelp,
		Example: `  rshub serve --dev
  rshub serve --public-url https://hub.example.org/ --data-dir /var/lib/rshub`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, origins, err := settingsOf(cmd, environ)
			if err != nil {
				return err
			}
			if err := app.Check(&cfg, origins); err != nil {
				return cli.Incomplete(origins, err)
			}
			log := newLogger(cmd.ErrOrStderr(), cfg)
			for _, w := range cfg.Warnings() {
				log.Warn(w, zap.String("event", "settings"))
			}
			hub, err := app.New(cfg, log, version)
			if err != nil {
				return err
			}
			hub.ShowSettings(origins)
			stdlog.SetFlags(0)
			stdlog.SetOutput(hub.ErrorLog())
			// Before Start, so that no signal is missed.
			signals := make(chan os.Signal, 2)
			signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			defer signal.Stop(signals)
			return serve(hub, log, signals)
		},
	}
	config.AddFlags(cmd.Flags())
	return cmd
}

// hub is the part of app.App that serve needs.
type hub interface {
	Start(ctx context.Context) error
	Failed() <-chan error
	Reload()
	Stop(ctx context.Context) error
}

// serve runs a hub until a signal comes or a part of it fails. It returns at the
// second signal, whatever the hub is doing then. On SIGHUP the hub reads its files
// again.
func serve(h hub, log *zap.Logger, signals <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- live(ctx, h, log) }()
	for stopping := false; ; {
		select {
		case err := <-ended:
			if err == nil {
				log.Info("ended", zap.String("event", "stopped"))
			}
			return err
		case s := <-signals:
			switch {
			case s == syscall.SIGHUP:
				go h.Reload() // a file may be on a disk that hangs, and the next signal counts
			case stopping:
				return cli.Fail(cli.ExitFailure, "ended at once by a second signal; the deliveries in progress will be repeated")
			default:
				log.Info("asked to end", zap.String("event", "stopping"), zap.Stringer("signal", s))
				stopping = true
				cancel()
			}
		}
	}
}

// startGrace is how long serve waits for a start to end after a signal: the store may hang.
const startGrace = 2 * time.Second

// start starts a hub. It returns soon after ctx has ended, with an error if the hub had
// not started by then.
func start(ctx context.Context, h hub) error {
	started := make(chan error, 1)
	go func() { started <- h.Start(ctx) }()
	select {
	case err := <-started:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-started:
		return err
	case <-time.After(startGrace):
		return ctx.Err()
	}
}

// live starts a hub, and stops it when ctx ends or a part fails.
func live(ctx context.Context, h hub, log *zap.Logger) error {
	if err := start(ctx, h); err != nil {
		if ctx.Err() != nil { // asked to end while it started
			return nil
		}
		if errors.Is(err, app.ErrStoreRefused) {
			return cli.Fail(cli.ExitRefused, "%w", err)
		}
		return err
	}
	stopping := cli.Notify(ctx)
	var failed error
	select {
	case <-ctx.Done():
	case failed = <-h.Failed():
		log.Error("a part failed; the hub ends", zap.String("event", "part_failed"), zap.Error(failed))
	}
	stopping()
	return cmp.Or(failed, h.Stop(context.WithoutCancel(ctx)))
}

// newLogger writes to w in the format of the settings. The default is lines for people
// on a terminal, and JSON elsewhere.
func newLogger(w io.Writer, cfg config.Config) *zap.Logger {
	log, err := logs.New(w, cfg.LogLevel, cfg.LogFormat == "console" || cfg.LogFormat == "" && cli.IsTerminal(w))
	if err != nil {
		panic(err) // config accepts only the levels that there are
	}
	return log
}
