package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rshub/rshub/test/ports"
	"github.com/rshub/rshub/test/scripts"
)

// What an operator does with a running hub, one story a script. Each has a
// folder, a hub's addresses ($HUB, $ADMIN) and those of two callbacks ($READER,
// $OTHER) of its own; the topic is $TOPIC.
func TestOperator(t *testing.T) {
	setup := func(e *testscript.Env) error {
		for _, name := range []string{"HUB", "ADMIN", "READER", "OTHER"} {
			e.Setenv(name, ports.Addr())
		}
		e.Setenv("PATH", filepath.Dir(binary)+string(filepath.ListSeparator)+os.Getenv("PATH"))
		e.Setenv("RSHUB_ADMIN_URL", "http://"+e.Getenv("ADMIN"))
		e.Setenv("TOPIC", "http://localhost:8000/changes/")
		return nil
	}
	scripts.Run(t, "testdata/script", setup, map[string]scripts.Command{"publish": cmdPublish, "let": cmdLet})
}

// README names no command that there is not.
func TestCommandsOfReadme(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range regexp.MustCompile("`rshub ([a-z]+(?: [a-z]+)?)").FindAllStringSubmatch(string(readme), -1) {
		if seen[m[1]] {
			continue
		}
		seen[m[1]] = true
		help, err := exec.CommandContext(t.Context(), binary, append(strings.Fields(m[1]), "--help")...).Output()
		if err != nil || !regexp.MustCompile("(?m)^  rshub "+m[1]+"( |$)").Match(help) {
			t.Errorf("README has `rshub %s`; its help is %q, %v", m[1], help, err)
		}
	}
	if len(seen) < 15 {
		t.Errorf("README names %d commands only", len(seen))
	}
}

// publish FROM UNTIL: publishes a notification of the interval between two
// minutes after 2026-01-01T00:00:00Z to $TOPIC, with one change.
func cmdPublish(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: [!] publish FROM UNTIL")
	}
	at := func(minute string) time.Time {
		n, err := strconv.Atoi(minute)
		ts.Check(err)
		return time.Date(2026, 1, 1, 0, n, 0, 0, time.UTC)
	}
	h := &hub{addr: ts.Getenv("HUB")}
	a, err := try(context.Background(), "POST", h.url(), h.publishHeader(ts.Getenv("TOPIC")), notification(at(args[0]), at(args[1]), 0))
	ts.Check(err)
	ts.Logf("%d %s", a.status, a.body)
	if (a.status == 200) == neg {
		ts.Fatalf("it was answered with %d", a.status)
	}
}

// let NAME PATTERN: sets a variable to what the group of the pattern matches in
// what the last command printed.
func cmdLet(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: let NAME PATTERN")
	}
	pattern, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	m := pattern.FindStringSubmatch(ts.ReadFile("stdout"))
	if len(m) != 2 {
		ts.Fatalf("nothing matches %q with one group", args[1])
	}
	ts.Setenv(args[0], m[1])
}
