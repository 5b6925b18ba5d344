package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manCommand writes the manual pages of a program, which packages install. People have --help.
func manCommand(version string) *cobra.Command {
	return &cobra.Command{
		Use: "man FOLDER", Short: "Write the manual pages", Args: Exactly("folder"), Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return writePages(cmd.Root(), version, args[0])
		},
	}
}

// writePages writes a page for cmd and for each command below it.
func writePages(cmd *cobra.Command, version, dir string) error {
	if cmd.Parent() != nil && (!cmd.IsAvailableCommand() || cmd.Name() == "completion") {
		return nil
	}
	err := os.WriteFile(filepath.Join(dir, pageName(cmd)+".1"), []byte(page(cmd, version)), 0o644) //nolint:gosec // everybody may read manuals
	for _, child := range cmd.Commands() {
		err = errors.Join(err, writePages(child, version, dir))
	}
	return err
}

// pageName is the name of a page: `man rshub serve` finds rshub-serve.
func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// exitCodes are the exit codes in the help of a program.
var exitCodes = regexp.MustCompile(`(?s)\n*Exit codes: (.*)\.`)

// page is the manual page of a command, in the macros of man(7).
func page(cmd *cobra.Command, version string) string {
	root := cmd.Root()
	var b strings.Builder
	section := func(name string) { b.WriteString(".SH " + name + "\n") }
	item := func(label, text string) { b.WriteString(".TP\n" + label + "\n" + roff(text) + "\n") }
	fmt.Fprintf(&b, ".TH %s 1 \"\" %q %q\n", strings.ToUpper(roff(pageName(cmd))), root.Name()+" "+version, "Manual of "+root.Name())
	section("NAME")
	b.WriteString(roff(pageName(cmd)) + " \\- " + roff(cmd.Short) + "\n")
	section("SYNOPSIS")
	use := strings.TrimPrefix(cmd.UseLine(), cmd.CommandPath())
	if cmd.HasAvailableSubCommands() {
		use = " COMMAND"
	}
	b.WriteString(bold(cmd.CommandPath()) + roff(use) + "\n")
	if long := exitCodes.ReplaceAllString(cmd.Long, ""); long != "" {
		section("DESCRIPTION")
		prose(&b, long)
	}
	if cmd.HasAvailableSubCommands() {
		section("COMMANDS")
		for _, child := range cmd.Commands() {
			if child.IsAvailableCommand() {
				item(bold(child.CommandPath()), child.Short)
			}
		}
	}
	section("OPTIONS")
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		value, usage := pflag.UnquoteUsage(f)
		label := bold("--" + f.Name)
		if f.Shorthand != "" {
			label = bold("-"+f.Shorthand) + ", " + label
		}
		if value != "" {
			label += " \\fI" + roff(value) + "\\fR"
		}
		if !slices.Contains([]string{"", "0", "0s", "[]", "false"}, f.DefValue) && !strings.Contains(usage, "(default") {
			usage += " (default " + f.DefValue + ")"
		}
		item(label, usage)
	})
	if cmd.Example != "" {
		section("EXAMPLES")
		layout(&b, strings.Split(cmd.Example, "\n"))
	}
	section("EXIT STATUS")
	for _, match := range exitCodes.FindAllStringSubmatch(root.Long, 1) {
		for code := range strings.SplitSeq(strings.Join(strings.Fields(match[1]), " "), ", ") {
			number, text, _ := strings.Cut(code, " ")
			item(bold(number), text)
		}
	}
	if cmd == root || cmd.Flags().Lookup("config") != nil {
		section("FILES")
		name := root.Name()
		item("\\fI/etc/"+name+"/"+name+".yaml\\fR", "Settings of the service. Each key is the name of an option of the service, without the dashes in front.")
		item("\\fI/etc/"+name+"/credentials/\\fR", "Secrets of the service, which only root can read. In the settings, NAME is /run/credentials/"+name+".service/keys_NAME.")
		item("\\fI/var/lib/"+name+"/\\fR", "State of the service.")
	}
	section("SEE ALSO")
	var others []string
	if cmd == root {
		for _, name := range []string{"rshub", "rspub", "rssub"} {
			if name != root.Name() {
				others = append(others, name)
			}
		}
	}
	for up := cmd.Parent(); up != nil; up = up.Parent() {
		others = append(others, pageName(up))
	}
	for _, child := range cmd.Commands() {
		if child.IsAvailableCommand() && child.Name() != "completion" {
			others = append(others, pageName(child))
		}
	}
	for i, name := range others {
		others[i] = bold(name) + "(1)"
	}
	b.WriteString(strings.Join(others, ",\n") + "\n.PP\nhttps://github.com/rshub/rshub\n")
	return b.String()
}

// bold is text in bold.
func bold(text string) string { return "\\fB" + roff(text) + "\\fR" }

var code = regexp.MustCompile("`([^`]*)`")

// roff escapes text, so that it looks as it is written.
func roff(text string) string {
	text = strings.NewReplacer("\\", "\\e", "-", "\\-", "~", "\\(ti", "^", "\\(ha").Replace(text)
	text = code.ReplaceAllString(text, "\\fB$1\\fR")
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = "\\&" + line
		}
	}
	return strings.Join(lines, "\n")
}

// prose writes a text of paragraphs. Lines that begin with white space are a layout, as in reflow.
func prose(b *strings.Builder, text string) {
	var fixed []string
	flush := func() {
		layout(b, fixed)
		fixed = nil
	}
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		switch {
		case strings.HasPrefix(line, " "), strings.HasPrefix(line, "\t"):
			fixed = append(fixed, line)
			continue
		case line == "":
			flush()
			b.WriteString(".PP\n")
		default:
			flush()
			b.WriteString(roff(line) + "\n")
		}
	}
	flush()
}

// layout writes lines as they are.
func layout(b *strings.Builder, lines []string) {
	if len(lines) == 0 {
		return
	}
	b.WriteString(".nf\n.RS 4\n")
	for _, line := range lines {
		b.WriteString(roff(strings.TrimPrefix(line, "  ")) + "\n")
	}
	b.WriteString(".RE\n.fi\n")
}
