package units

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/rshub/rshub/test/programs"
)

// What `config init` writes commented out is accepted when the # is taken away: of each line alone, and of all together.
func TestDefaultsAreAccepted(t *testing.T) {
	dir := t.TempDir()
	if err := programs.Build(dir); err != nil {
		t.Fatal(err)
	}
	setting := regexp.MustCompile(`(?m)^#([a-z][a-z-]*: .*)$`)
	for program, needs := range map[string][]string{
		"rshub": {"--public-url", "https://hub.example.org/"},
		"rspub": {"--public-url", "https://books.example.org/", "--dir", dir},
		"rssub": {"--source", "https://books.example.org/", "--dir", filepath.Join(dir, "copy")},
	} {
		run := func(args ...string) ([]byte, error) {
			return exec.CommandContext(t.Context(), filepath.Join(dir, program), append([]string{"config"}, args...)...).CombinedOutput()
		}
		file := filepath.Join(dir, program+".yaml")
		if out, err := run("init", file); err != nil {
			t.Fatalf("%s: %v\n%s", program, err, out)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		check := func(settings []byte) {
			if err := os.WriteFile(file, settings, 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := run(append([]string{"check", "--config", file}, needs...)...); err != nil {
				t.Errorf("%s: %v\n%s", program, err, out)
			}
		}
		all := setting.FindAllSubmatch(text, -1)
		if len(all) < 40 {
			t.Errorf("%s: config init writes %d settings, want more", program, len(all))
		}
		for _, one := range all {
			check(one[1])
		}
		check(setting.ReplaceAll(text, []byte("$1")))
	}
}
