package main

import (
	"io"
	"log/slog"
	"os"

	"golang.org/x/sys/unix"

	"github.com/rshub/rshub/internal/cli"
)

// newLog writes to w: lines for people where that is a terminal or format is
// console, else JSON.
func newLog(w io.Writer, level, format string) (*slog.Logger, error) {
	var o slog.HandlerOptions
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, cli.Fail(cli.ExitUsage, "--log-level %q is none of debug, info, warn and error", level)
	}
	o.Level = l
	switch {
	case format == "console", format == "" && isTerminal(w):
		return slog.New(slog.NewTextHandler(w, &o)), nil
	case format == "json", format == "":
		return slog.New(slog.NewJSONHandler(w, &o)), nil
	}
	return nil, cli.Fail(cli.ExitUsage, "--log-format %q is neither json nor console", format)
}

// isTerminal reports whether w is shown to a person.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}
