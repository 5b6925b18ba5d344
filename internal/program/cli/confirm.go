package cli

import (
	"bufio"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// maxReply bounds what is read as the answer to a question.
const maxReply = 1 << 10

// confirm returns nil with --yes, or after a yes on a terminal, and else an error. What
// describes the destructive change, such as "end the subscription".
func confirm(cmd *cobra.Command, env Env, yes bool, what string) error {
	if yes {
		return nil
	}
	what = Line(what)
	if _, ok := env.terminal(cmd.InOrStdin()); !ok {
		return Fail(ExitUsage, "this would %s\nNothing was done: there is no terminal to ask on. Give --yes to do it", what)
	}
	say(cmd.ErrOrStderr(), "This will %s\nGo on? [y/N] ", what)
	reply, err := bufio.NewReader(io.LimitReader(cmd.InOrStdin(), maxReply)).ReadString('\n')
	if err != nil && reply == "" {
		say(cmd.ErrOrStderr(), "\n")
	}
	switch strings.ToLower(strings.TrimSpace(reply)) {
	case "y", "yes":
		return nil
	}
	return Fail(ExitFailure, "nothing was done")
}
