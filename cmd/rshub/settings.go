package main

import (
	"io"
	"strings"

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
		return cfg, origins, wrongSettings(err)
	}
	return cfg, origins, nil
}

// wrongSettings puts each mistake into a line of its own.
func wrongSettings(err error) error {
	var lines []any
	for line := range strings.SplitSeq(err.Error(), "\n") {
		lines = append(lines, line)
	}
	return cli.Fail(cli.ExitUsage, "the settings are not right:"+strings.Repeat("\n  %s", len(lines)), lines...)
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
			return show(cmd.OutOrStdout(), origins, effective, asJSON)
		},
	}
	cmd.Flags().BoolVar(&effective, "effective", false, "show all settings, each with where it comes from")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line: the name of a setting, its value and where it comes from")
	config.AddFlags(cmd.Flags())
	return cmd
}

// show writes all settings if effective, else those that were set.
func show(w io.Writer, origins config.Origins, effective, asJSON bool) error {
	if asJSON {
		return showJSON(w, origins, effective)
	}
	if !effective {
		file, err := origins.YAML()
		if err == nil {
			_, err = w.Write(file)
		}
		return err
	}
	var rows [][]string
	for _, o := range origins {
		value := o.Text()
		if value == "" && o.Default {
			value = "(" + o.Auto + ")"
		}
		rows = append(rows, []string{o.Name, o.From, value})
	}
	return cli.WriteTable(w, []string{"SETTING", "FROM", "VALUE"}, rows)
}

func showJSON(w io.Writer, origins config.Origins, effective bool) error {
	for _, o := range origins {
		if o.Default && !effective {
			continue
		}
		line := struct {
			Name  string `json:"name"`
			Value any    `json:"value"`
			From  string `json:"from"`
		}{o.Name, o.Text(), o.From}
		if o.List {
			line.Value = append([]string{}, o.Value...)
		}
		if err := cli.WriteJSON(w, line); err != nil {
			return err
		}
	}
	return nil
}

// healthCommand asks the hub that has these settings.
func healthCommand(environ []string) *cobra.Command {
	cmd := cli.HealthOf("rshub", func(cmd *cobra.Command) (string, bool, error) {
		cfg, err := config.ResolveStore(cmd.Flags(), environ)
		if err != nil {
			return "", false, wrongSettings(err)
		}
		return cfg.AdminListen, cfg.AdminTLSCert != "", nil
	})
	cmd.Example = "  rshub health --config /etc/rshub/rshub.yaml && echo ready"
	config.AddFlags(cmd.Flags(), "config", "admin-listen", "admin-tls-cert")
	return cmd
}
