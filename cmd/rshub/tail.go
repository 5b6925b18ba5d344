package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/quantity"
	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber"
)

const (
	// mostTailed is how many topics are read at once.
	mostTailed = 32
	// shownChanges is how many changes of a notification people see.
	shownChanges = 5
)

// tail is `rshub topic tail`.
type tail struct {
	since, hub, tokenFile string
	json                  bool
	call                  cli.CallFlags
	several               bool // topics, so each line names its own

	mu       sync.Mutex // for both streams
	out, err io.Writer
}

func tailCommand() *cobra.Command {
	var t tail
	cmd := &cobra.Command{
		Use: "tail URL...", Short: "Print the notifications of topics as the hub accepts them",
		Long: `Prints the notifications of topics as the hub accepts them, until Ctrl-C. It reads the
stream of the hub that each topic names, with up to 32 topics at once. If the stream
breaks, it comes back and skips nothing.

A notification begins with the time at which the hub received it, its changes
(` + resourcesync.ChangeSigns() + `) and its interval. The first ` + fmt.Sprint(shownChanges) + ` changes follow.
GAP says that the hub does not have the notifications of an interval, and why.
--json prints each as one line with all its changes, as ` + "`rssub listen`" + ` does, with the
members topic and received_at, and gap for a gap.

Nothing is stored; ` + "`rssub listen`" + ` and ` + "`rssub follow`" + ` remember how far they were. Over plain
http anyone on the way can change what is shown, and no token is sent, except on this
machine.

Exits 0 at Ctrl-C, 3 if there is no such topic or it names no hub, 4 if the hub has no
stream or refuses, 5 if the topic or the hub can't be reached at the start.`,
		Example: `  rshub topic tail https://example.org/changes/
  rshub topic tail https://example.org/changes/ --since 2h
  rshub topic tail http://localhost:8090/changes/ --dev --since earliest --json | jq -r '.changes[]?.url'
  rshub topic tail https://example.org/changes/ --hub https://hub.example/ --token-file token`,
		RunE: func(cmd *cobra.Command, args []string) error { return t.run(cmd, args) },
	}
	flags := cmd.Flags()
	flags.Var(cli.After(&t.since), "since", "begin with the notifications that end after this `TIME`: a datetime, how long ago as in 2h, or earliest for all that the hub has (default: what comes from now on)")
	flags.StringVar(&t.hub, "hub", "", "`URL` of the hub to ask (default: the one that each topic names)")
	flags.StringVar(&t.tokenFile, "token-file", "", "`FILE` with the bearer token of a reader; needs --hub, so that no topic can ask for the token")
	flags.BoolVar(&t.json, "json", false, "print one JSON object a line")
	t.call.Add(flags, "allow loopback and private addresses")
	return cmd
}

