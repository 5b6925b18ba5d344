package main

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber"
	"github.com/rshub/rshub/subscriber/destination"
)

// What a Source says reaches the command in its environment and on its standard
// input, and never as a part of the command; however long it is.
func TestCommandIsTold(t *testing.T) {
	c := &subscriber.Change{
		Entry:          resourcesync.Entry{Loc: "https://x.example/$(touch owned)`id`'\"; exit 3" + strings.Repeat("x", 300_000), Change: "created", Length: 7, HasLength: true},
		NotificationID: "n1", From: time.Unix(0, 0), Until: time.Unix(1, 5), Repaired: true,
	}
	var out, errOut bytes.Buffer
	x := command{line: `printf '%s|' "$RSSUB_CHANGE" "$(printf %.35s "$RSSUB_URL")" "$RSSUB_LENGTH" "$RSSUB_FROM" "$RSSUB_UNTIL" "$RSSUB_REPAIRED" "$RSSUB_DATETIME"; wc -c; echo told >&2`, out: &out, errOut: &errOut}
	if code, err := x.run(t.Context(), c); code != 0 || err != nil {
		t.Fatal(code, err)
	}
	fields := strings.Split(strings.TrimSpace(out.String()), "|")
	want := []string{"created", "https://x.example/$(touch owned)`id", "7", "1970-01-01T00:00:00Z", "1970-01-01T00:00:01.000000005Z", "true", ""}
	if len(fields) != 8 || strings.Join(fields[:7], "|") != strings.Join(want, "|") || len(fields[7]) < 6 || errOut.String() != "told\n" {
		t.Errorf("%q %q", fields, &errOut)
	}
	for want, c := range map[string]*subscriber.Change{
		"needs-baseline": {NeedsBaseline: true}, "content": {Content: []byte{}, MediaType: "text/plain"},
	} {
		if env := environment(c); env[0] != "RSSUB_CHANGE="+want {
			t.Errorf("%q", env)
		}
	}
}

// The line on standard input has URLs as people read them.
func TestCommandReadsPlainURLs(t *testing.T) {
	var out bytes.Buffer
	c := &subscriber.Change{Entry: resourcesync.Entry{Loc: "https://x.example/?a=1&b=<2>"}}
	if code, err := (command{line: "cat", out: &out, errOut: &out}).run(t.Context(), c); code != 0 || err != nil {
		t.Fatal(code, err)
	}
	if !strings.Contains(out.String(), `"https://x.example/?a=1&b=<2>"`) || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("%s", &out)
	}
}

// 0 and 65 end a change, anything else has the command run again, until rssub ends.
func TestExitCodes(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.DiscardHandler)
	for line, want := range map[string]bool{"exit 0": true, "exit 65": true, "exit 1": false, "kill -9 $$": false, "/nowhere": false} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		if want {
			ctx = t.Context()
		}
		if done := (command{line: line, out: &out, errOut: &out}).untilDone(ctx, log, &subscriber.Change{}); done != want {
			t.Errorf("%s: done is %v", line, done)
		}
		cancel()
	}
}

// When rssub ends, everything that the command has started ends, not only its shell.
func TestNothingIsLeftOver(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	x := command{line: `sh -c 'echo $$ > "$0.new"; mv "$0.new" "$0"; while :; do sleep 0.05; done' '` + file + `'; true`, out: os.Stdout, errOut: &out}
	ended := make(chan struct{})
	go func() { defer close(ended); _, _ = x.run(ctx, &subscriber.Change{}) }()
	var raw []byte
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		var err error
		if raw, err = os.ReadFile(file); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the command does not run")
		}
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	<-ended
	for deadline := time.Now().Add(time.Minute); syscall.Kill(pid, 0) == nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatal("what the shell had started runs on")
		}
	}
}

// --on-change gets the file and what happened to it. A run that hangs is ended with all that it
// started, also where that ignores the first signal, and counts as a failure.
func TestOnChange(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.DiscardHandler)
	x := command{line: `printf '%s|' "$RSSUB_CHANGE" "$RSSUB_URL" "$RSSUB_FILE" "$RSSUB_SOURCE_NAME" "$RSSUB_LENGTH"; cat`, out: &out, errOut: &out, source: "books"}
	err := x.hand(log, "/copy")(t.Context(), destination.Event{What: destination.Copied, Change: "updated", URL: "https://a.example/x", Path: "a.example/x", Bytes: 3, Hash: "md5:00"})
	want := `updated|https://a.example/x|/copy/a.example/x|books|3|{"source":"books","file":"/copy/a.example/x","changes":[{"change":"updated","url":"https://a.example/x","length":3,"hash":"md5:00"}]}` + "\n"
	if err != nil || out.String() != want {
		t.Errorf("%v\n%s\n%s", err, &out, want)
	}
	pid := filepath.Join(t.TempDir(), "pid")
	x = command{line: `sh -c 'echo $$ > ` + pid + `; while :; do sleep 0.05; done' & wait`, out: os.Stdout, errOut: os.Stderr, limit: 300 * time.Millisecond}
	if code, err := x.run(t.Context(), &subscriber.Change{}); code != -1 || err == nil || !strings.Contains(err.Error(), "it did not end within 300ms") {
		t.Errorf("%d %v", code, err)
	}
	raw, err := os.ReadFile(pid)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); syscall.Kill(n, 0) == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("what the command started goes on")
		}
	}
}
