package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/subscriber/destination"
)

// A command of --patch gets the old file and the patch, and its output is the new file. One that fails
// or hangs is an error with what it said.
func TestPatchCommands(t *testing.T) {
	dir := t.TempDir()
	p := destination.Patch{Type: "a/b", URL: "https://a.example/$(exit 9)", Old: filepath.Join(dir, "old"), File: filepath.Join(dir, "patch")}
	for name, text := range map[string]string{p.Old: "old ", p.File: "patch"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		line, out, err string
		limit          time.Duration
	}{
		{`cat "$RSSUB_OLD" "$RSSUB_PATCH"; echo " $RSSUB_TYPE $RSSUB_URL"`, "old patch a/b https://a.example/$(exit 9)\n", "", time.Minute},
		{"echo it is wrong >&2; exit 3", "", "ended with 3: it is wrong", time.Minute},
		{"sleep 60", "", "did not end within 1ms", time.Millisecond},
	} {
		var out bytes.Buffer
		err := patcher(c.line, c.limit)(t.Context(), p, &out)
		if out.String() != c.out || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %q, %v", c.line, out.String(), err)
		}
	}
	for _, wrong := range []string{"cat", "text=cat", "text/x-diff; charset=utf-8=cat"} {
		code, _, errs := rssub(t.Context(), "sync", "http://127.0.0.1:1/", "--dir", filepath.Join(dir, "copy"), "--patch", wrong)
		if code != cli.ExitUsage || !strings.Contains(errs, "--patch") {
			t.Errorf("%s: %d %s", wrong, code, errs)
		}
	}
}
