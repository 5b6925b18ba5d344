package config

import (
	"cmp"
	"strings"
)

// templateWidth is the longest comment of a template, in characters, unless a word is longer.
const templateWidth = 96

// Template returns a file for --config with every setting, its meaning and its default, all
// commented out.
func Template() string {
	var b strings.Builder
	b.WriteString("# Settings of a hub. Those that begin with # have the default; take the # away to change one.\n")
	for _, s := range settings(new(Config)) {
		if s.name == "config" {
			continue
		}
		help := s.help
		if s.dev != "" {
			help += "; with dev: " + s.dev
		}
		if s.def == "" {
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
