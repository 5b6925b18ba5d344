package main

import (
	"context"
	"errors"
	"io"
	stdlog "log"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rshub/rshub/internal/app"
	"github.com/rshub/rshub/internal/cli"
	"github.com/rshub/rshub/internal/config"
)

func serveCommand(environ []string, version string, stderr io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use: "serve", Short: "Run a hub", Args: cobra.NoArgs,
		Long: `Runs a hub until it gets SIGTERM or SIGINT. It then takes no more publishes, lets
deliveries under way finish (--drain) and ends with 0; a second signal ends it
at once. On SIGHUP it reads the publishers file again. It logs to standard error;
the line with "event":"listening" holds the addresses.

` + settingsHelp,
		Example: `  rshub serve --dev
  rshub serve --public-url https://hub.example.org/ --data-dir /var/lib/rshub`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, _, err := settingsOf(cmd, environ)
			if err != nil {
				return err
			}
			log := newLogger(stderr, cfg)
			for _, w := range cfg.Warnings() {
				log.Warn(w, zap.String("event", "settings"))
			}
			hub, err := app.New(cfg, log, version)
			if err != nil {
				return err
			}
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
	wrapFlags(cmd)
	return cmd
}

// hub is what serve needs of app.App.
type hub interface {
	Start(ctx context.Context) error
	Failed() <-chan error
	Reload()
	Stop(ctx context.Context) error
}

// serve runs a hub until a signal comes or a part of it fails. It returns at the
// second signal, whatever the hub is doing then. SIGHUP has it read its publishers
// again.
func serve(h hub, log *zap.Logger, signals <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- live(ctx, h, log) }()
	for stopping := false; ; {
		select {
		case err := <-ended:
			return err
		case s := <-signals:
			switch {
			case s == syscall.SIGHUP:
				go h.Reload() // a file may be on a disk that hangs, and the next signal counts
			case stopping:
				return cli.Fail(cli.ExitFailure, "ended at once by a second signal; deliveries under way will be repeated")
			default:
				log.Info("asked to end", zap.String("event", "stopping"), zap.Stringer("signal", s))
				stopping = true
				cancel()
			}
		}
	}
}

// live starts a hub, and stops it when ctx ends or a part fails.
func live(ctx context.Context, h hub, log *zap.Logger) error {
	if err := h.Start(ctx); err != nil {
		if ctx.Err() != nil { // asked to end while it started, and nothing is left running
			return nil
		}
		if errors.Is(err, app.ErrStoreRefused) {
			return cli.Fail(cli.ExitRefused, "%w", err)
		}
		return err
	}
	var failed error
	select {
	case <-ctx.Done():
	case failed = <-h.Failed():
		log.Error("a part failed; the hub ends", zap.String("event", "part_failed"), zap.Error(failed))
	}
	err := h.Stop(context.WithoutCancel(ctx))
	if failed != nil {
		return failed
	}
	if err == nil {
		log.Info("ended", zap.String("event", "stopped"))
	}
	return err
}

// newLogger writes to w as the settings say; by default lines for people where
// w is a terminal, else JSON.
func newLogger(w io.Writer, cfg config.Config) *zap.Logger {
	level, err := zapcore.ParseLevel(cfg.LogLevel)
	if err != nil { // config takes only those that zap knows
		level = zapcore.InfoLevel
	}
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	enc.EncodeDuration = zapcore.SecondsDurationEncoder
	encoder := zapcore.NewJSONEncoder(enc)
	if cfg.LogFormat == "console" || cfg.LogFormat == "" && isTerminal(w) {
		enc.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		enc.EncodeLevel = zapcore.CapitalLevelEncoder
		encoder = zapcore.NewConsoleEncoder(enc)
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), level))
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
