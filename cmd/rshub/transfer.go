package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
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

const storeHelp = `The store is the one that ` + "`rshub serve`" + ` would use with the same --data-dir,
--redis-url, --config and environment. Only one process can open the embedded store,
so stop its hub first. Hubs on Redis may run during an export; stop them before an
import or a restore.`

func exportCommand(environ []string, version string) *cobra.Command {
	var without, plain, notifications bool
	cmd := &cobra.Command{
		Use: "export [FILE]", Short: "Write subscriptions and topics as JSON lines", Args: cli.AtMost("file"),
		Long: `Writes all subscriptions, with their secrets, cursors, gaps and pending requests,
and the state of all topics, one JSON object a line, to FILE or to standard output.
With ` + "`rshub import`" + ` the file moves a hub to another store: from the embedded one to
Redis or back. To back up a running hub, use ` + "`rshub backup`" + `.

With --notifications the file also has the retained notifications; if some of them are
damaged in the store, it has everything else, and the command exits with 6. Without
them, what a subscription had not received at the export becomes a gap in it (reason
retention); the last line of the output counts these notifications.

The secrets of subscribers are sealed with the first key of --seal-key-file; an
import needs that key. Without a key, choose: --without-secrets writes no secrets
(subscriptions with a secret can't be imported from that file, since their
subscribers would refuse unsigned deliveries), and --plain-secrets writes them
unencrypted.

` + storeHelp,
		Example: `  rshub export --seal-key-file /etc/rshub/seal.keys > rshub.jsonl
  rshub export --data-dir /var/lib/rshub --plain-secrets rshub.jsonl`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if without && plain {
				return cli.Fail(cli.ExitUsage, "--without-secrets and --plain-secrets exclude each other; choose one")
			}
			o := app.ExportOptions{Program: version, Now: time.Now(), Notifications: notifications}
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
	cmd.Flags().BoolVar(&notifications, "notifications", false, "write the retained notifications too")
	cmd.Flags().BoolVar(&without, "without-secrets", false, "leave the secrets of subscribers out")
	cmd.Flags().BoolVar(&plain, "plain-secrets", false, "write the secrets of subscribers unsealed")
	config.AddStoreFlags(cmd.Flags())
	return cmd
}

// onStore runs a function on the store of the settings, until a signal comes.
func onStore(cmd *cobra.Command, environ []string, run func(context.Context, config.Config, *zap.Logger) error) error {
	cfg, err := config.ResolveStore(cmd.Flags(), environ)
	if err != nil {
		return cli.WrongSettings(err)
	}
	cfg.LogLevel, cfg.LogFormat = "warn", "console"
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return transferFailure(run(ctx, cfg, newLogger(cmd.ErrOrStderr(), cfg)))
}

// transferFailure gives an error its exit code.
func transferFailure(err error) error {
	var refused *app.FileError
	var already *cli.Error
	switch {
	case err == nil || errors.As(err, &already):
		return err
	case errors.As(err, &refused):
		code := cli.ExitRefused
		if errors.Is(err, app.ErrFileCut) {
			code = cli.ExitPartial
		}
		return cli.Fail(code, "%w\nNothing was stored.", refused.Err) // it may join several
	case errors.Is(err, app.ErrNoSealKey):
		return cli.Fail(cli.ExitRefused, "%w; name the key with --seal-key-file, or choose --without-secrets or --plain-secrets", err)
	case errors.Is(err, app.ErrStoreRefused):
		return cli.Fail(cli.ExitRefused, "%w", err)
	case errors.Is(err, app.ErrNoStore):
		return cli.Fail(cli.ExitNotFound, "%w", err)
	case errors.Is(err, context.Canceled):
		return cli.Fail(cli.ExitFailure, "interrupted")
	}
	return err
}

func export(ctx context.Context, cmd *cobra.Command, cfg config.Config, log *zap.Logger, file string, o app.ExportOptions) error {
	p := cli.NewProgress(cmd.ErrOrStderr(), nil)
	o.Progress = func(c app.LineCounts) { p.Show(c.Total(), 0, fmt.Sprintf("exported %d", c.Total())) }
	var done app.Exported
	write := func(w io.Writer) (err error) {
		done, err = app.Export(ctx, cfg, log, w, o)
		return err
	}
	var err error
	if file == "-" {
		err = write(cli.Document(cmd.OutOrStdout()))
	} else {
		err = atomicfile.Output(file, write)
	}
	p.End("")
	if err != nil {
		return err
	}
	if err := note(cmd, "Exported %v; their secrets are %s.", done.Counts, done.Secrets); err != nil || o.Notifications || done.Lagging == 0 {
		return cmp.Or(err, cli.WithoutDamaged(done.Damaged))
	}
	return note(cmd, "Not delivered yet: %s to %s. After an import these become gaps. To keep them, export with --notifications.",
		quantity.Count(done.Lag, "notification", "notifications"), quantity.Count(done.Lagging, "subscription", "subscriptions"))
}

// note writes a line for a person to standard error.
func note(cmd *cobra.Command, format string, args ...any) error {
	_, err := fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...)
	return err
}

