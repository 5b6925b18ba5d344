package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
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

// Error is an error with an exit code. An empty Err says nothing: what there is
// to say stands on stdout already.
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

// Fail returns an *Error with a message.
func Fail(code int, format string, args ...any) error {
	return &Error{code, fmt.Errorf(format, args...)}
}

// Execute runs the command that args name and returns its exit code, after
// saying on stderr what went wrong. An error that is no *Error is the usage's if
// it comes before the command itself runs, and a failure after that.
func Execute(root *cobra.Command, args []string, stderr io.Writer) int {
	root.SetArgs(append([]string{}, args...)) // nil would mean those of the process
	root.SilenceErrors, root.SilenceUsage = true, true
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
		say(stderr, "%s: %v\n", cmd.CommandPath(), e.Err)
	}
	if e.Code == ExitUsage {
		say(stderr, "See '%s --help'.\n", cmd.CommandPath())
	}
	return e.Code
}

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
			hint := ""
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				hint = "; did you mean " + near[0] + "?"
			}
			return Fail(ExitUsage, "there is no command %q here%s", args[0], hint)
		},
		Args: cobra.ArbitraryArgs, SuggestionsMinimumDistance: 2,
	}
	cmd.AddCommand(children...)
	return cmd
}

// say writes for a person. Where even that fails there is nobody to tell.
func say(w io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(w, format, args...)
}
