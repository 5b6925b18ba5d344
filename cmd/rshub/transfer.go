package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/rshub/rshub/internal/base/atomicfile"
	"github.com/rshub/rshub/internal/base/quantity"
	"github.com/rshub/rshub/internal/program/app"
	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/internal/program/config"
)

const storeHelp = `The store is the one that ` + "`rshub serve`" + ` would take with the same --data-dir,
--redis-url, --config and environment. The embedded one can be open once, so stop
its hub before. Hubs on Redis may go on while it is exported; stop them before you
import into it.`

func exportCommand(environ []string, version string) *cobra.Command {
	var without, plain bool
	cmd := &cobra.Command{
		Use: "export [FILE]", Short: "Write subscriptions and topics as JSON lines", Args: cobra.MaximumNArgs(1),
		Long: `Writes all subscriptions, with their secrets, cursors, gaps and pending requests,
and the state of all topics, one JSON object a line, to FILE or to standard output.
It is a backup, and with ` + "`rshub import`" + ` the way to another store: from the embedded
one to Redis and back.

Bodies of notifications don't travel: what a subscription has not got yet when it is
exported becomes a gap of it (reason retention). How many those are is told at the
end; wait until there are none, with no Source publishing, and export again.

Secrets of subscribers are sealed with the first key of --seal-key-file, and can be
imported by whoever has that key. Without a key say which you want: a file without
secrets (subscriptions that have one can't be imported from it, as nobody would
believe their deliveries), or one in which everybody can read them.

` + storeHelp,
		Example: `  rshub export --seal-key-file /etc/rshub/seal.keys > rshub.jsonl
  rshub export --data-dir /var/lib/rshub --plain-secrets rshub.jsonl`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if without && plain {
				return cli.Fail(cli.ExitUsage, "--without-secrets and --plain-secrets exclude each other")
			}
			o := app.ExportOptions{Program: version, Now: time.Now()}
			switch {
			case without:
				o.Secrets = app.WithoutSecrets
			case plain:
				o.Secrets = app.PlainSecrets
			}
			file := "-"
			if len(args) > 0 {
				file = args[0]
			}
			return onStore(cmd, environ, func(ctx context.Context, cfg config.Config, log *zap.Logger) error {
				return export(ctx, cmd, cfg, log, file, o)
			})
		},
	}
	cmd.Flags().BoolVar(&without, "without-secrets", false, "leave the secrets of subscribers out")
	cmd.Flags().BoolVar(&plain, "plain-secrets", false, "write the secrets of subscribers as they are")
	config.AddStoreFlags(cmd.Flags())
	return cmd
}

// onStore runs what works on the store of the settings, until a signal comes.
func onStore(cmd *cobra.Command, environ []string, run func(context.Context, config.Config, *zap.Logger) error) error {
	cfg, err := config.ResolveStore(cmd.Flags(), environ)
	if err != nil {
		return wrongSettings(err)
	}
	cfg.LogLevel, cfg.LogFormat = "warn", "console"
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return transferFailure(run(ctx, cfg, newLogger(cmd.ErrOrStderr(), cfg)))
}

// transferFailure gives what went wrong its exit code.
func transferFailure(err error) error {
	var refused *app.FileError
	var already *cli.Error
	switch {
	case err == nil || errors.As(err, &already):
		return err
	case errors.Is(err, app.ErrFileCut):
		return cli.Fail(cli.ExitPartial, "%w\nNothing was imported.", err)
	case errors.As(err, &refused):
		return cli.Fail(cli.ExitRefused, "%w\nNothing was imported.", err)
	case errors.Is(err, app.ErrNoSealKey):
		return cli.Fail(cli.ExitRefused, "%w; name the key with --seal-key-file, or say --without-secrets or --plain-secrets", err)
	case errors.Is(err, app.ErrNoStore):
		return cli.Fail(cli.ExitNotFound, "%w", err)
	case errors.Is(err, context.Canceled):
		return cli.Fail(cli.ExitFailure, "broken off")
	}
	return err
}

func export(ctx context.Context, cmd *cobra.Command, cfg config.Config, log *zap.Logger, file string, o app.ExportOptions) error {
	p := cli.NewProgress(cmd.ErrOrStderr(), nil)
	o.Progress = func(c app.LineCounts) { p.Show(c.Total(), 0, fmt.Sprintf("exported %d", c.Total())) }
	var told app.Exported
	write := func(w io.Writer) (err error) {
		told, err = app.Export(ctx, cfg, log, w, o)
		return err
	}
	var err error
	if file == "-" {
		err = write(cli.Document(cmd.OutOrStdout()))
	} else {
		err = writeWhole(file, write)
	}
	p.End("")
	if err != nil {
		return err
	}
	if err := note(cmd, "Exported %v; their secrets are %s.", told.Counts, told.Secrets); err != nil {
		return err
	}
	if told.Lagging > 0 {
		return note(cmd, "Not delivered yet: %s to %s. An export has no bodies, so after an import these become gaps. Wait until no subscription lags, and export again.",
			quantity.Count(told.Lag, "notification", "notifications"), quantity.Count(told.Lagging, "subscription", "subscriptions"))
	}
	return nil
}

