package main

import (
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/internal/base/quantity"
	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/subscriber/destination"
)

func auditCommand() *cobra.Command {
	var f copyFlags
	var repair bool
	cmd := &cobra.Command{
		Use:   "audit SOURCE --dir DIR",
		Short: "Compare a copy with its Source, byte by byte",
		Long: `Reads every file of a copy and compares it with the lengths and hashes that the Source
gives. It reports files that are missing, that differ, that no list names, and that
cannot be checked because the Source gives no hash. The exit code is 6 if the copy is
not in sync, or if it missed changes that no list shows.

It can run while rssub follow or sync runs. Then it only reads, and checks a wrong file
a few times more, because that file may be changing. Stop the other command before you
use --repair.`,
		Example: `  rssub audit https://source.example/ --dir ./copy
  rssub audit https://source.example/ --dir ./copy --repair`,
		Args: cli.Exactly("Source"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := f.options(cmd, args[0])
			if err != nil {
				return err
			}
			if _, err := os.Stat(f.dir); err != nil {
				return cli.Fail(cli.ExitNotFound, "%w; name the folder of the copy with --dir", err)
			}
			o.Beside, o.Existing = !repair, true
			var endProgress func()
			o.Progress, endProgress = showProgress(cmd.ErrOrStderr())
			c, err := f.open(o)
			if err != nil {
				return err
			}
			defer func() { _ = c.Close() }()
			ctx, cancel := untilSignal(cmd)
			defer cancel()
			report, err := c.Audit(ctx, repair)
			endProgress()
			if err != nil {
				return explained(err, o.Log)
			}
			if err := printAudit(cmd.OutOrStdout(), report, f.json); err != nil {
				return err
			}
			if !report.InSync {
				return &cli.Error{Code: cli.ExitPartial}
			}
			return nil
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&repair, "repair", false, "fetch what is missing or differs, delete what is extra, and compare again")
	return cmd
}

// printAudit prints what an audit found.
func printAudit(w io.Writer, r destination.AuditReport, asJSON bool) error {
	if asJSON {
		return printJSON(w, r)
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	verdict := "in sync"
	if !r.InSync {
		verdict = "NOT in sync"
	}
	row(out, "the copy is", verdict)
	if !r.Pinned.IsZero() {
		row(out, "compared with", r.Pinned)
	}
	if !r.AsOf.IsZero() {
		row(out, "as of", r.AsOf.UTC().Format(time.RFC3339Nano))
	}
	if len(r.Sets) > 1 {
		printAudited(out, r.Sets)
	} else if len(r.Sets) == 1 && r.Sets[0].Unknown != "" {
		row(out, "unknown", r.Sets[0].Unknown)
	}
	for _, set := range r.Recorded {
		why := " has no Resource List"
		if !r.Pinned.IsZero() {
			why += " of this state"
		}
		row(out, "by record", set+why+": its files were compared with what the Source said when they were copied")
	}
	row(out, "equal", fmt.Sprintf("%d, %s read", r.Equal, quantity.BytesText(r.Bytes)))
	row(out, destination.Missing, r.Missing)
	row(out, destination.Differing, r.Differing)
	row(out, destination.Extra, r.Extra)
	row(out, destination.Unverifiable, r.Unverifiable)
	if r.LeftOut > 0 {
		row(out, "left out", leftOut(r.LeftOut, r.Selection)+"; they are not compared, and rssub sync --reselect deletes them")
	}
	if r.UnderWay > 0 {
		row(out, "under way", fmt.Sprintf("%d, which the other process is fetching now", r.UnderWay))
	}
	if p := r.Repaired; p != nil {
		row(out, "repaired", fmt.Sprintf("%d copied, %d deleted, %d failed, %d not deleted", p.Copied, p.Deleted, p.Failed, p.Held))
	}
	row(out, "took", r.Took.Round(time.Millisecond))
	for _, f := range r.Findings {
		row(out, f.What, first(f.Path, f.URL), f.Why)
	}
	if more := r.Missing + r.Differing + r.Extra + r.Unverifiable - len(r.Findings); more > 0 {
		row(out, "...", fmt.Sprintf("and %d more", more))
	}
	return out.Flush()
}

// printAudited prints a line for each of several sets.
func printAudited(out io.Writer, sets []destination.SetAudit) {
	for _, s := range sets {
		row(out, "set", s.Set)
		if !s.AsOf.IsZero() {
			row(out, "  as of", s.AsOf.UTC().Format(time.RFC3339Nano))
		}
		row(out, "  found", fmt.Sprintf("%d equal, %d missing, %d differing, %d unverifiable", s.Equal, s.Missing, s.Differing, s.Unverifiable))
		if s.Unknown != "" {
			row(out, "  unknown", s.Unknown)
		}
	}
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
