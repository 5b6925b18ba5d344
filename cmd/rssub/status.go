package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/internal/base/quantity"
	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/subscriber"
	"github.com/rshub/rshub/subscriber/destination"
)

func statusCommand() *cobra.Command {
	var dir, stateDir, file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status --dir DIR",
		Short: "Show leases, how much was received, and gaps",
		Long: `Shows the state that rssub follow, sync or listen stored in its folder. These commands
may be running. It shows the leases, until when everything was received, what was
missed and how it was repaired, and counts. For a copy it also shows resources that
could not be fetched, and deletions that --max-delete delays.

With --sources it shows a line for each Source that rssub follow --sources has in
the folder, or would have.`,
		Example: `  rssub status --dir ./copy
  rssub status --dir /srv/copies --sources sources.yaml
  rssub status --state-dir /var/lib/rssub`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file != "" {
				f := copyFlags{dir: dir, stateDir: stateDir, sources: file}
				return f.printFleet(cmd, asJSON)
			}
			if stateDir == "" {
				stateDir = filepath.Join(dir, ".rssub")
			}
			all, err := statuses(stateDir)
			if all == nil {
				return err
			}
			return errors.Join(printStatuses(cmd.OutOrStdout(), all, asJSON), err)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", ".", "the `FOLDER` of the copy")
	cmd.Flags().StringVar(&stateDir, "state-dir", "", "the `FOLDER` of the state (default: .rssub in --dir)")
	cmd.Flags().StringVar(&file, "sources", "", "the YAML `FILE` with many Sources; --dir is the folder with their copies then")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// statuses reads the status of the folder, and of the sets of a copy: none if it has no baseline yet. With an error it returns
// what could be read; nil: nothing.
func statuses(dir string) ([]destination.SetStatus, error) {
	all, err := destination.ReadStatus(dir)
	if errors.Is(err, fs.ErrNotExist) && len(all) == 0 {
		return nil, cli.Fail(cli.ExitNotFound, "%w; name the folder of a copy with --dir, or the folder of the state with --state-dir", err)
	}
	if errors.Is(err, fs.ErrNotExist) { // of a set whose stream has not begun
		err = nil
	}
	st, missing := subscriber.ReadStatus(dir)
	switch {
	case missing == nil:
		all = slices.Insert(all, 0, destination.SetStatus{Status: st})
	case !errors.Is(missing, fs.ErrNotExist):
		err = cmp.Or(err, missing)
	}
	if len(all) == 0 && err == nil && destination.IsState(dir) {
		return []destination.SetStatus{}, nil
	}
	if _, many := destination.ReadFleet(dir); many == nil && len(all) == 0 {
		return nil, cli.Fail(cli.ExitNotFound, "%s has the state of many Sources; name their file with --sources, or the folder of one copy with --dir", dir)
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		err = cli.Fail(cli.ExitFailure, "%w; run the command as the user that rssub runs as", err)
	case err == nil && len(all) == 0:
		err = cli.Fail(cli.ExitNotFound, "%w", missing)
	}
	return all, err
}

// printStatuses prints the status of each set.
func printStatuses(w io.Writer, all []destination.SetStatus, asJSON bool) error {
	if asJSON {
		return printJSON(w, all)
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "The copy has no baseline yet: its first sync is under way, or was interrupted. If no rssub sync or follow is running, start one; it goes on.")
		return err
	}
	for i := range all {
		if i > 0 {
			_, _ = fmt.Fprintln(w) // the next write reports errors
		}
		if err := printStatus(w, &all[i]); err != nil {
			return err
		}
	}
	return nil
}

