package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/internal/base/web"
	"github.com/rshub/rshub/internal/engine/figures"
	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/publisher"
	"github.com/rshub/rshub/publisher/relay"
	"github.com/rshub/rshub/publisher/source"
)

// relayFlags are those of `rspub relay`: those of a Source, and where changes come from.
type relayFlags struct {
	serveFlags
	local    cli.LocalFlags
	stdin    bool
	prefixes []string
}

func relayCommand() *cobra.Command {
	f := relayFlags{serveFlags: serveFlags{every: cli.Span(publisher.DefaultEvery), drain: cli.Span(10 * time.Second)}}
	cmd := &cobra.Command{
		Use: "relay", Short: "Publish the changes that an application reports", Args: cli.NoArguments,
		Long: `Accepts changes from an application in any language, and publishes them: it pushes
them to hubs, tries again while a hub is away, and serves the topic and the Change
Lists. The resources themselves stay where the application serves them.

The application POSTs a form or JSON to --listen, or writes lines of JSON to standard
input (--stdin) and reads an answer for each. An answer says that the change is on
disk. If no answer arrives, the application repeats the request with the same
Idempotency-Key (in lines: the same "id"): within 72 hours a repeated request gets the
first answer, and is not published twice.

Others reach the topic and the documents at --public-listen, below --public-url.
Nobody should reach --listen except the application. A listener that others can reach
needs --token-file.

Runs until SIGTERM or SIGINT, or until the end of standard input with --stdin.`,
		Example: `  rspub relay --dev --hub http://localhost:8080/ --resource-url https://example.org/
  curl http://localhost:8091/ -d change=updated -d url=https://example.org/books/1

  rspub relay --listen unix:/run/rspub/relay.sock --public-url https://sync.example.org/ \
      --resource-url https://example.org/ --hub https://hub.example.org/ \
      --hub-token-file /etc/rspub/token --state-dir /var/lib/rspub`,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	f.local.Add(flags, "rspub", "relay", "8091", "the application hands over changes")
	flags.BoolVar(&f.stdin, "stdin", false, "read changes from standard input, a line of JSON each, and answer each with a line; without --listen from there alone")
	flags.StringArrayVar(&f.prefixes, "resource-url", nil, "`PREFIX` with which the URLs of resources begin; repeatable (default: the scheme and host of --public-url)")
	f.server.AddAs(flags, "public-", "8090", "at which hubs and subscribers read the topic and the documents")
	flags.StringVar(&f.publicURL, "public-url", "", "`URL` under which others reach --public-listen (default http://localhost:<port>/, or https with --public-tls-cert)")
	flags.StringVar(&f.stateDir, "state-dir", "./rspub-state", "`FOLDER` for what has to outlive a restart")
	f.hubs.addAs(flags, "hub-")
	flags.Var(cli.Positive(&f.every), "every", "`TIME` that a change waits for others at most before it is pushed")
	f.addOutbox(flags, "changes are refused (503)")
	f.schedule.rotate, f.schedule.rotateAt, f.schedule.keepChanges = cli.Span(30*24*time.Hour), 50_000, -1
	f.schedule.addChangeLists(flags)
	f.call.Add(flags, "for a laptop: --public-listen is 127.0.0.1:8090, hubs may be on loopback and private addresses")
	f.resume.add(flags)
	flags.Var(&f.drain, "drain", "`TIME` that answers under way get when it ends")
	flags.BoolVar(&f.json, "json", false, "print a JSON object a line for each change, POST and document; not with --stdin")
	f.log.Add(flags)
	return cmd
}

func (f *relayFlags) run(cmd *cobra.Command) error {
	r := &relayed{flags: f, in: cmd.InOrStdin(), out: cmd.OutOrStdout(), listens: !f.stdin || cmd.Flags().Changed("listen")}
	return f.publish(cmd, f.options, r)
}

// options are those of the Source, but for its URL.
func (f *relayFlags) options(_ *cobra.Command, log *slog.Logger) (o source.Options, err error) {
	if f.json && f.stdin {
		return o, cli.Fail(cli.ExitUsage, "--json and --stdin both write to standard output: leave one of them out")
	}
	for _, p := range f.prefixes {
		if u, err := url.Parse(p); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || !strings.Contains(p, u.Host+"/") {
			return o, cli.Fail(cli.ExitUsage, "--resource-url %q cannot be the beginning of URLs; write it with https:// and at least a / after the host, such as https://example.org/", p)
		} else if web.HasDotSegment(u) {
			return o, cli.Fail(cli.ExitUsage, "--resource-url %q has a dot segment (/./ or /../); write the path without", p)
		}
	}
	hubs, err := f.hubs.resolve()
	if err != nil {
		return o, err
	}
	client, err := clientOf(&f.call)
	if err != nil {
		return o, err
	}
	schedule := f.schedule.schedule()
	schedule.Archive = -1
	return source.Options{
		StateDir: f.stateDir, Sets: []source.Set{{Announced: true}}, Hubs: hubs, Every: time.Duration(f.every), MaxStored: f.outbox,
		Schedule: schedule, Client: client, Log: log,
	}, nil
}

// relayed is what is beside the Source of a relay: where the application hands over its changes.
type relayed struct {
	flags   *relayFlags
	in      io.Reader
	out     io.Writer
	listens bool

	log      *slog.Logger
	server   *cli.Local // nil: there is no listener
	outcomes figures.Counters[relay.Outcome]
}

func (r *relayed) measure(set *figures.Set) {
	r.outcomes = figures.Family(set, "rspub_relay_requests_total", "Requests of the application, and lines of --stdin, by what became of them; repeated: they were recorded before.", "outcome", relay.Outcomes()...)
}

func (r *relayed) open(ctx context.Context, log *slog.Logger) (err error) {
	if r.log = log; r.listens {
		r.server, err = r.flags.local.Open(ctx, "changes", log)
	}
	return err
}

func (r *relayed) close(ctx context.Context) {
	if r.server != nil {
		r.server.Stop(ctx, 0)
	}
}

// run implements beside.
func (r *relayed) run(ctx context.Context, s *source.Source) error {
	o := relay.Options{
		Record: func(all []source.Announcement) ([]source.Receipt, error) {
			receipts, err := s.Announce("", all...)
			afterRecord()
			return receipts, err
		},
		Prefixes: r.flags.prefixes, Counted: func(o relay.Outcome) { r.outcomes.One(o) },
	}
	if len(o.Prefixes) == 0 {
		u, _ := url.Parse(r.flags.publicURL) // the Source parsed it
		o.Prefixes = []string{u.Scheme + "://" + u.Host + "/"}
	}
	failed := make(chan error, 1)
	if r.server != nil {
		o.Token, o.Socket = r.server.Token(), r.server.Socket != ""
		o.Hint = r.hint(o.Prefixes)
		r.server.Serve(ctx, relay.New(o).Handler())
		r.log.Info("changes are accepted", "event", "relay_listening", "address", r.server.At(), "resources", strings.Join(o.Prefixes, " "))
		failed = r.server.Failed
	}
	lines := make(chan error, 1)
	if r.flags.stdin {
		go func() { lines <- relay.New(o).Lines(r.in, r.out) }()
	}
	err := error(nil)
	select {
	case <-ctx.Done():
	case err = <-failed:
		err = fmt.Errorf("accepting changes: %w", err)
	case err = <-lines:
		if err == nil {
			err = r.flush(ctx, s)
		}
	}
	if r.server != nil {
		r.server.Stop(ctx, time.Duration(r.flags.drain))
	}
	return err
}

// flush waits at the end of standard input until hubs have everything.
func (r *relayed) flush(ctx context.Context, s *source.Source) error {
	drain := time.Duration(r.flags.drain)
	ctx, cancel := context.WithTimeoutCause(ctx, drain, fmt.Errorf("--drain %v was not enough", drain))
	defer cancel()
	if err := s.Flush(ctx); err != nil {
		return cli.Fail(cli.ExitPartial, "all changes are on disk, and the next start with this --state-dir sends the rest: %w", err)
	}
	return nil
}

// hint is what GET answers.
func (r *relayed) hint(prefixes []string) string {
	curl := "curl " + r.server.At()
	if r.server.Socket != "" {
		curl = "curl --unix-socket " + r.server.Socket + " http://localhost/"
	}
	if r.server.Token() != nil {
		curl += ` -H "Authorization: Bearer $TOKEN"`
	}
	return fmt.Sprintf(`This is rspub relay. It publishes the changes that are POSTed here.

A form:  %[1]s -d change=updated -d url=%[2]sbooks/1
JSON:    %[1]s -H 'Content-Type: application/json' \
           -d '{"change":"updated","url":"%[2]sbooks/1"}'

JSON may be a list of changes. Fields: change (created, updated or deleted) and url, and
if they are known lastmod, length, hash, type, encoding and, in JSON, links.
The answer says that the changes are on disk. Give each request an Idempotency-Key, and
repeat it with the same key if there is no answer.
`, curl, prefixes[0])
}

var _ beside = (*relayed)(nil)

// afterRecord is called between the disk and the answer. A test kills the process there.
var afterRecord = func() {}
