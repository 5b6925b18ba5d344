package config

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The template sets nothing, and every setting in it has its default.
func TestTemplate(t *testing.T) {
	plain, _, err := Load(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	set := regexp.MustCompile(`(?m)^#([a-z-]+: [^"\[\n].*|[a-z-]+: \[.+\])$`)
	onlyRedis := regexp.MustCompile(`(?m)^(redis-prefix|owner-lease|accept-empty-store): .*\n`) // refused without redis-url
	if n, want := len(set.FindAllString(Template(), -1)), 25; n < want {
		t.Errorf("%d settings have a default, want more than %d", n, want)
	}
	for _, text := range []string{Template(), onlyRedis.ReplaceAllString(set.ReplaceAllString(Template(), "$1"), "")} {
		name := filepath.Join(t.TempDir(), "rshub.yaml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, _, err := Load([]string{"--config", name}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(plain, got); diff != "" {
			t.Error(diff)
		}
	}
	for _, s := range settings(new(Config)) {
		if has := regexp.MustCompile("(?m)^#" + s.name + ": ").MatchString(Template()); has != (s.name != "config") {
			t.Errorf("%s: %v", s.name, has)
		}
	}
}
