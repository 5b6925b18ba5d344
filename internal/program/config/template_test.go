package config

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
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

// The template of flags sets nothing, and gives what it has commented out its default.
func TestFlagTemplate(t *testing.T) {
	flags := func() *pflag.FlagSet {
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		fs.String("config", "", "")
		fs.String("listen", ":8090", "`ADDR` to listen on")
		fs.StringSlice("trusted-proxy", []string{"127.0.0.0/8", "::1/128"}, "`RANGE` of proxies")
		fs.StringArray("ignore", nil, "`PATTERN` to leave out")
		fs.Bool("hidden", false, "publish all")
		fs.Duration("every", time.Minute, "`TIME` to wait")
		return fs
	}
	text := FlagTemplate("rspub", flags())
	for _, text := range []string{text, regexp.MustCompile(`(?m)^#([a-z-]+: )`).ReplaceAllString(text, "$1")} {
		name := filepath.Join(t.TempDir(), "rspub.yaml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		fs := flags()
		if err := fs.Parse([]string{"--config", name}); err != nil {
			t.Fatal(err)
		}
		if _, err := Overlay(fs, flags(), "RSPUB_", nil); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		flags().VisitAll(func(f *pflag.Flag) {
			if got := fs.Lookup(f.Name).Value.String(); f.Name != "config" && got != f.Value.String() {
				t.Errorf("%s is %s, not %s", f.Name, got, f.Value)
			}
		})
	}
}