// note tells a person something, beside the data on stdout.
func note(cmd *cobra.Command, format string, args ...any) error {
	_, err := fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...)
	return err
}

// writeWhole writes a file that only its owner reads, and that appears when it is
// whole.
func writeWhole(name string, write func(io.Writer) error) error {
	return atomicfile.Write(name, atomicfile.Options{Durability: atomicfile.FileOnly, Temp: filepath.Base(name) + ".*.part"}, write)
}

func importCommand(environ []string) *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Read what export wrote into a store", Args: cobra.ExactArgs(1),
		Long: `Reads FILE, or standard input where that is -, as ` + "`rshub export`" + ` wrote it, into a
store. All of it is looked at before anything is stored: a file that was cut short,
or has a wrong line, changes nothing (exit code 6, or 4).

What is in the store already is merged: of two states of a subscription or a topic
the newer holds, and no cursor goes back. To import a file again does no harm and
changes nothing. A topic of which the store has older notifications of its own is
left out with its subscriptions, and a subscription whose secret was left out of the
file too, which is told (exit code 6).

A file with sealed secrets needs the key that sealed them in --seal-key-file.

` + storeHelp,
		Example: `  rshub import --redis-url redis://localhost:6379 \
      --seal-key-file /etc/rshub/seal.keys rshub.jsonl
  rshub export --plain-secrets | ssh new rshub import --dry-run -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return onStore(cmd, environ, func(ctx context.Context, cfg config.Config, log *zap.Logger) error {
				return importFile(ctx, cmd, cfg, log, args[0], dry)
			})
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "store nothing, and print what would be stored")
	config.AddStoreFlags(cmd.Flags())
	return cmd
}

func importFile(ctx context.Context, cmd *cobra.Command, cfg config.Config, log *zap.Logger, name string, dry bool) error {
	f, done, err := openImport(cmd.InOrStdin(), name)
	if err != nil {
		return err
	}
	defer done()
	p := cli.NewProgress(cmd.ErrOrStderr(), nil)
	var total int64 // known when the whole file has been checked
	show := func(c app.LineCounts) { p.Show(c.Total(), total, fmt.Sprintf("imported %d of %d", c.Total(), total)) }
	told, err := app.Import(ctx, cfg, log, f, app.ImportOptions{DryRun: dry, Progress: show}, func(c app.LineCounts) { total = c.Total() })
	p.End("")
	if err != nil {
		return err
	}
	would := ""
	if dry {
		would = "Nothing is stored in a dry run. "
	}
	if err := note(cmd, "%sOf %v, %d are new or changed, and %d are in the store as they are or newer.",
		would, told.Counts, told.Stored, told.Kept); err != nil {
		return err
	}
	if !told.Partial() {
		return nil
	}
	text := ""
	for _, err := range told.Refused {
		text += err.Error() + "\n"
	}
	if n := told.RefusedLines; n > 0 {
		text += "Left out for that: " + quantity.Count(n, "topic or subscription", "topics and subscriptions") + ".\n"
	}
	if n := told.Secretless; n > 0 {
		text += "Left out, as the file lacks the secret: " + quantity.Count(n, "subscription or request", "subscriptions and requests") + ". The subscribers have to subscribe again.\n"
	}
	return cli.Fail(cli.ExitPartial, "%sAll else is as told.", text)
}

// openImport opens what is to be imported. It has to be read twice, so standard
// input is kept in a file that has no name any more.
func openImport(stdin io.Reader, name string) (f *os.File, done func(), err error) {
	done = func() { _ = f.Close() }
	if name != "-" {
		f, err = os.Open(name) //nolint:gosec // G304: the operator names the file
		if errors.Is(err, os.ErrNotExist) {
			err = cli.Fail(cli.ExitNotFound, "there is no file %s; name one, or - for standard input", name)
		}
		return f, done, err
	}
	if f, err = os.CreateTemp("", "rshub-import-"); err != nil {
		return nil, nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	if _, err := io.Copy(f, stdin); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("reading standard input: %w", err), f.Close())
	}
	_, err = f.Seek(0, io.SeekStart)
	return f, done, err
}