func (t *tail) run(cmd *cobra.Command, topics []string) error {
	switch {
	case len(topics) == 0:
		return cli.Fail(cli.ExitUsage, "which topic? Give the URL of at least one: %s", cmd.UseLine())
	case len(topics) > mostTailed:
		return cli.Fail(cli.ExitUsage, "%d topics are too many; give at most %d", len(topics), mostTailed)
	case t.tokenFile != "" && t.hub == "":
		return cli.Fail(cli.ExitUsage, "--token-file needs --hub, so that no topic can name a hub that gets the token")
	}
	for _, topic := range topics {
		if err := cli.CheckAddress("the topic", topic); err != nil {
			return err
		}
	}
	if t.hub != "" {
		if err := cli.CheckAddress("--hub", t.hub); err != nil {
			return err
		}
	}
	token, err := cli.ReadCredential("--token-file", t.tokenFile)
	if err != nil {
		return err
	}
	allow, err := t.call.Ranges()
	if err != nil {
		return err
	}
	client, err := egress.New(egress.Options{UserAgent: "rshub-tail", Allow: allow})
	if err != nil {
		return cli.Fail(cli.ExitUsage, "--allow-cidr: %w", err)
	}
	defer client.CloseIdleConnections()
	t.out, t.err, t.several = cmd.OutOrStdout(), cmd.ErrOrStderr(), len(topics) > 1
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var reading sync.WaitGroup
	for _, topic := range topics {
		o := subscriber.StreamOptions{Topic: topic, Hub: t.hub, After: t.since, Token: token.Get(), Client: client}
		o.Insecure = o.Token == ""
		reading.Go(func() {
			if err := t.follow(ctx, o); err != nil {
				cancel(err)
			}
		})
	}
	reading.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// follow prints what the stream of a topic has until ctx ends, or an error of which a person has
// to know comes.
func (t *tail) follow(ctx context.Context, o subscriber.StreamOptions) error {
	reached, opened, trouble := false, false, ""
	o.Opened = func(topic, hub string) {
		switch {
		case !opened:
			t.say("Reading %s from %s. Ctrl-C ends it.", topic, hub)
		case trouble != "":
			t.say("Reading %s again.", topic)
		}
		reached, opened, trouble = true, true, ""
	}
	for n, err := range subscriber.Notifications(ctx, o) {
		if err == nil {
			if err = t.print(n); err != nil {
				return err
			}
			continue
		}
		now, fatal := explain(err, o, reached)
		if fatal != nil {
			return fatal
		}
		reached = true // what is not fatal at first is an answer of the hub
		if now != trouble {
			t.say("%s", now)
		}
		trouble = now
	}
	return nil
}

// explain returns the error that ends the command, or what people see while it tries again. Reached
// says that the hub answered before.
func explain(err error, o subscriber.StreamOptions, reached bool) (text string, fatal error) {
	status := new(subscriber.StatusError)
	answered := errors.As(err, &status)
	var refused *egress.RefusedError
	switch {
	case status.Problem == "unknown-topic":
		return "The hub has nothing of " + o.Topic + " yet. Check that URL byte by byte, or wait for the first notification.", nil
	case errors.Is(err, subscriber.ErrInsecure):
		return "", cli.Fail(cli.ExitRefused, "the token would go to %s over plain http, where anyone on the way can read it; use https", o.Hub)
	case status.Status == http.StatusUnauthorized && o.Token == "":
		return "", cli.Fail(cli.ExitRefused, "%w\nGive the token of a reader with --hub and --token-file; the operator makes one with `rshub token create NAME --reads PATTERN`", err)
	case status.Status == http.StatusUnauthorized, status.Status == http.StatusForbidden, errors.Is(err, subscriber.ErrNoStream), errors.As(err, &refused):
		return "", cli.Fail(cli.ExitRefused, "%w", err)
	case errors.Is(err, subscriber.ErrNoHub):
		return "", cli.Fail(cli.ExitNotFound, "%w\nIs it the URL of a topic? If so, name its hub with --hub", err)
	case reached:
		return fmt.Sprintf("%v; trying again.", err), nil
	case status.Status == http.StatusNotFound || status.Status == http.StatusGone:
		return "", cli.Fail(cli.ExitNotFound, "%w\nIs it the URL of a topic? If so, name its hub with --hub", err)
	case answered:
		return "", cli.Fail(cli.ExitRefused, "%w", err)
	case subscriber.Away(err):
		return "", cli.Fail(cli.ExitUnreachable, "%w", err)
	default:
		return "", err
	}
}

// say prints a message for people.
func (t *tail) say(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = fmt.Fprintln(t.err, cli.Line(fmt.Sprintf(format, args...))) // there is nowhere else to say it
}

// print prints what came.
func (t *tail) print(n *subscriber.Notification) error {
	line, counts, err := tailed(n)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.json {
		if err = cli.WriteJSON(t.out, line); err != nil {
			err = cli.Fail(cli.ExitFailure, "writing to stdout: %w", err)
		}
		return err
	}
	var text strings.Builder
	add := func(format string, args ...any) {
		text.WriteString(cli.Line(fmt.Sprintf(format, args...)) + "\n")
	}
	add("%s", t.headline(n, counts, err == nil))
	for i, c := range line.Changes {
		if i == shownChanges {
			add("  ... and %d more", len(line.Changes)-i)
			break
		}
		add("  %s %s", c.Change, c.URL)
	}
	if _, err := io.WriteString(t.out, text.String()); err != nil {
		return cli.Fail(cli.ExitFailure, "writing to stdout: %w", err)
	}
	return nil
}

// tailed returns what came as a line of JSON, with counts of the changes. The error says that it is
// no document of changes.
func tailed(n *subscriber.Notification) (line cli.NotificationJSON, counts resourcesync.Counts, err error) {
	line = cli.NotificationJSON{Topic: n.Topic, NotificationID: n.ID, From: n.From, Until: n.Until, ReceivedAt: n.ReceivedAt, Gap: n.Gap}
	if n.Gap != "" {
		return line, counts, nil
	}
	for e, err := range n.Entries() {
		if err != nil {
			line.Changes = nil
			line.SetContent(n.MediaType, n.Document)
			return line, counts, err
		}
		counts.Add(e.Change)
		line.Changes = append(line.Changes, cli.NewChangeJSON(&e))
	}
	return line, counts, nil
}

// headline is the first line about what came.
func (t *tail) headline(n *subscriber.Notification, counts resourcesync.Counts, changes bool) string {
	var parts []string
	switch {
	case n.Gap != "":
		parts = []string{"GAP", interval(n), gapText(n.Gap)}
	case changes:
		parts = []string{stamp(n.ReceivedAt), counts.Signs(), interval(n)}
	default:
		parts = []string{stamp(n.ReceivedAt), n.MediaType + ", " + quantity.BytesText(int64(len(n.Document)))}
	}
	if t.several {
		parts = append(parts, n.Topic)
	}
	return strings.Join(parts, "  ")
}

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }

func interval(n *subscriber.Notification) string {
	switch from, until := resourcesync.FormatDatetime(n.From), resourcesync.FormatDatetime(n.Until); {
	case n.From.IsZero() && n.Until.IsZero():
		return "of unknown time"
	case n.From.IsZero():
		return "until " + until
	case n.Until.IsZero():
		return "from " + from
	default:
		return from + " to " + until
	}
}

// gapText says why there is a gap.
func gapText(reason string) string {
	switch reason {
	case "retention":
		return "retention: the hub keeps them no longer"
	case "rolled_back":
		return "rolled_back: the store of the hub lost its newest ones; some that were shown may come again"
	case "reset":
		return "reset: an operator let the topic begin anew"
	case "source":
		return "source: the hub never had them: the topic began later here, the Source left them out, or an operator let it begin anew"
	case "damaged":
		return "damaged: the hub cannot read them"
	case "removed":
		return "removed: an operator deleted the topic"
	default:
		return reason
	}
}
