package cli

import (
	"cmp"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// widest is how wide help is at most: longer lines are hard to read.
const widest = 100

// WrapHelp has the help of root, and of all commands below it, fit the width of the
// terminal: COLUMNS, or what the terminal says, or 80. Examples stay as they are, so
// that they can be copied.
func WrapHelp(root *cobra.Command, env Env) {
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		_, _ = io.WriteString(cmd.OutOrStdout(), help(cmd, env.helpWidth(cmd.OutOrStdout()))) // nobody reads it
	})
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		_, err := io.WriteString(cmd.OutOrStderr(), usage(cmd, env.helpWidth(cmd.OutOrStderr())))
		return err
	})
}

func (e Env) helpWidth(out io.Writer) int {
	columns, ok := e.terminal(out)
	if n, err := strconv.Atoi(e.Getenv("COLUMNS")); err == nil && n > 0 {
		columns, ok = n, true
	}
	if !ok {
		columns = narrow
	}
	return min(columns, widest)
}

// help is what a command is for, and how it is used.
func help(cmd *cobra.Command, width int) string {
	return reflow(strings.TrimSpace(cmp.Or(cmd.Long, cmd.Short)), width) + "\n\n" + usage(cmd, width)
}

// usage is what cobra's own template gives, in lines of width characters.
func usage(cmd *cobra.Command, width int) string {
	var parts []string
	part := func(head, text string) { parts = append(parts, head+"\n"+strings.TrimRight(text, " \n")) }
	var lines []string
	if cmd.Runnable() {
		lines = append(lines, "  "+cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		lines = append(lines, "  "+cmd.CommandPath()+" [command]")
	}
	part("Usage:", strings.Join(lines, "\n"))
	if len(cmd.Aliases) > 0 {
		part("Aliases:", "  "+cmd.NameAndAliases())
	}
	if cmd.HasExample() {
		part("Examples:", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		var text strings.Builder
		for _, child := range cmd.Commands() {
			if child.IsAvailableCommand() || child.Name() == "help" {
				name := "  " + child.Name() + strings.Repeat(" ", max(child.NamePadding()-len(child.Name()), 0)+1)
				text.WriteString(hang(name, child.Short, width) + "\n")
			}
		}
		part("Available Commands:", text.String())
	}
	if cmd.HasAvailableLocalFlags() {
		part("Flags:", flagUsages(cmd.LocalFlags(), width))
	}
	if cmd.HasAvailableInheritedFlags() {
		part("Global Flags:", flagUsages(cmd.InheritedFlags(), width))
	}
	if cmd.HasAvailableSubCommands() {
		parts = append(parts, reflow("Use \""+cmd.CommandPath()+" [command] --help\" for more information about a command.", width))
	}
	return strings.Join(parts, "\n\n") + "\n"
}

// leastText is how wide the text beside a label is at least, and narrowIndent where
// it begins below the label if there is less room.
const (
	leastText    = 24
	narrowIndent = 10
)

// flagUsages is what pflag says of flags, which breaks no lines where a word is long.
func flagUsages(flags *pflag.FlagSet, width int) string {
	var text strings.Builder
	lines := strings.Split(flags.FlagUsages(), "\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" {
			return
		}
		line := lines[0]
		lines = lines[1:]
		_, what := pflag.UnquoteUsage(f)
		at := strings.Index(line, "   "+what)
		if what == "" || at < 0 {
			text.WriteString(line + "\n")
			return
		}
		text.WriteString(hang(line[:at+3], line[at+3:], width) + "\n")
	})
	return text.String()
}

// reflow breaks the paragraphs of a text anew. Lines that begin with a space, or end
// a paragraph before one, are a layout of their own and stay.
func reflow(text string, width int) string {
	var out []string
	var paragraph []string
	flush := func() {
		if len(paragraph) > 0 {
			out = append(out, hang("", strings.Join(paragraph, " "), width))
		}
		paragraph = nil
	}
	for line := range strings.SplitSeq(text, "\n") {
		if line != "" && !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "\t") {
			paragraph = append(paragraph, line)
			continue
		}
		flush()
		out = append(out, line)
	}
	flush()
	return strings.Join(out, "\n")
}

// hang writes a text after a label, in lines of width characters, which begin below
// the first one's text. A word that is longer is broken after commas, if it has any.
func hang(label, text string, width int) string {
	indent := utf8.RuneCountInString(label)
	var b strings.Builder
	if label != "" && width-indent < leastText {
		b.WriteString(strings.TrimRight(label, " ") + "\n")
		indent = narrowIndent
		label = strings.Repeat(" ", indent)
	}
	b.WriteString(label)
	at := indent
	for _, word := range strings.Fields(text) {
		pieces := []string{word}
		if utf8.RuneCountInString(word) > width-indent {
			pieces = strings.SplitAfter(word, ",")
		}
		for i, piece := range pieces {
			space := 0
			if i == 0 && at > indent {
				space = 1
			}
			n := utf8.RuneCountInString(piece)
			if at > indent && at+space+n > width {
				b.WriteString("\n" + strings.Repeat(" ", indent))
				at, space = indent, 0
			}
			b.WriteString(strings.Repeat(" ", space) + piece)
			at += space + n
		}
	}
	return b.String()
}
