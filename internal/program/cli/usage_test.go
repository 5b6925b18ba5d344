package cli

import (
	"strings"
	"testing"
)

// What a command says of wrong usage names what is wrong, and what to write instead.
func TestWrongUsage(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"info now", `rshub info: this command takes no arguments; "now" is too much`},
		{"info －－json", `"－－json" is too much; write --json, with two ASCII hyphens`},
		{"topic info a —json", `one topic at a time; "—json" is too much; write --json, with two ASCII hyphens`},
		{"—json info", `there is no command "—json" here; write --json`},
		{"info -json", "did you mean --json?"},
		{"--json info", "unknown flag: --json; write it after the command\n"},
		{"sub --json ls", "unknown flag: --json; write it after the command\n"},
		{"--yes topic reset a", "unknown flag: --yes; write it after the command\n"},
		{"--nowhere topic reset a", "unknown flag: --nowhere\n"},
		{"topc ls --json", `rshub: there is no command "topc" here; did you mean top?`},
		{"topic lss --nowhere", `rshub topic: there is no command "lss" here; did you mean ls?`},
		{"completion tcsh", `there is no command "tcsh" here`},
		{"completion", "Available Commands:"},
		{"help inof", `there is no command "inof" here; did you mean info?`},
		{"help sub lss", `there is no command "lss" here; did you mean ls?`},
	} {
		t.Run(c.args, func(t *testing.T) {
			r := command(t, nil, "", strings.Fields(c.args)...)
			if r.stdout != "" {
				t.Errorf("standard output has %q", r.stdout)
			}
			r.want(t, ExitUsage, c.says)
		})
	}
	command(t, nil, "", "help", "sub", "ls").want(t, ExitOK, "Lists subscriptions")
	command(t, nil, "", "completion", "bash").want(t, ExitOK, "complete")
}
