package e2e

import (
	"context"
	"errors"
	"fmt"
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
)

// What an operator does with a running hub, one story a script. Each has a
// folder, a hub's addresses ($HUB, $ADMIN) and those of two callbacks ($READER,
// $OTHER) of its own; the topic is $TOPIC.
func TestOperator(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			for _, name := range []string{"HUB", "ADMIN", "READER", "OTHER"} {
				e.Setenv(name, ports.Addr())
			}
			e.Setenv("PATH", filepath.Dir(binary)+string(filepath.ListSeparator)+os.Getenv("PATH"))
			e.Setenv("RSHUB_ADMIN_URL", "http://"+e.Getenv("ADMIN"))
			e.Setenv("TOPIC", "http://localhost:8000/changes/")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"answers": cmdAnswers, "publish": cmdPublish, "eventually": cmdEventually, "exits": cmdExits, "let": cmdLet,
		},
	})
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

// answers URL: waits until something there answers, and not with a server error.
func cmdAnswers(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: answers URL")
	}
	poll(ts, func() error {
		a, err := try(context.Background(), "GET", args[0], nil, nil)
		if err == nil && a.status >= 500 {
			err = fmt.Errorf("%s answers %d %s", args[0], a.status, a.body)
		}
		return err
	})
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

// eventually PATTERN COMMAND...: runs a command until it prints what matches.
func cmdEventually(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: eventually PATTERN COMMAND [ARG...]")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	poll(ts, func() error {
		err := ts.Exec(args[1], args[2:]...)
		if err == nil && !pattern.MatchString(ts.ReadFile("stdout")) {
			err = fmt.Errorf("%s prints nothing that matches %q", strings.Join(args[1:], " "), args[0])
		}
		return err
	})
}

// exits CODE COMMAND...: runs a command that has to end with a given exit code.
func cmdExits(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG...]")
	}
	code := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("it ended with %d, not %s", code, args[0])
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

// poll waits until check is content.
func poll(ts *testscript.TestScript, check func() error) {
	deadline := time.Now().Add(time.Minute)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("after a minute: %v", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
