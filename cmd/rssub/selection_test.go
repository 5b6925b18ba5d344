package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rshub/rshub/internal/program/cli"
)

// The flags of a selection reach the copy, which remembers them; --reselect deletes.
func TestSelectionFlags(t *testing.T) {
	s, dir := newSitemap(t), filepath.Join(t.TempDir(), "copy")
	s.files["/gone.txt"] = "here\n\n"
	run := func(want int, command string, more ...string) string {
		t.Helper()
		code, out, errs := rssub(t.Context(), append([]string{command, s.URL + "/list.xml", "--dir", dir, "--dev", "--map", s.URL + "/=."}, more...)...)
		if code != want {
			t.Fatalf("%s %q: %d\n%s%s", command, more, code, out, errs)
		}
		return out + errs
	}
	has := func(name string) bool { _, err := os.Stat(filepath.Join(dir, name)); return err == nil }
	if out := run(cli.ExitUsage, "sync", "--exclude", "*.txt"); !strings.Contains(out, `--exclude: pattern "*.txt"`) {
		t.Error(out)
	}
	run(cli.ExitUsage, "sync", "--type", "text")
	if out := run(cli.ExitOK, "sync", "--exclude", s.URL+"/b/*"); !has("a.txt") || !has("gone.txt") || has("b/c.txt") || !strings.Contains(out, "1, by --exclude "+s.URL+"/b/*") {
		t.Error(out)
	}
	if out := run(cli.ExitOK, "audit"); !strings.Contains(out, "in sync") {
		t.Error(out)
	}
	if run(cli.ExitOK, "sync", "--include", s.URL+"/a*"); !has("gone.txt") {
		t.Error("a changed selection deleted a file")
	}
	if out := run(cli.ExitOK, "audit"); !strings.Contains(out, "1, by --include "+s.URL+"/a*; they are not compared") {
		t.Error(out)
	}
	if code, out, _ := rssub(t.Context(), "status", "--dir", dir); code != cli.ExitOK || !strings.Contains(out, "selection") || !strings.Contains(out, "--include "+s.URL+"/a*") {
		t.Errorf("status: %d, %s", code, out)
	}
	if run(cli.ExitOK, "sync", "--reselect"); has("gone.txt") || !has("a.txt") {
		t.Error("--reselect kept the file, or deleted another one")
	}
}
