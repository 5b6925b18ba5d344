package config

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// templateWidth is the longest comment of a template, in characters, unless a word is longer.
const templateWidth = 96

// Template returns a file for --config with every setting of a hub, its meaning and its default,
// all commented out.
func Template() string { return template("a hub", settings(new(Config))) }

// FlagTemplate is Template for rspub and rssub, whose settings are flags.
func FlagTemplate(program string, known *pflag.FlagSet) string {
	var table []setting
	known.VisitAll(func(f *pflag.Flag) {
		s := flagSetting(f)
		s.auto, s.help = "", strings.ReplaceAll(f.Usage, "`", "")
		if s.list {
			var items []string
			for _, item := range flagText(f) {
				items = append(items, strconv.Quote(item))
			}
			s.def = strings.Join(items, ", ")
		}
		table = append(table, s)
	})
	return template(program, table)
}

func template(program string, table []setting) string {
	var b strings.Builder
	b.WriteString("# Settings of " + program + ". Those that begin with # have the default; take the # away to change one.\n")
	for _, s := range table {
		if s.name == "config" {
			continue
		}
		help := s.help
		if s.dev != "" {
			help += "; with dev: " + s.dev
		}
		if s.def == "" && s.auto != "" {
			help += " (default " + s.auto + ")"
		}
		b.WriteByte('\n')
		comment(&b, help)
		value := cmp.Or(s.def, `""`)
		if s.list {
			value = "[" + s.def + "]"
		}
		b.WriteString("#" + s.name + ": " + value + "\n")
	}
	return b.String()
}

// comment writes text as lines that begin with "# ".
func comment(b *strings.Builder, text string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+len(word) >= templateWidth {
			b.WriteString("# " + line + "\n")
			line = ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	b.WriteString("# " + line + "\n")
}
