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
		Use: "demo", Short: "See the whole chain work: a hub, a Source and a copy on this machine", Args: cobra.NoArgs,
		Long: `Runs a hub, a Source over a folder, and a Destination that keeps a copy of it, in one
process on loopback. Change something in the one folder: it shows in the other, and a
line tells how it got there. The folders stay; all else is gone at the end.`,
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
	flags.StringVar(&o.Data, "data", "demo-data", "the `FOLDER` that is published; made with some files where there is none")
	flags.StringVar(&o.Copy, "copy", "demo-copy", "the `FOLDER` of the copy")
	flags.BoolVarP(&verbose, "verbose", "v", false, "log what the three do, to standard error")
	return cmd
}
