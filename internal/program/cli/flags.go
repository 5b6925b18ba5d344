package cli

import (
	"cmp"
	"io"
	stdlog "log"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/ingress"
	"github.com/rshub/rshub/internal/base/logs"
	"github.com/rshub/rshub/internal/base/quantity"
	"github.com/rshub/rshub/internal/program/config"
)

// CallFlags say which addresses rspub or rssub may call besides public ones.
type CallFlags struct {
	allow []string
	Dev   bool // --dev
}

// Add adds --allow-cidr and --dev. The help text of --dev is dev.
func (f *CallFlags) Add(flags *pflag.FlagSet, dev string) {
	flags.StringSliceVar(&f.allow, "allow-cidr", nil, "private or loopback `RANGE` that hubs and URLs may be in; repeatable")
	flags.BoolVar(&f.Dev, "dev", false, dev)
}

// Ranges are the private ranges that may be called. An error has ExitUsage.
func (f *CallFlags) Ranges() ([]netip.Prefix, error) {
	var out []netip.Prefix
	if f.Dev {
		out = egress.DevAllow()
	}
	allowed, err := ranges("--allow-cidr", f.allow, config.ParseAllowedRange)
	return append(out, allowed...), err
}

// ranges are the values of a flag. An error has ExitUsage.
func ranges(flag string, values []string, parse func(string) (netip.Prefix, error)) (all []netip.Prefix, err error) {
	for _, text := range values {
		p, err := parse(text)
		if err != nil {
			return nil, Fail(ExitUsage, "%s %w", flag, err)
		}
		all = append(all, p)
	}
	return all, nil
}

// LogFlags say what rspub and rssub log, and how.
type LogFlags struct{ level, format string }

// Add adds --log-level and --log-format.
func (f *LogFlags) Add(flags *pflag.FlagSet) {
	flags.StringVar(&f.level, "log-level", "info", "lowest `LEVEL` that is logged: debug, info, warn or error")
	flags.StringVar(&f.format, "log-format", "", "`FORMAT` of the log: json or console (default: console on a terminal, else json)")
}

// Logger writes to w as the flags say. An error has ExitUsage.
func (f *LogFlags) Logger(w io.Writer) (*slog.Logger, error) { return NewLog(w, f.level, f.format) }

// NewLog writes to w from a level on, as rshub does: for people if w is a terminal or format
// is console, else JSON. If w is a file, as the standard error is, the log also has what net/http says
// of connections through package log, within a limit. An error has ExitUsage.
func NewLog(w io.Writer, level, format string) (*slog.Logger, error) {
	if !slices.Contains([]string{"", "json", "console"}, format) {
		return nil, Fail(ExitUsage, "--log-format %q is neither json nor console", format)
	}
	log, err := logs.New(w, level, format == "console" || format == "" && IsTerminal(w))
	if err != nil {
		return nil, Fail(ExitUsage, "--log-level %w", err)
	}
	if _, isFile := Raw(w).(*os.File); isFile {
		stdlog.SetFlags(0)
		stdlog.SetOutput(ingress.ErrorLog("none", logs.Slog(log.Named("http"))))
	}
	return logs.Slog(log), nil
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	_, ok := askTerminal(Raw(w))
	return ok
}

// Span is a duration as a flag: 90s, 10m, 72h, 30d, or off, which is negative.
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

// OrNone is a limit as options have it, where 0 stands for a default: 0 of a flag is -1, no
// limit.
func OrNone[T int | int64](limit T) T {
	if limit == 0 {
		return -1
	}
	return limit
}

// OrNever is the duration, or -1 (never) if it is zero.
func (s Span) OrNever() time.Duration {
	return cmp.Or(time.Duration(s), -1)
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
