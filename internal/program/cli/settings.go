package cli

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rshub/rshub/internal/program/config"
)

// WrongSettings puts each mistake that err joins into a line of its own. The result has
// ExitUsage.
func WrongSettings(err error) error {
	var lines []any
	for line := range strings.SplitSeq(err.Error(), "\n") {
		lines = append(lines, line)
	}
	return Fail(ExitUsage, "the settings are not right:"+strings.Repeat("\n  %s", len(lines)), lines...)
}

// ShowSettings writes all settings if effective, else those that were set.
func ShowSettings(w io.Writer, origins config.Origins, effective, asJSON bool) error {
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
	return WriteTable(w, []string{"SETTING", "FROM", "VALUE"}, rows)
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
		if err := WriteJSON(w, line); err != nil {
			return err
		}
	}
	return nil
}

// settings are those of rspub or rssub.
type settings struct {
	program string
	known   *pflag.FlagSet
	environ []string
}

// help says how settings are given.
func (s *settings) help() string {
	return "Every setting is a flag, an environment variable (" + s.prefix() + ` and the name in upper
case, as in ` + s.prefix() + `STATE_DIR) and a key of the YAML file that --config names (as in
` + "`state-dir: /var/lib/" + s.program + "`" + `). A flag wins over the environment, and the environment
over the file. A flag that may be repeated has a list in the file, and in a variable
values with white space or commas between them.`
}

func (s *settings) prefix() string { return strings.ToUpper(s.program) + "_" }

// Configure lets the commands of rspub or rssub take their flags from a file and from the
// environment as well: those flags that a command among services has, without except. It adds
// --config to the commands, and the commands `config show` and `health`. Environ is an
// environment of NAME=value.
func Configure(root *cobra.Command, environ, except []string, services ...*cobra.Command) {
	s := &settings{program: root.Name(), known: pflag.NewFlagSet("", pflag.ContinueOnError), environ: environ}
	for _, service := range services {
		service.Flags().VisitAll(func(f *pflag.Flag) {
			if !slices.Contains(append(except, "help", "json"), f.Name) && s.known.Lookup(f.Name) == nil {
				s.known.AddFlag(f)
			}
		})
	}
	show := s.show()
	show.Flags().AddFlagSet(s.known)
	root.AddCommand(s.health())
	for _, cmd := range root.Commands() {
		if cmd.Name() == "version" {
			continue
		}
		addConfig(cmd)
		cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
			_, err := s.resolve(cmd)
			return err
		}
	}
	addConfig(show)
	s.known.String("config", "", "")
	root.AddCommand(Group("config", "Show the settings of "+s.program, show))
}

// addConfig adds the flag that names the file, which resolve reads.
func addConfig(cmd *cobra.Command) {
	cmd.Flags().String("config", "", "YAML `FILE` of settings; its keys are the names of flags without the dashes in front")
}

// resolve sets the flags of a command that the command line does not set.
func (s *settings) resolve(cmd *cobra.Command) (config.Origins, error) {
	origins, err := config.Overlay(cmd.Flags(), s.known, s.prefix(), s.environ)
	if err != nil {
		return nil, WrongSettings(err)
	}
	return origins, nil
}

// show is `rspub config show` and `rssub config show`.
func (s *settings) show() *cobra.Command {
	var effective, asJSON bool
	cmd := &cobra.Command{
		Use: "show", Short: "Show the settings that " + s.program + " would start with", Args: cobra.NoArgs,
		Long: "Shows the settings that " + s.program + ` would start with, given the same flags,
environment and file. It prints those that were set, as a file for --config. With
--effective it prints all settings, each with where it comes from.

` + s.help(),
		Example: "  " + s.program + " config show --effective",
	}
	cmd.Flags().BoolVar(&effective, "effective", false, "show all settings, each with where it comes from")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line: the name of a setting, its value and where it comes from")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		origins, err := s.resolve(cmd)
		if err != nil {
			return err
		}
		return ShowSettings(cmd.OutOrStdout(), origins, effective, asJSON)
	}
	return cmd
}

// health is `rspub health` and `rssub health`.
func (s *settings) health() *cobra.Command {
	var addr, cert string
	cmd := Health(s.program, func(*cobra.Command) (string, bool, error) { return addr, cert != "", nil })
	for name, field := range map[string]*string{"admin-listen": &addr, "admin-tls-cert": &cert} {
		cmd.Flags().StringVar(field, name, "", s.known.Lookup(name).Usage)
	}
	return cmd
}
