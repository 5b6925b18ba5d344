package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rshub/rshub/internal/program/config"
)

// WrongSettings puts each mistake that err joins into a line of its own. The result has
// ExitUsage.
func WrongSettings(err error) error {
	return notRight("", err.Error(), err)
}

// notRight is the error of settings, with a line for each mistake in text. Where is the file, if
// there is one.
func notRight(where, text string, err error) error {
	whole := "the settings" + where + " are not right:"
	for line := range strings.SplitSeq(text, "\n") {
		whole += "\n  " + Line(line)
	}
	return &Error{ExitUsage, &failure{whole, &mistakes{err}}}
}

// mistakes are what notRight lists.
type mistakes struct{ error }

// Unwrap returns the error without its type.
func (m *mistakes) Unwrap() error { return m.error }

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
	check   func(*cobra.Command) error
}

// help says how settings are given.
func (s *settings) help() string {
	return "Every setting is a flag, an environment variable (" + s.prefix() + ` and the name in upper
case, as in ` + s.prefix() + `STATE_DIR) and a key of the YAML file that --config names (as in
` + "`state-dir: /var/lib/" + s.program + "`" + `). A flag wins over the environment, and the environment
over the file. A flag that may be repeated has a list in the file, and in a variable
values with white space or commas between them. If the help of a flag names another
variable, the key has that name, too.`
}

func (s *settings) prefix() string { return strings.ToUpper(s.program) + "_" }

// Configure lets the commands of rspub or rssub take their flags from a file and from the
// environment as well: those flags that a command among services has, without except. It adds
// --config to the commands, and the commands `config` and `health`. Environ is an environment
// of NAME=value. Check reports what is wrong with the flags of the first service, which have
// their values from the file and the environment by then.
func Configure(root *cobra.Command, environ, except []string, check func(*cobra.Command) error, services ...*cobra.Command) {
	s := &settings{root.Name(), pflag.NewFlagSet("", pflag.ContinueOnError), environ, check}
	for _, service := range services {
		service.Flags().VisitAll(func(f *pflag.Flag) {
			name := config.SettingName(f)
			if slices.Contains(append(except, "help", "json"), name) || s.known.Lookup(name) != nil {
				return
			}
			if name != f.Name {
				renamed := *f
				renamed.Name, f = name, &renamed
			}
			s.known.AddFlag(f)
		})
	}
	show, right := s.show(), s.right()
	show.Flags().AddFlagSet(s.known)
	right.Flags().AddFlagSet(s.known)
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
	addConfig(right)
	s.known.String("config", "", "")
	root.AddCommand(Group("config", "Show, check and write the settings of "+s.program, show, right, s.init()))
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
		Use: "show", Short: "Show the settings that " + s.program + " would start with", Args: NoArguments,
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

// right is `rspub config check` and `rssub config check`.
func (s *settings) right() *cobra.Command {
	return &cobra.Command{
		Use: "check [--config FILE]", Short: "Report what is wrong with the settings of " + s.program, Args: NoArguments,
		Long: "Reads the settings as the service would, with the files that they name, and reports what\n" +
			"is wrong or missing. It starts nothing, and opens neither state nor an address.\n\n" + s.help(),
		Example: "  " + s.program + " config check --config /etc/" + s.program + "/" + s.program + ".yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			origins, err := s.resolve(cmd)
			if err != nil {
				return err
			}
			if err := s.check(cmd); err != nil {
				return Incomplete(origins, err)
			}
			return SettingsRight(cmd)
		},
	}
}

// Incomplete is the error of settings that a program would not start with. In a file, a flag
// --NAME is the key NAME.
func Incomplete(origins config.Origins, err error) error {
	where := ""
	if file := origins.Get("config").Text(); file != "" {
		where = " in " + file
	}
	if listed := (*mistakes)(nil); errors.As(err, &listed) { // their line about the settings would be a second one
		return notRight(where, listed.Error(), listed.error)
	}
	return notRight(where, message(err), err)
}

// SettingsRight says that the settings are right.
func SettingsRight(cmd *cobra.Command) error {
	_, err := fmt.Fprintln(cmd.OutOrStdout(), "The settings are right.")
	return err
}

// init is `rspub config init` and `rssub config init`.
func (s *settings) init() *cobra.Command {
	return InitSettings(s.program, func() string { return config.FlagTemplate(s.program, s.known) })
}

// InitSettings returns the command `config init` of a program, which writes what template
// returns.
func InitSettings(program string, template func() string) *cobra.Command {
	file := "/etc/" + program + "/" + program + ".yaml"
	return &cobra.Command{
		Use: "init FILE", Short: "Write a file with every setting, commented out", Args: Exactly("file"),
		Long: `Writes a file for --config that has every setting of ` + program + ` with its meaning and its
default, all commented out. It does not overwrite a file.`,
		Example: "  " + program + " config init " + file,
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // it has no secrets, and the program's user reads it
			if errors.Is(err, os.ErrExist) {
				return Fail(ExitRefused, "%s exists already; nothing was changed", args[0])
			}
			if err != nil {
				return err
			}
			_, err = f.WriteString(template())
			if err = errors.Join(err, f.Close()); err == nil {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is written; edit it, then: %s config check --config %s\n", args[0], program, args[0])
			}
			return err
		},
	}
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
