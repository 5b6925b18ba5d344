package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/internal/base/quantity"
	"github.com/rshub/rshub/internal/program/app"
	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/internal/program/config"
)

// checkCommand reads a whole data folder.
func checkCommand(environ []string) *cobra.Command {
	cmd := &cobra.Command{
		Use: "check [--data-dir DIR]", Short: "Read the whole data folder, and report what is damaged", Args: cli.NoArguments,
		Long: `Reads the database and the bodies in the data folder of a stopped hub, and changes
nothing. It prints everything that is damaged, and exits with 1 if anything is. A hub
does not need this command: it checks the checksum of everything it reads.`,
		Example: "  rshub check --data-dir /var/lib/rshub",
	}
	config.AddFlags(cmd.Flags(), "config", "data-dir")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := config.ResolveStore(cmd.Flags(), environ)
		if err != nil {
			return cli.WrongSettings(err)
		}
		damaged := 0
		c, err := app.CheckFolder(cfg.DataDir, func(what string, why error) {
			damaged++
			_, _ = fmt.Fprintln(cmd.OutOrStdout(), "damaged: "+cli.Line(what+": "+why.Error()))
		})
		if err != nil {
			return transferFailure(err)
		}
		if damaged > 0 {
			return cli.Fail(cli.ExitFailure, "%s damaged in %s; restore a backup of the folder, or start the hub, which skips what is damaged",
				quantity.Count(damaged, "thing is", "things are"), cfg.DataDir)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is whole: %s, %s of %s.\n", cfg.DataDir,
			quantity.Count(c.Records, "record", "records"), quantity.Count(c.Entries, "notification", "notifications"), quantity.Count(c.Bytes, "byte", "bytes"))
		return err
	}
	return cmd
}
