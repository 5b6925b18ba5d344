package main

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rshub/rshub/test/ports"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"rssub": main})
}

// The scripts run the real command, each in its own folder. Nobody listens at the address CLOSED,
// and somebody does at TAKEN.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			taken, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			e.Defer(func() { _ = taken.Close() })
			e.Setenv("CLOSED", ports.Addr())
			e.Setenv("TAKEN", taken.Addr().String())
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// exits runs a command and expects an exit code.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG...]")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if err != nil {
		code = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if code != args[0] {
		ts.Fatalf("%q exits %s, want %s", args[1:], code, args[0])
	}
}
