package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/internal/program/config"
)

const settingsHelp = `Every setting is a flag, an environment variable (RSHUB_ and the name in upper
case, as in RSHUB_MAX_BODY) and a key of the YAML file that --config names (as in
` + "`max-body: 50MiB`" + `). A flag wins over the environment, and the environment over the file.
Write sizes as 64KiB or 50MiB, durations as 300s, 72h or 10d, and rates as 600/m.`

// settingsOf reads the settings of a command.
func settingsOf(cmd *cobra.Command, environ []string) (config.Config, config.Origins, error) {
	cfg, origins, err := config.Resolve(cmd.Flags(), environ)
	if err != nil {
		return cfg, origins, cli.WrongSettings(err)
	}
	return cfg, origins, nil
}

func configShowCommand(environ []string) *cobra.Command {
	var effective, asJSON bool
	cmd := &cobra.Command{
		Use: "show", Short: "Show the settings that a hub would start with", Args: cobra.NoArgs,
		Long: `Shows the settings that ` + "`rshub serve`" + ` would start with, given the same flags,
environment and file. It prints those that were set, as a file for --config. With
--effective it prints all settings, each with where it comes from. It never prints
secrets.

` + settingsHelp,
		Example: `  rshub config show --effective
  rshub config show --dev --max-body 10MiB > rshub.yaml      a file for --config`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, origins, err := settingsOf(cmd, environ)
			if err != nil {
				return err
			}
			return cli.ShowSettings(cmd.OutOrStdout(), origins, effective, asJSON)
		},
	}
	cmd.Flags().BoolVar(&effective, "effective", false, "show all settings, each with where it comes from")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line: the name of a setting, its value and where it comes from")
	config.AddFlags(cmd.Flags())
	return cmd
}

func configCheckCommand(environ []string) *cobra.Command {
	cmd := &cobra.Command{
		Use: "check [--config FILE]", Short: "Report what is wrong with the settings of a hub", Args: cobra.NoArgs,
		Long: `Reads the settings as ` + "`rshub serve`" + ` would, with the files that they name, and reports
all mistakes at once. It starts nothing, and opens neither the store nor an address.
It warns of settings that are valid and risky.

` + settingsHelp,
		Example: "  rshub config check --config /etc/rshub/rshub.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, _, err := settingsOf(cmd, environ)
			if err != nil {
				return err
			}
			for _, w := range cfg.Warnings() {
				_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "warning: "+cli.Line(w))
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "The settings are right.")
			return err
		},
	}
	config.AddFlags(cmd.Flags())
	return cmd
}

func configInitCommand() *cobra.Command {
	return &cobra.Command{
		Use: "init FILE", Short: "Write a file with every setting, commented out", Args: cobra.ExactArgs(1),
		Long: `Writes a file for --config that has every setting of a hub with its meaning and its
default, all commented out. It does not overwrite a file.`,
		Example: "  rshub config init /etc/rshub/rshub.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // it has no secrets, and the hub's user reads it
			if errors.Is(err, os.ErrExist) {
				return cli.Fail(cli.ExitRefused, "%s is there already, and stays as it is", args[0])
			}
			if err != nil {
				return err
			}
			_, err = f.WriteString(config.Template())
			if err = errors.Join(err, f.Close()); err == nil {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is written; edit it, then: rshub config check --config %s\n", args[0], args[0])
			}
			return err
		},
	}
}

func healthCommand(environ []string) *cobra.Command {
	cmd := cli.Health("rshub", func(cmd *cobra.Command) (addr string, secure bool, err error) {
		if addr, secure, err = config.ResolveAdmin(cmd.Flags(), environ); err != nil {
			err = cli.WrongSettings(err)
		}
		return addr, secure, err
	})
	config.AddFlags(cmd.Flags(), "config", "admin-listen", "admin-tls-cert")
	return cmd
}
