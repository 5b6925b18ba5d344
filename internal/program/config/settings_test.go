package config

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// Every setting has a help text and a default, or says what an empty default means. It accepts
// its own defaults.
func TestTableIsWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range settings(new(Config)) {
		if seen[s.name] || s.name != strings.ToLower(s.name) || strings.ContainsAny(s.name, "_ ") {
			t.Errorf("the name %q", s.name)
		}
		seen[s.name] = true
		if s.help == "" || (s.def == "") == (s.auto == "") {
			t.Errorf("%s: help %q, default %q, else %q", s.name, s.help, s.def, s.auto)
		}
		for _, text := range []string{s.def, s.dev} {
			if text == "" {
				continue
			}
			if err := s.set(s.texts(text)); err != nil {
				t.Errorf("%s refuses its own default: %v", s.name, err)
			}
		}
	}
}

func TestHelpTellsDefaults(t *testing.T) {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	AddFlags(fs)
	help := fs.FlagUsages()
	for _, part := range []string{
		"--max-body SIZE ", "(default 50MiB)", "(default :8080; with --dev 127.0.0.1:8080)", "(default random)", "--dev  ", "--require-https-for-secrets  ",
	} {
		if !strings.Contains(help, part) {
			t.Errorf("%q is missing in\n%s", part, help)
		}
	}
}
