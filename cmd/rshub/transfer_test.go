package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/test/redistest"
)

// try runs the command and returns its exit code and what it said.
func try(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(args, []string{"HOME=" + t.TempDir()}, strings.NewReader(stdin), &out, &err)
	return code, out.String(), err.String()
}

func TestExportAndImport(t *testing.T) {
	dir := t.TempDir()
	old, file, key := filepath.Join(dir, "old"), filepath.Join(dir, "rshub.jsonl"), filepath.Join(dir, "keys")
	if err := os.WriteFile(key, []byte(strings.Repeat("ab", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	const topic = `{"type":"topic","topic":"https://a.example/","kind":"change","last":{"position":"5","nonce":"6","seq":1},"id":"0196f3b0-0000-7000-8000-000000000001",` +
		`"sha256":"0000000000000000000000000000000000000000000000000000000000000000","received_at":"2026-01-01T00:00:00Z"}`
	const first = `{"type":"rshub-export","format":1,"store":"s","written_at":"2026-01-01T00:00:00Z","secrets":"plain"}`
	whole := first + "\n" + topic + "\n" + `{"type":"end","topics":1,"pings":0,"subscriptions":0}` + "\n"
	is := func(name string, code, want int, stderr, says string) {
		t.Helper()
		if code != want || !strings.Contains(stderr, says) {
			t.Errorf("%s: exit code %d, want %d, and it said %q", name, code, want, stderr)
		}
	}

	code, _, stderr := try(t, "", "export", "--data-dir", old, "--plain-secrets")
	is("no store", code, cli.ExitNotFound, stderr, "there is no store in "+old)
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Error("export made the folder that it was to read")
	}
	code, _, stderr = try(t, whole, "import", "--data-dir", old, "--dry-run", "-")
	is("dry run", code, cli.ExitOK, stderr, "Nothing is stored in a dry run. Of 1 topic, 0 waiting pings and 0 subscriptions, 1 are new")
	code, _, stderr = try(t, whole, "import", "--data-dir", old, "-")
	is("from standard input", code, cli.ExitOK, stderr, "1 are new or changed")
	code, _, stderr = try(t, whole[:len(whole)-40], "import", "--data-dir", old, "-")
	is("cut short", code, cli.ExitPartial, stderr, "Nothing was stored.")
	code, _, stderr = try(t, strings.Replace(whole, "change", "news", 1), "import", "--data-dir", old, "-")
	is("a wrong line", code, cli.ExitRefused, stderr, "line 2: ")
	code, _, stderr = try(t, strings.Replace(whole, topic, strings.Replace(topic, "change", "news", 1)+"\n{}", 1), "import", "--data-dir", old, "-")
	is("wrong lines", code, cli.ExitRefused, stderr, "\nline 3: ")
	code, _, stderr = try(t, "", "import", "--data-dir", old, filepath.Join(dir, "none"))
	is("no file", code, cli.ExitNotFound, stderr, "there is no file")

	id := subscriptions.ID("https://a.example/", "https://b.example/")
	secretless := strings.Replace(first, "plain", "left-out", 1) + "\n" + `{"type":"subscription","id":"` + id.String() + `","topic":"https://a.example/","callback":"https://b.example/","in_force":{"secret_left_out":true,` +
		`"created_at":"2026-01-01T00:00:00Z","verified_at":"2026-01-01T00:00:00Z","expires_at":"2036-01-01T00:00:00Z","start":{"position":"0","nonce":"0","seq":0},"cursor":{"generation":1,"position":"0","nonce":"0","seq":0}}}` +
		"\n" + `{"type":"end","topics":0,"pings":0,"subscriptions":1}` + "\n"
	for _, dry := range []string{"true", "false"} {
		code, _, stderr = try(t, secretless, "import", "--data-dir", old, "--dry-run="+dry, "-")
		is("without its secret, dry run "+dry, code, cli.ExitPartial, stderr, "1 subscription or request; these")
		if done := strings.Contains(stderr, "\nEverything else was imported.\n"); done != (dry == "false") {
			t.Errorf("dry run %s: it said %q", dry, stderr)
		}
	}
	empty := filepath.Join(dir, "empty")
	code, _, stderr = try(t, secretless, "restore", "--data-dir", empty, "-")
	is("a restore without secrets", code, cli.ExitRefused, stderr, "it is no backup")
	if _, err := os.Stat(empty); !os.IsNotExist(err) {
		t.Error("a restore that was refused made a store")
	}

	code, stdout, stderr := try(t, "", "export", "--data-dir", old)
	is("neither key nor word", code, cli.ExitRefused, stderr, "--without-secrets")
	if stdout != "" {
		t.Errorf("refused, and it wrote %q", stdout)
	}
	code, _, stderr = try(t, "", "export", "--data-dir", old, "--plain-secrets", "--without-secrets")
	is("both words", code, cli.ExitUsage, stderr, "exclude each other")
	code, _, stderr = try(t, "", "export", "--data-dir", old, "--seal-key-file", key, file)
	is("export", code, cli.ExitOK, stderr, "their secrets are sealed")
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v (%v)", info.Mode(), err)
	}
	code, _, stderr = try(t, "", "import", "--data-dir", filepath.Join(dir, "new"), file)
	is("sealed, and no key", code, cli.ExitRefused, stderr, "--seal-key-file")
	code, _, stderr = try(t, "", "import", "--data-dir", filepath.Join(dir, "new"), "--seal-key-file", key, file)
	is("import", code, cli.ExitOK, stderr, "1 are new or changed")
	if left, _ := filepath.Glob(file + ".*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A Redis on which no hub starts is refused with the exit code of rshub serve.
func TestRefusedRedis(t *testing.T) {
	redis := redistest.Standalone(t, redistest.Config("maxmemory", "100mb"), redistest.Config("maxmemory-policy", "allkeys-lru"))
	file := filepath.Join(t.TempDir(), "rshub.jsonl")
	whole := `{"type":"rshub-export","format":1,"store":"s","written_at":"2026-01-01T00:00:00Z","secrets":"plain"}` + "\n" +
		`{"type":"end","topics":0,"pings":0,"subscriptions":0}` + "\n"
	if err := os.WriteFile(file, []byte(whole), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"export", "--plain-secrets"}, {"import", file}, {"import", "--dry-run", file}, {"restore", file},
	} {
		code, _, stderr := try(t, "", append(args, "--data-dir", t.TempDir(), "--redis-url", redis.URL())...)
		if code != cli.ExitRefused || !strings.Contains(stderr, "set maxmemory-policy noeviction") {
			t.Errorf("%s: exit code %d, want %d, and it said %q", args, code, cli.ExitRefused, stderr)
		}
	}
}
