package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/subscriber"
	"github.com/rshub/rshub/subscriber/destination"
)

// listenState is the default of its --state-dir.
const listenState = ".rssub"

// listenFlags are those of `rssub listen`.
type listenFlags struct {
	o       subscriber.Options
	way     wayFlags
	server  cli.ServerFlags
	command string
	lease   cli.Span
	check   cli.Span
	hold    cli.Span
	leave   bool
	minimum string // of signatures
	tokens  []string
	call    cli.CallFlags
	log     cli.LogFlags
}

// takes says what --listen is for.
const takes = "at which the hub delivers notifications"

func listenCommand() *cobra.Command {
	var f listenFlags
	cmd := &cobra.Command{
		Use:   "listen --topic URL [--callback-url URL]",
		Short: "Print all notifications of a topic, or run a command for each change",
		Long: `Receives the notifications of a WebSub topic. It prints them in order, each as a line
of JSON, after it has stored them on disk. Changes that the hub did not deliver are read
from the hub or the Source's Change Lists and printed in the same way, with
"repaired": true. If they cannot be read there, a line with "needs_baseline": true says
that they are lost. Content that is not a change notification is in "content", or in
"content_base64" if it is not text.

With --callback-url it subscribes, and the hub delivers there. Behind NAT or a firewall
leave it out: rssub reads the stream of the hub, or if the hub has none, the Source's
Change List every --poll. --via says one of these ways, and the next start may use
another one. A stream over plain http is read only on this machine, unless
--insecure-stream is given.

With --exec it runs a command for each change instead. The command gets the change on
its standard input, as a line of JSON, and in the variables RSSUB_CHANGE, RSSUB_URL,
RSSUB_DATETIME, RSSUB_LENGTH, RSSUB_HASH, RSSUB_TYPE, RSSUB_NOTIFICATION_ID, RSSUB_FROM,
RSSUB_UNTIL and RSSUB_REPAIRED. It must exit with 0 when it has processed the change,
or with 65 if it never will. After any other exit code the command runs again, first
after a second and then at longer and longer intervals. Later changes wait until then.

The next start does not repeat what was printed or done. Only after a crash, what was
in progress at that moment comes again.

--admin-listen serves health at /livez and /readyz, and metrics for Prometheus at
/metrics.`,
		Example: `  rssub listen --topic https://source.example/changes/ \
      --callback-url https://me.example:8095/
  rssub listen --topic https://source.example/changes/         behind NAT
  rssub listen --topic http://localhost:8090/changes/ --dev --exec ./on-change`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.o.Topic, "topic", "", "`URL` of the topic")
	f.way.add(flags)
	flags.StringVar(&f.o.Hub, "hub", "", "`URL` of the hub to subscribe at, or to read the stream of (default: the one that the topic names)")
	f.server.Add(flags, "8095", takes)
	flags.StringVar(&f.o.Callback, "callback-url", "", "the `URL` at which the hub reaches --listen (with --dev: the address of --listen). With --via stream or poll, the hub asks there whether an earlier subscription is to end. Without it rssub listens nowhere")
	flags.StringVar(&f.o.Dir, "state-dir", listenState, "the `FOLDER` of the state: the subscription, and notifications that are not printed yet")
	flags.StringVar(&f.command, "exec", "", "run `CMD` in a shell for each change, instead of printing notifications")
	addTokens(flags, &f.tokens)
	flags.StringVar(&f.o.ChangeList, "change-list", "", "`URL` of the Change List from which gaps are repaired (default: the one that the Source names)")
	flags.BoolVar(&f.o.InsecureSecret, "insecure-secret", false, "send the secret to a hub over plain http, too")
	addMinSignature(flags, &f.minimum)
	f.lease, f.check = cli.Span(10*24*time.Hour), cli.Span(time.Hour)
	flags.Var(cli.Positive(&f.lease), "lease", "`TIME` to ask for")
	flags.Var(&f.check, "check-every", "check the Change List for changes that were not pushed every `TIME`; off: never")
	addMaxEntries(flags, &f.o.MaxEntries)
	addHoldFor(flags, &f.hold)
	flags.BoolVar(&f.leave, "unsubscribe", false, "unsubscribe at the end, instead of leaving the subscription for the next start")
	f.call.Add(flags, "for a Source and hub on this machine or network: loopback and private addresses may be called")
	f.log.Add(flags)
	return cmd
}

