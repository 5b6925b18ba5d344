package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/quantity"
	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/publisher"
	"github.com/rshub/rshub/resourcesync"
)

// publishFlags are those of `rspub publish`.
type publishFlags struct {
	hubs                  hubFlags
	call                  cli.CallFlags
	topic, list, location string
	changed               [][]string // URLs by resourcesync.ChangeTypes
	from, until           string
	timeout               cli.Span
	dryRun, json          bool
}

// changeFlags names the flags for each type of change.
func changeFlags() string {
	var flags []string
	for _, change := range resourcesync.ChangeTypes() {
		flags = append(flags, "--"+string(change))
	}
	return strings.Join(flags, ", ")
}

func publishCommand() *cobra.Command {
	f := publishFlags{timeout: cli.Span(30 * time.Second)}
	cmd := &cobra.Command{
		Use: "publish [FILE|-]", Short: "Post one notification to a hub", Args: cli.AtMost("file"),
		Long: `Posts one change notification, once. It is the document FILE, standard input (-), or a
document that the command builds: it then has the resources that ` + changeFlags() + `
name, which changed between --from and --until.

Intervals must follow each other: --from is the --until of the notification before.
A hub accepts a notification if its topic serves the same bytes, or if it has a token
or secret that the hub knows. A Source that publishes all the time uses rspub serve,
which calculates the intervals itself and retries.

Exits with 0, 1 if the notification is wrong, 4 if a hub refuses it, 5 if a hub can't
be reached or can't accept it now, 6 if some hubs have it and some don't.`,
		Example: `  rspub publish --hub https://hub.example.org/ --token-file token \
      --topic https://example.org/changes/ --from 2026-11-21T09:00:00Z \
      --updated https://example.org/data/book1
  rspub publish --hub https://hub.example.org/ \
      --topic https://example.org/changes/ notification.xml`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags := cmd.Flags()
	f.hubs.add(flags)
	flags.StringVar(&f.topic, "topic", "", "`URL` of the topic")
	f.changed = make([][]string, len(resourcesync.ChangeTypes()))
	for i, change := range resourcesync.ChangeTypes() {
		flags.StringArrayVar(&f.changed[i], string(change), nil, fmt.Sprintf("`URL` of a resource that was %s; repeatable", change))
	}
	flags.StringVar(&f.from, "from", "", "`DATETIME` at which the interval begins, such as 2026-11-21T09:00:00Z")
	flags.StringVar(&f.until, "until", "", "`DATETIME` at which the interval ends (default now)")
	flags.StringVar(&f.list, "capability-list", "", "`URL` of the Capability List that the topic is in")
	flags.StringVar(&f.location, "content-location", "", "`URL` of an immutable copy below the topic, with which the hub may compare the notification")
	flags.Var(cli.Positive(&f.timeout), "timeout", "time limit for one hub, as a `TIME` such as 30s")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print the notification and post nothing")
	flags.BoolVar(&f.json, "json", false, "print one JSON object for each hub")
	f.call.Add(flags, "allow hubs on loopback and private addresses")
	return cmd
}

func (f *publishFlags) run(cmd *cobra.Command, args []string) error {
	body, err := f.body(cmd.InOrStdin(), args)
	if err != nil {
		return err
	}
	n, err := resourcesync.CheckNotification(bytes.NewReader(body), resourcesync.DefaultLimits)
	if err != nil {
		return cli.Fail(cli.ExitFailure, "a hub would refuse this notification: %w", err)
	}
	if f.dryRun {
		_, err := cli.Document(cmd.OutOrStdout()).Write(body)
		return err
	}
	if f.topic == "" || len(f.hubs.hubs) == 0 {
		return cli.Fail(cli.ExitUsage, "name the hub with --hub and the topic with --topic")
	}
	hubs, err := f.hubs.resolve()
	if err != nil {
		return err
	}
	for _, u := range []struct{ flag, url string }{{"--topic", f.topic}, {"--capability-list", f.list}, {"--content-location", f.location}} {
		if err := cli.CheckURL(u.flag, u.url); u.url != "" && err != nil {
			return err
		}
	}
	client, err := clientOf(&f.call)
	if err != nil {
		return err
	}
	var failures []error
	for _, h := range hubs {
		if h.InClear() {
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "rspub publish: the token goes to %s over the network unencrypted; use an https URL of the hub\n", h.URL)
		}
		x := publisher.Posted{Hub: h.URL, Topic: f.topic, From: n.From, Until: n.Until, Entries: n.Entries}
		if x.Receipt, x.Err = f.post(cmd.Context(), client, h, body); x.Err != nil {
			x.Err = f.explain(x.Err)
			failures = append(failures, x.Err)
		}
		if err := f.print(cmd.OutOrStdout(), x); err != nil {
			return err
		}
	}
	return summary(failures, len(hubs))
}

// summary is the error of all hubs together.
func summary(failures []error, hubs int) error {
	if len(failures) == 0 {
		return nil
	}
	code := cli.ExitPartial
	if len(failures) == hubs {
		var e *cli.Error
		if errors.As(failures[0], &e) {
			code = e.Code
		}
	}
	return cli.Fail(code, "%w", errors.Join(failures...))
}

func (f *publishFlags) post(ctx context.Context, client publisher.Doer, h publisher.Hub, body []byte) (publisher.Receipt, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(f.timeout))
	defer cancel()
	return publisher.Post(ctx, client, h, publisher.Notification{Topic: f.topic, Body: body, Location: f.location, CapabilityList: f.list})
}

