// Package scripts runs scripts: what people type, and what they then see.
package scripts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rshub/rshub/test/ports"
)

// Command is a command of scripts.
type Command = func(ts *testscript.TestScript, neg bool, args []string)

// Run runs the scripts of a folder, each in its own folder and environment. Nobody listens at the
// address $CLOSED, and somebody does at $TAKEN. Setup may be nil. All scripts have these commands,
// and more:
//
//	exits CODE COMMAND [ARG...]          runs a command that ends with that code
//	eventually PATTERN COMMAND [ARG...]  runs a command until it prints what matches
//	answers URL                          waits for any answer but that of a server that fails
func Run(t *testing.T, dir string, setup func(*testscript.Env) error, more map[string]Command) {
	t.Helper()
	commands := map[string]Command{"exits": exits, "eventually": eventually, "answers": answers}
	maps.Copy(commands, more)
	testscript.Run(t, testscript.Params{
		Dir: dir, RequireExplicitExec: true, Cmds: commands,
		Setup: func(e *testscript.Env) error {
			taken, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			e.Defer(func() { _ = taken.Close() })
			e.Setenv("TAKEN", taken.Addr().String())
			e.Setenv("CLOSED", ports.Addr())
			e.Setenv("GORACE", os.Getenv("GORACE")) // which make test sets, so that programs end at once
			if setup == nil {
				return nil
			}
			return setup(e)
		},
	})
}

func exits(ts *testscript.TestScript, _ bool, args []string) {
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
		ts.Fatalf("%q ended with %d, not %s", args[1:], code, args[0])
	}
}

func eventually(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: eventually PATTERN COMMAND [ARG...]")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	Poll(ts, func(context.Context) error {
		err := ts.Exec(args[1], args[2:]...)
		if err == nil && !pattern.MatchString(ts.ReadFile("stdout")) {
			err = fmt.Errorf("%s prints nothing that matches %q", strings.Join(args[1:], " "), args[0])
		}
		return err
	})
}

func answers(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: answers URL")
	}
	Poll(ts, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, args[0], nil)
		ts.Check(err)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		if resp.StatusCode >= http.StatusInternalServerError {
			err = fmt.Errorf("%s answers %s", args[0], resp.Status)
		}
		return errors.Join(err, resp.Body.Close())
	})
}

// Poll calls check until it returns nil, for a minute at most. The context of check ends then.
func Poll(ts *testscript.TestScript, check func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			ts.Fatalf("after a minute: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
