package main

import (
	"errors"
	"log/slog"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/internal/program/config"
	"github.com/rshub/rshub/internal/program/demo"
)

func demoCommand(version string) *cobra.Command {
	var o demo.Options
	var verbose bool
	cmd := &cobra.Command{
		Use: "demo", Short: "Run a hub, a Source and a Destination together, to see how they work", Args: cli.NoArguments,
		Long: `Runs a hub, a Source over a folder, and a Destination that keeps a copy of it, in one
process on loopback. Change something in the first folder: the change appears in the
second one, and a line reports how it got there. The folders stay at the end, and
everything else is deleted.`,
		Example: "  rshub demo",
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer cancel()
			o.Version, o.Out = version, cmd.OutOrStdout()
			if verbose {
				o.Log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
				o.Hub = newLogger(cmd.ErrOrStderr(), config.Config{LogLevel: "debug", LogFormat: "console"})
			}
			err := demo.Run(ctx, o)
			if errors.Is(err, demo.ErrNested) {
				return cli.Fail(cli.ExitUsage, "%w", err)
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Data, "data", "demo-data", "the `FOLDER` to publish; created with some files if it does not exist")
	flags.StringVar(&o.Copy, "copy", "demo-copy", "the `FOLDER` of the copy")
	flags.BoolVarP(&verbose, "verbose", "v", false, "log to standard error what the three programs do")
	return cmd
}