// body is the notification to post.
func (f *publishFlags) body(stdin io.Reader, args []string) ([]byte, error) {
	built := slices.ContainsFunc(f.changed, func(urls []string) bool { return len(urls) > 0 })
	switch {
	case len(args) == 1 && (built || f.from != "" || f.until != ""):
		return nil, cli.Fail(cli.ExitUsage, "give a document or the changes of which to build one, not both")
	case len(args) == 0 && !built && f.from == "":
		return nil, cli.Fail(cli.ExitUsage, "name a document, or - for standard input, or the resources that changed: %s URL", changeFlags())
	case len(args) == 0:
		return f.build(time.Now())
	}
	in := stdin
	if args[0] != "-" {
		file, err := os.Open(args[0])
		if errors.Is(err, os.ErrNotExist) {
			return nil, cli.Fail(cli.ExitNotFound, "there is no file %s; name an existing file, or - for standard input", args[0])
		}
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }() // it is only read
		in = file
	}
	return io.ReadAll(io.LimitReader(in, resourcesync.DefaultLimits.Bytes+1)) // one byte too many is refused
}

// build makes a notification from the flags. Its entries have no time, because no flag says when
// each change happened.
func (f *publishFlags) build(now time.Time) ([]byte, error) {
	if f.from == "" {
		return nil, cli.Fail(cli.ExitUsage, "--from is missing: the --until of the notification before, or for the first notification any time before the changes")
	}
	from, err := datetime("--from", f.from)
	if err != nil {
		return nil, err
	}
	until := now.UTC().Truncate(time.Microsecond)
	if f.until != "" {
		if until, err = datetime("--until", f.until); err != nil {
			return nil, err
		}
	}
	h := resourcesync.Head{Capability: resourcesync.ChangeNotification, From: from, Until: until}
	if f.list != "" {
		h.Links = []resourcesync.Link{{Rel: "up", Href: f.list}}
	}
	var body bytes.Buffer
	w, err := resourcesync.NewWriter(&body, h, resourcesync.WriteOptions{})
	if err != nil {
		return nil, cli.Fail(cli.ExitUsage, "%w", err)
	}
	for i, change := range resourcesync.ChangeTypes() {
		for _, url := range f.changed[i] {
			if err := w.Write(resourcesync.Entry{Loc: url, Change: change}); err != nil {
				return nil, cli.Fail(cli.ExitUsage, "--%s %s: %w", change, url, err)
			}
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return body.Bytes(), nil
}

func datetime(flag, text string) (time.Time, error) {
	t, err := resourcesync.ParseDatetime(text)
	if err != nil {
		return t, cli.Fail(cli.ExitUsage, "%s: %w", flag, err)
	}
	return t, nil
}

// explain gives an error its exit code. It adds what to do, unless the hub says so itself.
func (f *publishFlags) explain(err error) error {
	var refused *publisher.RefusedError
	switch {
	case errors.As(err, &refused):
	case egress.DevWouldAllow(err):
		return advise(cli.ExitRefused, err, egress.DevHint)
	case egress.Classify(err) == egress.FailureRefused:
		return cli.Fail(cli.ExitRefused, "%w", err)
	default:
		return advise(cli.ExitUnreachable, err, "Is this the hub's public URL, and is it running?")
	}
	switch code := refused.Status; {
	case code == http.StatusTooManyRequests, code >= 500 && code != http.StatusNotImplemented:
		return advise(cli.ExitUnreachable, err, "Post the same notification again later")
	case code == http.StatusConflict && !refused.ExpectedFrom.IsZero():
		return advise(cli.ExitRefused, err, "Let it begin at "+resourcesync.FormatDatetime(refused.ExpectedFrom)+" (--from, or from in the document), and add the changes since then")
	case code == http.StatusUnauthorized:
		return advise(cli.ExitRefused, err, "The credential is in --token-file or --secret-file")
	case code == http.StatusForbidden && refused.Type == "no-credential":
		return advise(cli.ExitRefused, err, "Give the credential with --token-file or --secret-file")
	case code == http.StatusForbidden && refused.Type == "content-mismatch":
		return advise(cli.ExitRefused, err, "Let the topic serve exactly these bytes before you post them, or name a copy of them with --content-location, or give a token or secret that covers the topic")
	case code == http.StatusForbidden && refused.Type == "":
		return advise(cli.ExitRefused, err, "Give a token or secret that covers the topic with --token-file or --secret-file, or let the topic serve these bytes, with Link headers that name itself and this hub")
	case code == http.StatusNotFound, code == http.StatusMethodNotAllowed, code == http.StatusNotImplemented, code/100 == 3:
		return advise(cli.ExitRefused, err, "Is this the hub's own public URL?")
	}
	return cli.Fail(cli.ExitRefused, "%w", err)
}

// advise adds a sentence to an error. The error may end with a full stop or not.
func advise(code int, err error, what string) error {
	if !strings.HasSuffix(err.Error(), ".") {
		what = ". " + what
	} else {
		what = " " + what
	}
	return cli.Fail(code, "%w%s", err, what)
}

// print reports the result at one hub. Errors for people are printed at the end.
func (f *publishFlags) print(out io.Writer, x publisher.Posted) error {
	what := "accepted"
	switch {
	case f.json:
		return cli.WriteJSON(out, postEvent(x))
	case x.Err != nil:
		return nil
	case x.Receipt.Duplicate:
		what = "had it before"
	}
	_, err := fmt.Fprintln(out, cli.Line(fmt.Sprintf("%s %s: %s from %s until %s, id %s", x.Hub, what, quantity.Count(x.Entries, "change", "changes"),
		resourcesync.FormatDatetime(x.From), resourcesync.FormatDatetime(x.Until), x.Receipt.ID)))
	return err
}
