package cli

import (
	"cmp"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// widest is how wide help is at most: longer lines are hard to read.
const widest = 100

// WrapHelp has the help of root, and of all commands below it, fit the width of the
// terminal: COLUMNS, or what the terminal says, or 80. Examples stay as they are, so
// that they can be copied.
func WrapHelp(root *cobra.Command, env Env) {
	cobras := root.UsageFunc()
	write := func(cmd *cobra.Command, out io.Writer, long string) error {
		var usage strings.Builder
		cmd.SetOut(&usage)
		err := cobras(cmd)
		cmd.SetOut(out)
		width := env.helpWidth(out)
		say(out, "%s%s", reflow(long, width), wrapUsage(usage.String(), width))
		return err
	}
	root.SetUsageFunc(func(cmd *cobra.Command) error { return write(cmd, cmd.OutOrStderr(), "") })
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		_ = write(cmd, cmd.OutOrStdout(), strings.TrimSpace(cmp.Or(cmd.Long, cmd.Short))+"\n\n") // nobody reads it
	})
}

func (e Env) helpWidth(out io.Writer) int {
	columns, _ := e.terminal(out)
	return min(cmp.Or(e.columns(), columns, narrow), widest)
}

// labelled is a line about a flag or a command: its name, and the text after it.
var labelled = regexp.MustCompile(`^( +(?:-.*?   +|\S+ +))(.+)$`)

// wrapUsage breaks the lines of what cobra says about the use of a command, except those that
// people copy.
func wrapUsage(usage string, width int) string {
	lines := strings.Split(usage, "\n")
	section := ""
	for i, line := range lines {
		if line != "" && line[0] != ' ' {
			section = line
		}
		switch parts := labelled.FindStringSubmatch(line); {
		case section == "Usage:", section == "Aliases:", section == "Examples:":
		case parts != nil:
			lines[i] = hang(parts[1], oneDefault(parts[2]), width)
		case line == section:
			lines[i] = hang("", line, width)
		}
	}
	return strings.Join(lines, "\n")
}

// second is the default that pflag adds to a text that has one in words.
var second = regexp.MustCompile(`(\(default: .*\)) \(default [^()]*\)$`)

// oneDefault removes from the text of a flag the default that pflag adds, if the text has one in
// words or if it is a time of zero, which stands for no value.
func oneDefault(text string) string {
	return strings.TrimSuffix(second.ReplaceAllString(text, "$1"), " (default 0s)")
}

// leastText is how wide the text beside a label is at least, and narrowIndent where
// it begins below the label if there is less room.
const (
	leastText    = 24
	narrowIndent = 10
)

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