func importCommand(environ []string) *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Load the file of an export into a store", Args: cli.Exactly("file"),
		Long: `Reads FILE, as ` + "`rshub export`" + ` wrote it, into a store; - stands for standard input.
The whole file is checked before anything is stored: a file that was cut short
(exit code 6) or has a wrong line (exit code 4) changes nothing.

The import merges: the newer state of a subscription or topic wins, and no cursor
moves back. Importing a file twice changes nothing. The import skips a topic and its
subscriptions if the store has older notifications of its own for this topic. It skips
a subscription if its secret is not in the file. It reports what it skipped, and then
exits with 6.

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
	f, closing, err := openImport(cmd.InOrStdin(), name)
	if err != nil {
		return err
	}
	defer closing()
	p := cli.NewProgress(cmd.ErrOrStderr(), nil)
	var total int64 // known when the whole file has been checked
	show := func(c app.LineCounts) { p.Show(c.Total(), total, fmt.Sprintf("imported %d of %d", c.Total(), total)) }
	done, err := app.Import(ctx, cfg, log, f, app.ImportOptions{DryRun: dry, Progress: show}, func(c app.LineCounts) { total = c.Total() })
	p.End("")
	if err != nil {
		return err
	}
	would, was := "", "was"
	if dry {
		would, was = "Nothing is stored in a dry run. ", "would be"
	}
	if err := note(cmd, "%sOf %v, %d are new or changed. For %d the store has the same or newer.",
		would, done.Counts, done.Stored, done.Kept); err != nil || !done.Partial() {
		return err
	}
	skipped := done.Refused
	if n := done.RefusedLines; n > 0 {
		skipped = append(skipped, fmt.Errorf("skipped for that reason: %s", quantity.Count(n, "topic or subscription", "topics and subscriptions")))
	}
	if n := done.Secretless; n > 0 {
		skipped = append(skipped, fmt.Errorf("skipped, because their secret is not in the file: %s; these subscribers have to subscribe again", quantity.Count(n, "subscription or request", "subscriptions and requests")))
	}
	return cli.Fail(cli.ExitPartial, "%w\nEverything else %s imported.", errors.Join(skipped...), was)
}

func restoreCommand(environ []string) *cobra.Command {
	cmd := &cobra.Command{
		Use: "restore FILE", Short: "Read a backup into an empty store", Args: cli.Exactly("file"),
		Long: `Reads FILE, as ` + "`rshub backup`" + ` wrote it, into an empty store; - stands for standard
input. The store may be of the other kind: a backup of an embedded store can be
restored into Redis, and the other way round. At the end, the restore reads everything
back from the store and compares it with the file.

The whole file is checked before anything is stored: a file that was cut short
(exit code 6) or has a wrong line (exit code 4) changes nothing. No hub starts on the
store until the restore has succeeded. If it was interrupted, run it again with the
same file: it continues where it stopped.

A file with sealed secrets needs the key that sealed them in --seal-key-file.

The hub then continues from the time of the backup. "Backup and restore" in
docs/operations.md says what is lost and what repeats.

` + storeHelp,
		Example: `  rshub restore --data-dir /var/lib/rshub --seal-key-file /etc/rshub/seal.keys rshub.jsonl
  zstd -d < rshub.jsonl.zst | rshub restore --redis-url redis://localhost:6379 -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return onStore(cmd, environ, func(ctx context.Context, cfg config.Config, log *zap.Logger) error {
				return restore(ctx, cmd, cfg, log, args[0])
			})
		},
	}
	config.AddStoreFlags(cmd.Flags())
	return cmd
}

func restore(ctx context.Context, cmd *cobra.Command, cfg config.Config, log *zap.Logger, name string) error {
	f, closing, err := openImport(cmd.InOrStdin(), name)
	if err != nil {
		return err
	}
	defer closing()
	p := cli.NewProgress(cmd.ErrOrStderr(), nil)
	show := func(step string, done, total int64) {
		text := fmt.Sprintf("%s %d", step, done)
		if total > 0 {
			text += fmt.Sprintf(" of %d", total)
		}
		p.Show(done, total, text)
	}
	counts, err := app.Restore(ctx, cfg, log, f, app.RestoreOptions{Progress: show})
	p.End("")
	switch {
	case errors.Is(err, app.ErrNotEmpty), errors.Is(err, app.ErrHubsRun), errors.Is(err, app.ErrInterrupted):
		return cli.Fail(cli.ExitRefused, "%w", err)
	case err != nil:
		return err
	}
	return note(cmd, "Restored %v, and read them back.", counts)
}

// openImport opens a file to import. An import reads it twice, so standard input is copied
// into a file without a name.
func openImport(stdin io.Reader, name string) (f *os.File, closing func(), err error) {
	closing = func() { _ = f.Close() }
	if name != "-" {
		f, err = os.Open(name) //nolint:gosec // G304: the operator names the file
		if errors.Is(err, os.ErrNotExist) {
			err = cli.Fail(cli.ExitNotFound, "there is no file %s; name an existing file, or - for standard input", name)
		}
		return f, closing, err
	}
	if f, err = atomicfile.Nameless(""); err != nil {
		return nil, nil, err
	}
	if _, err := io.Copy(f, stdin); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("reading standard input: %w", err), f.Close())
	}
	_, err = f.Seek(0, io.SeekStart)
	return f, closing, err
}
