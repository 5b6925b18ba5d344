package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/internal/program/app"
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
		Use: "show", Short: "Show the settings that a hub would start with", Args: cli.NoArguments,
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
		Use: "check [--config FILE]", Short: "Report what is wrong with the settings of a hub", Args: cli.NoArguments,
		Long: `Reads the settings as ` + "`rshub serve`" + ` would, with the files that they name, and reports
each mistake. It starts nothing, and opens neither the store nor an address. Whether
settings fit together is checked once there is no mistake in any of them.
It warns of settings that are valid and risky, and refuses a hub that others can reach
and that has no --public-url.

` + settingsHelp,
		Example: "  rshub config check --config /etc/rshub/rshub.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, origins, err := config.Resolve(cmd.Flags(), environ)
			if err == nil { // else what seems to be missing may be what could not be read
				err = cfg.Complete()
			}
			if err := errors.Join(err, app.Check(&cfg, origins)); err != nil {
				return cli.Incomplete(origins, err)
			}
			for _, w := range cfg.Warnings() {
				_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "warning: "+cli.Line(w))
			}
			return cli.SettingsRight(cmd)
		},
	}
	config.AddFlags(cmd.Flags())
	return cmd
}

func configInitCommand() *cobra.Command { return cli.InitSettings("rshub", config.Template) }

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