func (f *listenFlags) run(cmd *cobra.Command) error {
	if f.o.Topic == "" {
		return cli.Fail(cli.ExitUsage, "--topic is missing: the URL of the topic to subscribe to")
	}
	err := checkURLs(f.o.Callback, named{"--topic", f.o.Topic}, named{"--hub", f.o.Hub}, named{"--change-list", f.o.ChangeList})
	if err != nil {
		return err
	}
	if f.o.MinSignature, err = minSignature(f.minimum); err != nil {
		return err
	}
	if f.o.Log, err = f.log.Logger(cmd.ErrOrStderr()); err != nil {
		return err
	}
	closeClient, err := f.setClient()
	if err != nil {
		return err
	}
	defer closeClient()
	calls, err := f.way.check(cmd.Flags(), f.o.Callback, f.call.Dev)
	if err != nil {
		return err
	}
	f.o.Via, _ = f.way.way() // it was checked
	f.o.PollEvery, f.o.InsecureStream = span(f.way.poll), f.way.insecure
	f.o.Lease, f.o.CheckEvery, f.o.HoldFor = span(f.lease), f.check.OrNever(), span(f.hold)
	f.o.Dir = cmp.Or(f.o.Dir, listenState) // the file of settings has the default of rssub follow
	if st, err := subscriber.ReadStatus(f.o.Dir); err == nil && st.Topic != f.o.Topic {
		return cli.Fail(cli.ExitUsage, "--state-dir %s belongs to the topic %q; name another folder, or delete this one to begin anew", f.o.Dir, st.Topic)
	}
	ctx, cancel := untilSignal(cmd)
	defer cancel()
	l, err := listen(ctx, &f.server, calls, f.call.Dev, &f.o.Callback, f.o.Log)
	if err != nil {
		return err
	}
	defer l.Stop(ctx, drain)
	m := newMetrics(l, 0)
	s, err := subscriber.Open(f.o)
	if err != nil {
		return &cli.Error{Code: cli.ExitFailure, Err: err}
	}
	defer func() { _ = s.Close() }()
	m.of = watched{status: func() ([]destination.SetStatus, error) {
		st, err := s.Status()
		return []destination.SetStatus{{Status: st}}, err
	}, ready: func() error { return nil }, stored: s.Ready, dir: f.o.Dir}
	l.Serve(ctx, s.Handler())
	if calls {
		f.o.Log.Info("the callback listens", "event", "listening", "addr", l.Addr().String(), "callback_url", f.o.Callback)
	}

	running, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = s.Run(running) }()
	handed := make(chan error, 1)
	go func() { handed <- f.handOn(running, s, cmd.OutOrStdout(), cmd.ErrOrStderr()) }()
	select {
	case err = <-handed:
		stop()
	case err = <-l.Failed:
		stop()
		err = errors.Join(err, <-handed)
	}
	<-ended
	if f.leave && err == nil {
		err = unsubscribe(cmd.Context(), s)
	}
	l.Stop(ctx, drain) // before the state is closed
	return err
}

// setClient sets the client of the requests, which sends the tokens. CloseClient ends it.
func (f *listenFlags) setClient() (closeClient func(), err error) {
	tokens, err := readTokens(f.tokens)
	if err != nil {
		return nil, err
	}
	if f.o.Allow, err = f.call.Ranges(); err != nil {
		return nil, err
	}
	client, err := egress.New(egress.Options{Allow: f.o.Allow, UserAgent: "rssub"})
	if err != nil {
		return nil, cli.Fail(cli.ExitUsage, "--allow-cidr: %w", err)
	}
	f.o.Client = authorized{client, tokens}
	return client.CloseIdleConnections, nil
}

// unsubscribe ends the subscription, and waits a while for the hub to verify that.
func unsubscribe(ctx context.Context, s *subscriber.Subscriber) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	if err := s.Unsubscribe(ctx); err != nil {
		return cli.Fail(cli.ExitUnreachable, "the subscription could not be ended, and lasts until its lease ends: %w", err)
	}
	for {
		st, err := s.Status()
		if err != nil {
			return err
		}
		active := false
		for _, sub := range st.Subscriptions {
			active = active || sub.State == "active"
		}
		if !active {
			return nil
		}
		if !clock.Sleep(ctx, 100*time.Millisecond) {
			return cli.Fail(cli.ExitPartial, "the hub accepted the request to unsubscribe, and has not verified it yet")
		}
	}
}

// handOn prints notifications, or runs a command for each change, until ctx ends.
func (f *listenFlags) handOn(ctx context.Context, s *subscriber.Subscriber, out, errOut io.Writer) error {
	exec := command{line: f.command, out: cli.Raw(out), errOut: cli.Raw(errOut)}
	var n *notification
	for c := range s.Changes(ctx) {
		switch {
		case f.command != "":
			if !exec.untilDone(ctx, f.o.Log, &c) {
				return nil
			}
		default:
			if n == nil {
				n = newNotification(&c)
			}
			n.add(&c)
			if !c.Last && len(n.Changes) < maxLine {
				continue
			}
			if err := cli.WriteJSON(out, n); err != nil {
				return cli.Fail(cli.ExitFailure, "writing to stdout: %w", err)
			}
			n = nil
		}
		if err := s.Commit(c.Cursor); err != nil {
			return err
		}
	}
	return s.Err()
}

// maxLine is how many changes one line has at most; a notification of more takes
// several.
const maxLine = 50_000

// notification is one line of output.
type notification struct {
	Source string `json:"source,omitempty"` // of --on-change: its name or address
	File   string `json:"file,omitempty"`   // of --on-change: the path of the file in the copy
	cli.NotificationJSON
}

func newNotification(c *subscriber.Change) *notification {
	n := &notification{NotificationJSON: cli.NotificationJSON{
		NotificationID: c.NotificationID, From: c.From, Until: c.Until, Repaired: c.Repaired, NeedsBaseline: c.NeedsBaseline,
	}}
	if c.Content != nil {
		n.SetContent(c.MediaType, c.Content)
	}
	return n
}

func (n *notification) add(c *subscriber.Change) {
	if c.Loc != "" {
		n.Changes = append(n.Changes, cli.NewChangeJSON(&c.Entry))
	}
}
