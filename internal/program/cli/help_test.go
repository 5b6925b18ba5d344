package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

func operatorCommands(env Env) *cobra.Command {
	return Root("rshub", "A hub", "v1.2.3", Info(env), Top(env), Events(env), Refusals(env), Topic(env), Subscription(env), Notification(env), Reload(env), Upgrade(env), Validate(), Callback())
}

// helpOf is the help of the command that args name, on a terminal of so many columns.
func helpOf(t *testing.T, columns int, args ...string) string {
	t.Helper()
	env := Env{
		Getenv:   func(string) string { return "" },
		Terminal: func(any) (int, bool) { return columns, true },
	}
	root := operatorCommands(env)
	WrapHelp(root, env)
	var out bytes.Buffer
	if code := Execute(root, append(args, "--help"), strings.NewReader(""), &out, &out); code != ExitOK {
		t.Fatalf("%v: exit code %d\n%s", args, code, out.String())
	}
	return out.String()
}

// However narrow a terminal is, help says the same, and no line is longer than it is,
// except examples and words that can't be broken.
func TestHelpWraps(t *testing.T) {
	for _, args := range [][]string{{}, {"topic"}, {"topic", "rm"}, {"sub", "ls"}, {"sub", "replay"}, {"callback"}, {"validate"}, {"reload"}} {
		squeeze := func(s string) string { return strings.Join(strings.Fields(s), "") }
		wide := helpOf(t, 1000, args...)
		for _, width := range []int{80, 60, 40, 20} {
			got := helpOf(t, width, args...)
			if squeeze(got) != squeeze(wide) {
				t.Errorf("%v at %d columns says something else:\n%s", args, width, got)
			}
			examples := false
			for line := range strings.Lines(got) {
				switch line = strings.TrimSuffix(line, "\n"); {
				case line == "":
					examples = false
				case line == "Examples:":
					examples = true
				}
				if n := utf8.RuneCountInString(line); n > width && (!examples || width == 80) && strings.Contains(strings.TrimSpace(line), " ") && !isLabel(line) {
					t.Errorf("%v at %d columns: %d in %q", args, width, n, line)
				}
			}
		}
	}
}

// A flag has one default in its help: the one in words if there is one. A time of zero is none.
func TestHelpHasOneDefault(t *testing.T) {
	act := &cobra.Command{Use: "act", Short: "Act", Run: func(*cobra.Command, []string) {}}
	var wait, every, poll Span = 0, 0, Span(time.Minute)
	act.Flags().Var(&wait, "wait", "`TIME` to wait")
	act.Flags().Var(&every, "every", "every `TIME` (default: never)")
	act.Flags().Var(&poll, "poll", "ask every `TIME`")
	act.Flags().Bool("link", true, "make a link (default: only if it helps)")
	root := Root("x", "A program", "v1", act)
	env := Env{Getenv: func(string) string { return "" }, Terminal: func(any) (int, bool) { return 100, true }}
	WrapHelp(root, env)
	var out bytes.Buffer
	if code := Execute(root, []string{"act", "--help"}, strings.NewReader(""), &out, &out); code != ExitOK {
		t.Fatalf("exit code %d", code)
	}
	for _, line := range []string{"TIME to wait\n", "every TIME (default: never)\n", "ask every TIME (default 1m)\n", "make a link (default: only if it helps)\n"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("there is no line that ends with %q:\n%s", line, out.String())
		}
	}
}

// isLabel reports whether a line is the name of a flag, or how a command is used.
func isLabel(line string) bool {
	text := strings.TrimSpace(line)
	return strings.HasPrefix(text, "-") && !strings.Contains(text, "  ") || strings.HasPrefix(text, "rshub ")
}

func TestHelpWidth(t *testing.T) {
	for name, tc := range map[string]struct {
		columns  int
		terminal bool
		env      string
		want     int
	}{
		"no terminal":          {0, false, "", 80},
		"no terminal, COLUMNS": {0, false, "50", 50},
		"the terminal's":       {70, true, "", 70},
		"COLUMNS":              {70, true, "50", 50},
		"COLUMNS is nonsense":  {70, true, "0", 70},
		"wide":                 {300, true, "", 100},
	} {
		env := Env{
			Getenv:   func(string) string { return tc.env },
			Terminal: func(any) (int, bool) { return tc.columns, tc.terminal },
		}
		if got := env.helpWidth(nil); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

func TestReflow(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"one two\nthree", "one two\nthree"},
		{"one\ntwo", "one two"},
		{"one\n\ntwo", "one\n\ntwo"},
		{"list:\n  a b c d e f\n  b", "list:\n  a b c d e f\n  b"},
		{"a,b,c,d,e,f,g,h", "a,b,c,d,\ne,f,g,h"},
		{"unbreakable", "unbreakable"},
	} {
		if got := reflow(tc.in, 8); got != tc.want {
			t.Errorf("%q: %q, want %q", tc.in, got, tc.want)
		}
	}
}
