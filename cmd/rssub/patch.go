package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/rshub/rshub/internal/base/excerpt"
	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/subscriber/destination"
)

// patchFlags say how patches are applied.
type patchFlags struct {
	commands []string // TYPE=COMMAND
	limit    cli.Span // of a run
}

func (f *patchFlags) add(flags *pflag.FlagSet) {
	f.limit = cli.Span(time.Minute)
	flags.StringArrayVar(&f.commands, "patch", nil, "`TYPE=COMMAND`: apply patches of the media type TYPE by COMMAND, run by the shell: $RSSUB_OLD is the old file, $RSSUB_PATCH the patch, and standard output the new file; without COMMAND, use no patches of TYPE; repeatable (default: unified diffs, text/x-diff and text/x-patch, need no command)")
	flags.Var(cli.Positive(&f.limit), "patch-limit", "`TIME` after which a run of --patch is ended, and the whole resource is fetched")
}

// set sets the options.
func (f *patchFlags) set(o *destination.Options) error {
	o.Patches = map[string]destination.Patcher{}
	for _, text := range f.commands {
		t, line, ok := strings.Cut(text, "=")
		if is, params, err := mime.ParseMediaType(t); !ok || err != nil || len(params) > 0 || !strings.EqualFold(is, t) || !strings.Contains(t, "/") {
			return cli.Fail(cli.ExitUsage, "--patch %q must be of the form TYPE=COMMAND, such as application/x-bsdiff='bspatch \"$RSSUB_OLD\" /dev/stdout \"$RSSUB_PATCH\"'", text)
		}
		o.Patches[t] = nil
		if strings.TrimSpace(line) != "" {
			o.Patches[t] = patcher(line, span(f.limit))
		}
	}
	return nil
}

// patcher returns what applies patches by a command.
func patcher(line string, limit time.Duration) destination.Patcher {
	return func(ctx context.Context, p destination.Patch, out io.Writer) error {
		ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the command did not end within %v", limit))
		defer cancel()
		var said beginning
		env := append(os.Environ(), variable("RSSUB_OLD", p.Old), variable("RSSUB_PATCH", p.File), variable("RSSUB_URL", p.URL), variable("RSSUB_TYPE", p.Type))
		code, err := shell(ctx, line, env, nil, out, &said)
		if err == nil && code != 0 {
			err = fmt.Errorf("the command ended with %d: %s", code, excerpt.Of(said, 200))
		}
		if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(cause, context.Canceled) {
			err = cause
		}
		return err
	}
}

// beginning keeps the first of what is written.
type beginning []byte

func (b *beginning) Write(p []byte) (int, error) {
	const most = 1 << 10
	*b = append(*b, p[:min(len(p), most-len(*b))]...)
	return len(p), nil
}
