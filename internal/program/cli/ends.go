package cli

import (
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/quantity"
)

// What follows is for the commands of the two ends, rspub and rssub.

// CallFlags say whom a command may call besides public addresses.
type CallFlags struct {
	allow []string
	Dev   bool // --dev
}

// Add adds --allow-cidr and --dev, of which dev says what it does.
func (f *CallFlags) Add(flags *pflag.FlagSet, dev string) {
	flags.StringSliceVar(&f.allow, "allow-cidr", nil, "private or loopback `RANGE` that hubs and URLs may be in; repeatable")
	flags.BoolVar(&f.Dev, "dev", false, dev)
}

// Ranges are those that may be called. An error is for ExitUsage.
func (f *CallFlags) Ranges() ([]netip.Prefix, error) {
	var out []netip.Prefix
	if f.Dev {
		out = egress.DevAllow()
	}
	for _, s := range f.allow {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, Fail(ExitUsage, "--allow-cidr %q is not a range of addresses; write it like 10.0.0.0/8 or fd00::/8", s)
		}
		out = append(out, p)
	}
	return out, nil
}

// LogFlags say what is logged and how.
type LogFlags struct{ level, format string }

// Add adds --log-level and --log-format.
func (f *LogFlags) Add(flags *pflag.FlagSet) {
	flags.StringVar(&f.level, "log-level", "info", "`LEVEL` from which on things are logged: debug, info, warn or error")
	flags.StringVar(&f.format, "log-format", "", "json or console `FORM` of the log (default: console on a terminal, else json)")
}

// Logger writes to w as the flags say. An error is for ExitUsage.
func (f *LogFlags) Logger(w io.Writer) (*slog.Logger, error) { return NewLog(w, f.level, f.format) }

// NewLog writes to w from a level on: lines for people where that is a terminal or
// format is console, else JSON. An error is for ExitUsage.
func NewLog(w io.Writer, level, format string) (*slog.Logger, error) {
	var o slog.HandlerOptions
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, Fail(ExitUsage, "--log-level %q is none of debug, info, warn and error", level)
	}
	o.Level = l
	switch {
	case format == "console", format == "" && IsTerminal(w):
		return slog.New(slog.NewTextHandler(w, &o)), nil
	case format == "json", format == "":
		o.ReplaceAttr = inSeconds
		return slog.New(slog.NewJSONHandler(w, &o)), nil
	}
	return nil, Fail(ExitUsage, "--log-format %q is neither json nor console", format)
}

// inSeconds writes durations as seconds, as the log of rshub has them.
func inSeconds(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.Float64Value(a.Value.Duration().Seconds())
	}
	return a
}

// IsTerminal reports whether w is shown to a person.
func IsTerminal(w io.Writer) bool {
	f, ok := Raw(w).(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// Span is a time as a flag: 90s, 10m, 72h, 30d, or off, which is negative.
type Span time.Duration

// Set implements pflag.Value.
func (s *Span) Set(text string) error {
	if text == "off" {
		*s = -1
		return nil
	}
	d, err := quantity.Duration(text)
	if err == nil {
		*s = Span(d)
	}
	return err
}

// OrNever is the time where none at all means never, too, which is negative.
func (s Span) OrNever() time.Duration {
	if s == 0 {
		s = -1
	}
	return time.Duration(s)
}

// String implements pflag.Value.
func (s *Span) String() string {
	if *s < 0 {
		return "off"
	}
	return quantity.DurationText(time.Duration(*s))
}

// Type implements pflag.Value.
func (s *Span) Type() string { return "duration" }

// BuildLine names a command and its version: that of a release, else what the Go
// tool knows of the build, else "dev".
func BuildLine(command, release string) string {
	v := release
	if v == "" {
		v = "dev"
		if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
			v = info.Main.Version
		}
	}
	return fmt.Sprintf("%s %s (%s, %s/%s)", command, v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// End returns the root command of one of the two ends.
func End(name, short, release string, children ...*cobra.Command) *cobra.Command {
	line := BuildLine(name, release)
	version := &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), line)
			return err
		},
	}
	root := Group(name, short, append(children, version)...)
	root.Version = line
	root.SetVersionTemplate("{{.Version}}\n")
	return root
}
