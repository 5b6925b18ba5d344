package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber"
)

// exitNever is the exit code of a command that will never be done with a change:
// EX_DATAERR of sysexits.h.
const exitNever = 65

// termFor is how long a command may take to end when rssub does.
const termFor = 10 * time.Second

// longestVariable is how much of a value is put in the environment. A system refuses to start a
// command with more, and the Source decides how long a value is. Standard input has all of it.
const longestVariable = 32 << 10

// command is what --exec runs, and where its output goes.
type command struct {
	line        string
	out, errOut io.Writer
}

// run runs the command for one change and returns its exit code.
func (x command) run(ctx context.Context, c *subscriber.Change) (code int, err error) {
	n := newNotification(c)
	n.add(c)
	input, err := json.Marshal(n)
	if err != nil {
		return -1, err
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", x.line) //nolint:gosec // it is the user's own
	cmd.Stdin = bytes.NewReader(append(input, '\n'))
	cmd.Stdout, cmd.Stderr = x.out, x.errOut
	cmd.Env = append(os.Environ(), environment(c)...)
	// Signal the processes that the shell has started too, so that none of them is left over when
	// the next start runs the command again.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = termFor
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	if err != nil {
		return -1, err
	}
	return 0, nil
}

// untilDone runs the command for a change until it says that it is done with.
// False: ctx ended before.
func (x command) untilDone(ctx context.Context, log *slog.Logger, c *subscriber.Change) bool {
	const first, most = time.Second, time.Minute
	for wait := first; ; wait = min(2*wait, most) {
		code, err := x.run(ctx, c)
		switch {
		case ctx.Err() != nil:
			return false
		case err == nil && code == 0:
			return true
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
	env := []string{
		"RSSUB_CHANGE=" + string(kind), "RSSUB_URL=" + c.Loc, "RSSUB_DATETIME=" + at(c.Datetime), "RSSUB_LENGTH=" + length,
		"RSSUB_HASH=" + c.Hash, "RSSUB_TYPE=" + first(c.Type, c.MediaType), "RSSUB_NOTIFICATION_ID=" + c.NotificationID,
		"RSSUB_FROM=" + at(c.From), "RSSUB_UNTIL=" + at(c.Until), "RSSUB_REPAIRED=" + strconv.FormatBool(c.Repaired),
	}
	for i, v := range env {
		env[i] = strings.ReplaceAll(v[:min(len(v), longestVariable)], "\x00", "")
	}
	return env
}
