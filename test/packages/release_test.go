package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A release is refused, before anything is built, where it would not be what its version says.
func TestReleaseRefuses(t *testing.T) {
	script, err := os.ReadFile("../../tools/release")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, version, prepare, key, want string }{
		{"no version", "0.9.0", "", "", "VERSION=0.9.0 is no version; write it as v1.2.3"},
		{"a description of git", "v0.9.0-3-gabc+dirty", "", "", "is no version"},
		{"a changed file", "v0.9.0", "echo more >> CHANGELOG.md", "", "these files differ from the last commit; commit or remove them:\n M CHANGELOG.md"},
		{"a new file", "v0.9.0", "touch new.go", "", "?? new.go"},
		{"the tag of another commit", "v0.9.0", "git tag v0.9.0 && git commit -q --allow-empty -m next", "", "v0.9.0 is the tag of another commit"},
		{"nothing in the CHANGELOG", "v0.9.1", "", "", "CHANGELOG.md has no section for 0.9.1"},
		{"no key", "v0.9.0-rc.1", "", "nowhere", "SIGNING_KEY=nowhere is no key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{"tools/release": string(script), "CHANGELOG.md": "# Changelog\n\n## 0.9.0 (unreleased)\n", "dist/old": ""} {
				name = filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			shell := exec.CommandContext(t.Context(), "sh", "-ec", "git init -q; echo /dist/ > .git/info/exclude; git config user.name a; git config user.email a@example.org; git add -A; git commit -q -m first; "+c.prepare)
			shell.Dir = dir
			if out, err := shell.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			release := exec.CommandContext(t.Context(), filepath.Join(dir, "tools/release"))
			release.Env = append(os.Environ(), "VERSION="+c.version, "SIGNING_KEY="+c.key)
			out, err := release.CombinedOutput()
			if err == nil || !strings.Contains(string(out), c.want) {
				t.Errorf("%v, without %q:\n%s", err, c.want, out)
			}
			if _, err := os.Stat(filepath.Join(dir, "dist/old")); err != nil {
				t.Errorf("it deleted the files of the last one: %v", err)
			}
		})
	}
}