func printStatus(w io.Writer, st *destination.SetStatus) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if st.Set != "" {
		row(out, "set", st.Set)
	}
	if st.Pinned != nil {
		row(out, "copied is", *st.Pinned)
	}
	if !st.BaselineAt.IsZero() {
		row(out, "baseline as of", stamp(st.BaselineAt))
	}
	if st.Selection != nil {
		row(out, "selection", selectionText(*st.Selection))
	}
	if st.DeletionsHeld > 0 {
		row(out, "not deleted", fmt.Sprintf("%d, delayed by --max-delete; if the Source is right, run sync with a larger --max-delete", st.DeletionsHeld))
		for _, url := range st.Held {
			row(out, "  held", url)
		}
	}
	if st.Failed > 0 {
		row(out, "failed", fmt.Sprintf("%d unavailable; tried again", st.Failed))
	}
	if !st.AsOf.IsZero() {
		printStream(out, &st.Status)
	}
	if st.Framework != nil {
		row(out, "new documents", "are announced by the topic below")
		printStream(out, st.Framework)
	}
	return out.Flush()
}

// printStream prints how far a stream of changes is.
func printStream(out io.Writer, st *subscriber.Status) {
	if st.Topic != "" {
		row(out, "topic", st.Topic)
	}
	if st.Way != "" {
		row(out, "way", st.Way)
	}
	if st.Stream != nil {
		row(out, "stream", describeStream(st.Stream))
	}
	for _, s := range st.Subscriptions {
		row(out, "subscription", describe(&s))
	}
	if st.Topic != "" && len(st.Subscriptions) == 0 && (st.Way == "" || st.Way == subscriber.ViaCallback) {
		row(out, "subscription", "none yet")
	}
	row(out, "received until", stamp(st.Until))
	row(out, "to be handed on", fmt.Sprintf("%s, %s; %d more wait for what comes before them", notifications(uint64(st.Counts.Batches)), quantity.BytesText(st.Counts.Backlog), st.Counts.Held)) //nolint:gosec // a count
	row(out, "received", fmt.Sprintf("%s (%d before their turn), %s; the hub was asked %s to deliver later",
		notifications(st.Counts.Received), st.Counts.Early, quantity.Count(st.Counts.Duplicates, "duplicate", "duplicates"), quantity.Count(st.Counts.Postponed, "time", "times")))
	for _, why := range slices.Sorted(maps.Keys(st.Counts.Refused)) {
		row(out, "refused", fmt.Sprintf("%d: %s", st.Counts.Refused[why], why))
	}
	row(out, "gaps", len(st.Gaps))
	for _, g := range st.Gaps {
		row(out, "  "+g.State, fmt.Sprintf("%s to %s, %s, %s%s", stamp(g.From), stamp(g.Until), g.Why, quantity.Count(g.Changes, "change", "changes"), unproven(g)))
	}
	if st.Trouble != "" {
		row(out, "trouble", st.Trouble)
	}
	row(out, "as of", stamp(st.AsOf))
}

func notifications(n uint64) string { return quantity.Count(n, "notification", "notifications") }

func unproven(g subscriber.Gap) string {
	if g.Unproven {
		return ", not proven to be all"
	}
	return ""
}

// describe returns the state of a subscription as a person reads it.
func describe(s *subscriber.SubscriptionStatus) string {
	parts := []string{s.State, "at " + s.Hub}
	if s.State == "active" {
		parts = append(parts, "until "+stamp(s.ExpiresAt), "to be renewed "+stamp(s.RenewAt))
	}
	if s.Denied != "" {
		parts = append(parts, "denied: "+s.Denied)
	}
	if !s.Signed {
		parts = append(parts, "deliveries are not signed")
	}
	return strings.Join(parts, ", ")
}

// describeStream returns the state of a stream as a person reads it.
func describeStream(s *subscriber.StreamStatus) string {
	parts := []string{s.State}
	if s.Hub != "" {
		parts = append(parts, "at "+s.Hub)
	}
	parts = append(parts, "since "+stamp(s.Since), "last event "+stamp(s.LastEvent), quantity.Count(s.Reconnects, "reconnect", "reconnects"))
	if s.State != subscriber.StreamOpen && s.Why != "" {
		parts = append(parts, s.Why)
	}
	return strings.Join(parts, ", ")
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}
