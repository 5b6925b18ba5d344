package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/internal/base/quantity"
	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/destination"
)

// followCommand returns the command and what checks its flags before it runs.
func followCommand() (*cobra.Command, func(*cobra.Command) error) {
	var f copyFlags
	var source string
	var server cli.ServerFlags
	cmd := &cobra.Command{
		Use:   "follow [SOURCE] --dir DIR [--callback-url URL]",
		Short: "Keep a copy in sync with its Source all the time",
		Long: `Copies a Source if there is no copy yet, and carries out each change when the Source's
hub pushes it. Changes that were missed are read from the hub or from the Source's
Change Lists. If there are none, they come from its Change Dumps or from a new copy.
You can stop and start it at any time, also before the Source: it waits for a Source
that is unavailable or not ready.

With --callback-url it subscribes, and the hub delivers changes there. Behind NAT or a
firewall, where no hub can call it, leave --callback-url out: rssub reads the stream of
the hub, which it opens itself. If the hub has none, it asks the Source for changes
every --poll. --via says one of these ways. The next start may use another one: nothing
is lost in between, and no change is carried out twice. A stream has no signatures, so
it is read over https or on this machine, unless --insecure-stream is given.

With --sources it follows many Sources, each with a copy in a folder of its own below
--dir. The other flags are the defaults of each Source. A Source that is away, slow or
wrong delays no other one. The file is read again when it changes, and at SIGHUP; one
with a mistake changes nothing. A Source that is taken out is unsubscribed, and its copy
stays.

With --on-change a command is run for each file that was copied or deleted, in order, when
the file is in place. It gets a line of JSON and variables as that of rssub listen --exec,
also RSSUB_FILE, the path of the file, and RSSUB_SOURCE_NAME. RSSUB_CHANGE is created,
updated or deleted, whichever happened to the file. Exit code 0 means that it is done,
65 that it never will be. After anything else, or after --on-change-limit, it is run
again, after a second at first, and the next ones wait; copying continues, unless 10,000
wait. After a crash it is run again for the last ones. Its output goes to stderr.

It prints a line for each file that it copied or deleted, or failed to.

--admin-listen serves the health of the copy at /livez and /readyz, and metrics for
Prometheus at /metrics. The copy stays ready while a hub is unavailable.`,
		Example: `  rssub follow https://source.example/ --dir ./copy \
      --callback-url https://me.example:8095/
  rssub follow https://source.example/ --dir ./copy            behind NAT
  rssub follow https://source.example/ --dir ./copy --poll 10m
  rssub follow http://localhost:8090/ --dir ./copy --dev
  rssub follow --sources sources.yaml --dir /srv/copies \
      --callback-url https://me.example/websub/
  rssub follow --config /etc/rssub/rssub.yaml          with source: in the file`,
		Args: cli.AtMost("Source"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.sources != "" {
				return f.followAll(cmd, args, &server)
			}
			o, err := f.options(cmd, cmp.Or(strings.Join(args, ""), source))
			if err != nil {
				return err
			}
			calls, err := f.way.check(cmd.Flags(), f.callback, f.call.Dev)
			if err != nil {
				return err
			}
			ctx, cancel := untilSignal(cmd)
			defer cancel()
			l, err := listen(ctx, &server, calls, f.call.Dev, &o.Callback, o.Log)
			if err != nil {
				return err
			}
			defer l.Stop(ctx, drain)
			o.Progress = logProgress(cmd.ErrOrStderr(), o.Log)
			m, print := newMetrics(l, f.minFree), &lines{w: cmd.OutOrStdout(), json: f.json}
			o.Event = func(e destination.Event) {
				m.event(e)
				print.update("", e)
			}
			o.Audited = m.audited
			o.Hand = f.onChangeOf(cmd, o.Source, f.dir, o.Log)
			c, err := f.open(o)
			if err != nil {
				return err
			}
			defer func() { _ = c.Close() }()
			m.of = watched{c.Status, c.Ready, c.Stored, f.dir}
			l.Serve(ctx, c.Handler())
			if o.Callback != "" {
				o.Log.Info("the callback listens", "event", "listening", "addr", l.Addr().String(), "callback_url", o.Callback)
			}
			ended := make(chan error, 1)
			following, stop := context.WithCancel(ctx)
			defer stop()
			go func() { ended <- c.Follow(following) }()
			select {
			case err = <-ended:
			case err = <-l.Failed:
				stop()
				err = errors.Join(err, <-ended)
			}
			l.Stop(ctx, drain) // before the state is closed
			return explained(err, o.Log)
		},
	}
	cmd.Flags().StringVar(&source, "source", "", "`URL` of the Source, if no argument names it")
	f.add(cmd)
	f.addBaseline(cmd.Flags())
	f.selection.add(cmd.Flags())
	f.addSubscription(cmd.Flags())
	f.addCallback(cmd.Flags())
	f.addActions(cmd.Flags())
	cmd.Flags().StringVar(&f.sources, "sources", "", "YAML `FILE` with many Sources, read again when it changes; --dir is the folder with a folder for each of their copies then")
	server.Add(cmd.Flags(), "8095", takes)
	return cmd, func(cmd *cobra.Command) error {
		if err := f.check(cmd, source); err != nil {
			return err
		}
		return server.Check()
	}
}

// check reports what is wrong with the flags, or missing for a copy that a hub keeps in sync.
func (f *copyFlags) check(cmd *cobra.Command, source string) error {
	if f.sources != "" {
		_, err := f.checkSources(cmd, source)
		return err
	}
	o, err := f.options(cmd, source)
	if err != nil {
		return err
	}
	if err := o.Check(); err != nil {
		return err
	}
	_, err = f.way.check(cmd.Flags(), f.callback, f.call.Dev)
	return err
}

// lines prints a line for each event.
type lines struct {
	mu   sync.Mutex
	w    io.Writer
	json bool
}

// event is destination.Event as JSON.
type event struct {
	At             time.Time               `json:"at"`
	Source         string                  `json:"source,omitempty"` // its name, where there are many
	What           string                  `json:"what"`
	URL            string                  `json:"url"`
	Path           string                  `json:"path,omitempty"`
	Bytes          int64                   `json:"bytes"`
	Hash           string                  `json:"hash,omitempty"`
	Change         resourcesync.ChangeType `json:"change,omitempty"`
	ChangedAt      time.Time               `json:"changed_at,omitzero"`
	NotificationID string                  `json:"notification_id,omitempty"`
	Instead        string                  `json:"instead,omitempty"` // the address of the mirror or alternate that it came from
	Error          string                  `json:"error,omitempty"`
}

func (l *lines) update(source string, e destination.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.json {
		out := event{now, source, e.What, e.URL, e.Path, e.Bytes, e.Hash, e.Change, e.ChangedAt, e.NotificationID, e.Instead, ""}
		if e.Err != nil {
			out.Error = e.Err.Error()
		}
		_ = cli.WriteJSON(l.w, out) // nobody can be informed
		return
	}
	s := fmt.Sprintf("%s %s %s", strings.TrimSpace(now.Format(time.TimeOnly)+" "+source), e.What, first(e.Path, e.URL))
	switch {
	case e.Err != nil:
		s += ": " + strings.TrimPrefix(e.Err.Error(), e.URL+": ")
	case e.What == destination.Copied:
		s += fmt.Sprintf(" %s %s", quantity.BytesText(e.Bytes), e.Hash)
		if e.Instead != "" {
			s += " from " + e.Instead
		}
	}
	_, _ = fmt.Fprintln(l.w, cli.Line(s)) // as above
}
