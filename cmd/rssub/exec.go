package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber"
	"github.com/rshub/rshub/subscriber/destination"
)

// exitNever is the exit code of a command that will never be done with a change:
// EX_DATAERR of sysexits.h.
const exitNever = 65

// termFor is how long a command may take to end when rssub does.
const termFor = 10 * time.Second

// longestVariable is how much of a value is put in the environment. A system refuses to start a
// command with more, and the Source decides how long a value is. Standard input has all of it.
const longestVariable = 32 << 10

// command is what --exec or --on-change runs, and where its output goes.
type command struct {
	line        string
	out, errOut io.Writer
	limit       time.Duration // after it the command is ended, which counts as a failure; 0: never
	source      string        // the name or address of the Source; empty: there is one topic
	file        string        // the path of the file in the copy; empty: there is no copy
}

// run runs the command for one change and returns its exit code.
func (x command) run(ctx context.Context, c *subscriber.Change) (code int, err error) {
	n := newNotification(c)
	n.add(c)
	n.Source, n.File = x.source, x.file
	var input bytes.Buffer
	if err := cli.WriteJSON(&input, n); err != nil {
		return -1, err
	}
	if x.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, x.limit, fmt.Errorf("it did not end within %v", x.limit))
		defer cancel()
	}
	env := append(os.Environ(), environment(c)...)
	if x.file != "" {
		env = append(env, variable("RSSUB_FILE", x.file), variable("RSSUB_SOURCE_NAME", x.source))
	}
	return shell(ctx, x.line, env, &input, x.out, x.errOut)
}

// shell runs a line by the shell, and ends it with all that it started if it goes on for longer than endsSoon after the
// end of ctx. It returns the exit code.
func shell(ctx context.Context, line string, env []string, in io.Reader, out, errOut io.Writer) (code int, err error) {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", line) //nolint:gosec // it is the user's own
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = in, out, errOut, env
	// Signal the processes that the shell has started too, so that none of them is left over when
	// the next start runs the command again.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return terminate(cmd.Process.Pid) }
	cmd.WaitDelay = termFor
	err = cmd.Run()
	if ctx.Err() != nil && cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what ignored the first signal
		if err != nil {
			return -1, context.Cause(ctx)
		}
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	if err != nil {
		return -1, err
	}
	return 0, nil
}

// endsSoon is how long a command may go on before it is asked to end. One that is nearly done need not run again.
const endsSoon = time.Second

// terminate asks a group of processes to end if it has not ended by itself soon.
func terminate(group int) error {
	for began := time.Now(); time.Since(began) < endsSoon; time.Sleep(10 * time.Millisecond) {
		if errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) {
			return os.ErrProcessDone
		}
	}
	return syscall.Kill(-group, syscall.SIGTERM)
}

// hand returns what runs the command for each file of a copy that was copied or deleted.
func (x command) hand(log *slog.Logger, dir string) func(context.Context, destination.Event) error {
	return func(ctx context.Context, e destination.Event) error {
		x := x
		x.file = filepath.Join(dir, filepath.FromSlash(e.Path))
		c := &subscriber.Change{NotificationID: e.NotificationID, Entry: resourcesync.Entry{
			Loc: e.URL, Change: e.Change, Datetime: e.ChangedAt, Length: e.Bytes, HasLength: e.Change != resourcesync.Deleted, Hash: e.Hash,
		}}
		if !x.untilDone(ctx, log, c) {
			return ctx.Err()
		}
		return nil
	}
}

// untilDone runs the command for a change until it says that it is done with.
// False: ctx ended before.
func (x command) untilDone(ctx context.Context, log *slog.Logger, c *subscriber.Change) bool {
	const first, most = time.Second, time.Minute
	for wait := first; ; wait = min(2*wait, most) {
		code, err := x.run(ctx, c)
		switch {
		case err == nil && code == 0:
			return true
		case ctx.Err() != nil:
			return false
		case err == nil && code == exitNever:
			log.Warn("the command gave up a change", "event", "exec_gave_up", "url", c.Loc)
			return true
		}
		if err == nil {
			err = fmt.Errorf("exit code %d", code)
		}
		log.Warn("the command failed for a change; it is repeated until it succeeds, and later changes wait",
			"event", "exec_failed", "url", c.Loc, "wait", wait, "error", err)
		if !clock.Sleep(ctx, wait) {
			return false
		}
	}
}

// environment returns the variables that describe a change to a command. Text of the Source is
// only in variables, never in the command itself.
func environment(c *subscriber.Change) []string {
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return resourcesync.FormatDatetime(t)
	}
	length := ""
	if c.HasLength {
		length = strconv.FormatInt(c.Length, 10)
	}
	kind := c.Entry.Change
	switch {
	case c.NeedsBaseline:
		kind = "needs-baseline"
	case c.Content != nil:
		kind = "content"
	}
	return []string{
		variable("RSSUB_CHANGE", string(kind)), variable("RSSUB_URL", c.Loc), variable("RSSUB_DATETIME", at(c.Datetime)), variable("RSSUB_LENGTH", length),
		variable("RSSUB_HASH", c.Hash), variable("RSSUB_TYPE", first(c.Type, c.MediaType)), variable("RSSUB_NOTIFICATION_ID", c.NotificationID),
		variable("RSSUB_FROM", at(c.From)), variable("RSSUB_UNTIL", at(c.Until)), variable("RSSUB_REPAIRED", strconv.FormatBool(c.Repaired)),
	}
}

// variable returns a variable of the environment, cut off where no system would accept it.
func variable(name, value string) string {
	v := name + "=" + value
	return strings.ReplaceAll(v[:min(len(v), longestVariable)], "\x00", "")
}
