package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber"
)

// exitNever is the exit code of a command that will never be done with a change:
// EX_DATAERR of sysexits.h.
const exitNever = 65

// termFor is how long a command may take to end when rssub does.
const termFor = 10 * time.Second

// runCommand runs the command for one change and returns its exit code.
func runCommand(ctx context.Context, command string, c *subscriber.Change) (code int, err error) {
	n := newNotification(c)
	n.add(c)
	input, err := json.Marshal(n)
	if err != nil {
		return -1, err
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command) //nolint:gosec // it is the user's own
	cmd.Stdin = bytes.NewReader(append(input, '\n'))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), environment(c)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
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

// environment is what a command is told of a change. What a Source says stands in
// variables only, and never in the command.
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
		"RSSUB_CHANGE=" + kind, "RSSUB_URL=" + c.Loc, "RSSUB_DATETIME=" + at(c.Datetime), "RSSUB_LENGTH=" + length,
		"RSSUB_HASH=" + c.Hash, "RSSUB_TYPE=" + first(c.Type, c.MediaType), "RSSUB_NOTIFICATION_ID=" + c.NotificationID,
		"RSSUB_FROM=" + at(c.From), "RSSUB_UNTIL=" + at(c.Until), "RSSUB_REPAIRED=" + strconv.FormatBool(c.Repaired),
	}
}
