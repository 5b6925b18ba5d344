package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/nearest"
	"github.com/rshub/rshub/internal/program/config"
)

// The exit codes of all commands.
const (
	ExitOK          = 0
	ExitFailure     = 1
	ExitUsage       = 2
	ExitNotFound    = 3
	ExitRefused     = 4
	ExitUnreachable = 5 // no hub answers
	ExitPartial     = 6 // partial, or not in sync
)

// Error is an error with an exit code. If Err is nil, stdout has everything already, and
// nothing more is printed.
type Error struct {
	Code int
	Err  error
}

// Error returns the message of Err.
func (e *Error) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Fail returns an *Error with a message. Its format may have several lines; line breaks in
// its arguments are replaced.
func Fail(code int, format string, args ...any) error {
	shown := make([]any, len(args))
	for i, a := range args {
		switch a := a.(type) {
		case error:
			shown[i] = message(a)
		case string:
			shown[i] = Line(a)
		default:
			shown[i] = a
		}
	}
	text := fmt.Sprintf(strings.ReplaceAll(format, "%w", "%v"), shown...)
	return &Error{code, &failure{text, fmt.Errorf(format, args...)}}
}

// failure is an error whose message is fit to be shown.
type failure struct {
	text string
	err  error
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.err }

// message is the text of an error for stderr. It has several lines only if the format of Fail
// has, or if it joins several errors.
func message(err error) string {
	var text []string
	switch e := err.(type) { //nolint:errorlint // an error that is wrapped deeper belongs to another message
	case *Error:
		return message(e.Err)
	case *failure:
		return e.text
	case interface{ Unwrap() []error }:
		var all []string
		for _, one := range e.Unwrap() {
			all, text = append(all, one.Error()), append(text, message(one))
		}
		if err.Error() == strings.Join(all, "\n") {
			return strings.Join(text, "\n")
		}
	}
	return Line(err.Error())
}

// Execute runs the command that args name and returns its exit code, after
// saying on stderr what went wrong. An error that is no *Error is the usage's if
// it comes before the command itself runs, and a failure after that. Both streams
// get a Screen. Where the packages name one of their options in a message, and
// root.Annotations have a flag for it, such as "Options.MaxFile": "--max-file", the
// flag is named instead.
func Execute(root *cobra.Command, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := flagNames(root.Annotations)
	out, errOut := &screen{w: stdout, flags: flags}, &screen{w: stderr, flags: flags}
	defer out.flush()
	root.SetIn(stdin)
	root.SetOut(out)
	root.SetErr(errOut)
	root.SetArgs(append([]string{}, args...)) // nil would mean those of the process
	root.SilenceErrors, root.SilenceUsage = true, true
	strict(root)
	running := false
	root.PersistentPreRun = func(*cobra.Command, []string) { running = true }
	cmd, err := root.ExecuteC()
	if err == nil {
		return ExitOK
	}
	e := &Error{ExitUsage, err}
	if running {
		e.Code = ExitFailure
	}
	errors.As(err, &e)
	if e.Err != nil {
		say(errOut, "%s: %s%s\n", cmd.CommandPath(), message(e.Err), devHint(cmd, e.Err))
	}
	if e.Code == ExitUsage {
		say(errOut, "See '%s --help'.\n", cmd.CommandPath())
	}
	return e.Code
}

// devHint says that --dev of cmd would allow the address that err says is not called.
func devHint(cmd *cobra.Command, err error) string {
	if cmd.Flags().Lookup("dev") == nil || !egress.DevWouldAllow(err) || strings.Contains(err.Error(), egress.DevHint) {
		return ""
	}
	return "; " + egress.DevHint
}

// strict makes the commands of cobra refuse a command that does not exist. They show help, and exit with 0.
func strict(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Args = func(_ *cobra.Command, args []string) error {
				if of, rest, err := root.Find(args); err == nil && len(rest) > 0 {
					return noCommand(of, rest)
				}
				return nil
			}
		case "completion":
			c.Args, c.RunE = cobra.ArbitraryArgs, root.RunE // those of a Group
		}
	}
}

// flagError adds to an unknown flag the known one with the nearest name, or where it belongs. It says
// of a wrong value what to write instead. If the flag comes after a command that does not exist, that is what is wrong.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return config.FlagError(err)
	}
	if before := cmd.Flags().Args(); len(before) > 0 && cmd.HasSubCommands() {
		return noCommand(cmd, before)
	}
	name := cmp.Or(unknown.GetSpecifiedShortnames(), unknown.GetSpecifiedName()) // of -dev, the former is dev
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := nearest.Of(name, names); near != "" {
		return Fail(ExitUsage, "%w; did you mean --%s?", err, near)
	}
	if below(cmd, name) {
		return Fail(ExitUsage, "%w; write it after the command", err)
	}
	return err
}

// below reports whether a command below cmd has a flag.
func below(cmd *cobra.Command, flag string) bool {
	return slices.ContainsFunc(cmd.Commands(), func(c *cobra.Command) bool {
		return c.Flags().Lookup(flag) != nil || below(c, flag)
	})
}

// NoArguments allows none.
func NoArguments(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return Fail(ExitUsage, "this command takes no arguments; %q is too much%s", oddFlag(args, args[0]), dashes(args))
}

// dashes says how to write a flag that begins with another dash than "-", as word processors and
// full-width keyboards make it.
func dashes(args []string) string {
	if odd := oddFlag(args, ""); odd != "" {
		return "; write --" + strings.TrimLeftFunc(odd, isDash) + ", with two ASCII hyphens"
	}
	return ""
}

// oddFlag returns the first argument that begins with such a dash.
func oddFlag(args []string, otherwise string) string {
	for _, a := range args {
		if r, _ := utf8.DecodeRuneInString(a); r != '-' && isDash(r) {
			return a
		}
	}
	return otherwise
}

func isDash(r rune) bool { return unicode.Is(unicode.Dash, r) }

// Group returns a command that only holds others. By itself it shows its help
// and is wrong usage, so that a script that forgot something notices.
func Group(use, short string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				cmd.SetOut(cmd.ErrOrStderr())
				_ = cmd.Help() // it is the message; there is nowhere else to say it
				return &Error{Code: ExitUsage}
			}
			return noCommand(cmd, args)
		},
		Args: cobra.ArbitraryArgs, SuggestionsMinimumDistance: 2,
	}
	cmd.AddCommand(children...)
	return cmd
}

// noCommand returns the error for args that begin with no command of cmd.
func noCommand(cmd *cobra.Command, args []string) error {
	hint := dashes(args)
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "; did you mean " + near[0] + "?"
	}
	return Fail(ExitUsage, "there is no command %q here%s", args[0], hint)
}

// say writes a message. It ignores errors, because there is nowhere to report them.
func say(w io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(w, format, args...)
}
