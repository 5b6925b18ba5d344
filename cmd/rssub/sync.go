package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/internal/base/quantity"
	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/destination"
)

func syncCommand() *cobra.Command {
	var f copyFlags
	var asOf string
	cmd := &cobra.Command{
		Use:   "sync SOURCE --dir DIR",
		Short: "Copy a Source, or bring its copy up to date, once",
		Long: `The first run copies the whole Source, and later runs what has changed since then.
SOURCE is any address of it: its host, its Source Description, or a Capability List.

If SOURCE is a list, a dump, or an archive of Resource Lists or Resource Dumps, exactly
the state that this describes is copied. --as-of copies the state that the Source had
at an earlier time, from its archives. A copy has one state: use another --dir for
each. Bytes that the Source does not have any more are reported as failed.

If some resources cannot be fetched, the others are copied all the same. The command
reports them and exits with 6, and the next run tries them again. A run after an
interruption continues where the last one stopped.`,
		Example: `  rssub sync https://source.example/ --dir ./copy
  rssub sync https://source.example/ --dir ./copy --dry-run
  rssub sync https://source.example/ --dir ./january --as-of 2027-01-01T00:00:00Z`,
		Args: cli.Exactly("Source"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := f.options(cmd, args[0])
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("as-of") { // an empty one is a mistake
				if o.AsOf, err = resourcesync.ParseDatetime(asOf); err != nil {
					return cli.Fail(cli.ExitUsage, "--as-of: %w", err)
				}
				if o.AsOf.IsZero() {
					o.AsOf = o.AsOf.Add(1) // a time that was given
				}
			}
			var endProgress func()
			o.Progress, endProgress = showProgress(cmd.ErrOrStderr())
			c, err := f.open(o)
			if err != nil {
				return err
			}
			defer func() { _ = c.Close() }()
			ctx, cancel := untilSignal(cmd)
			defer cancel()
			report, err := c.Sync(ctx)
			endProgress()
			if f.json || err == nil || began(&report) {
				if out := printReport(cmd.OutOrStdout(), report, f.json); err == nil {
					err = out
				}
			}
			if err != nil {
				return explained(err, o.Log)
			}
			if !report.InSync() {
				return &cli.Error{Code: cli.ExitPartial}
			}
			return nil
		},
	}
	f.add(cmd)
	f.addBaseline(cmd.Flags())
	f.selection.add(cmd.Flags())
	cmd.Flags().StringVar(&asOf, "as-of", "", "copy the state that the Source had at `TIME`, such as 2027-01-31T12:00:00Z, from its archives (default: the current state)")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "print what would be done, and change nothing")
	return cmd
}

// began reports whether there is anything to report.
func began(r *destination.Report) bool { return r.Copied+r.Deleted+r.Unchanged+r.Failed+r.Held > 0 }

// printReport prints what a run did.
func printReport(w io.Writer, r destination.Report, asJSON bool) error {
	if asJSON {
		return printJSON(w, r)
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	would := ""
	if r.DryRun {
		would = " (dry run: would be)"
	}
	if !r.Pinned.IsZero() {
		row(out, "copied is", r.Pinned)
	}
	if len(r.Sets) > 1 {
		printSets(out, &r, would)
	} else if r.Baseline != "" {
		row(out, "baseline", r.Baseline)
	}
	if len(r.Sets) == 1 {
		printChoices(out, "", r.Sets[0].Choices)
	}
	row(out, "copied", fmt.Sprintf("%d, %s%s", r.Copied, quantity.BytesText(r.Bytes), would))
	if r.Patched > 0 {
		row(out, "by patches", r.Patched)
	}
	row(out, "deleted", fmt.Sprintf("%d%s", r.Deleted, would))
	row(out, "unchanged", r.Unchanged)
	if r.LeftOut > 0 {
		row(out, "left out", leftOut(r.LeftOut, r.Selection))
	}
	row(out, "failed", r.Failed)
	if r.Held > 0 {
		row(out, "not deleted", fmt.Sprintf("%d; if that is right, run again with a larger --max-delete", r.Held))
	}
	for _, i := range r.Instead {
		row(out, "from "+i.Host, fmt.Sprintf("%d from mirrors or alternates, such as %s", i.Resources, i.First))
	}
	for _, host := range r.NotAllowed {
		row(out, "not allowed", fmt.Sprintf("%s; if you trust it, run again with --allow-host %s", host, host))
	}
	if !r.Until.IsZero() {
		row(out, asOf(r.InSync()), r.Until.UTC().Format(time.RFC3339Nano)+would)
	}
	row(out, "took", r.Took.Round(time.Millisecond))
	if err := out.Flush(); err != nil {
		return err
	}
	return printProblems(w, r.Problems, r.Failed+r.Held)
}

// asOf names the time up to which all changes were read.
func asOf(inSync bool) string {
	if inSync {
		return "in sync as of"
	}
	return "as of"
}

// printSets prints a column for each of several sets. Would says so if nothing was done.
func printSets(out io.Writer, r *destination.Report, would string) {
	for _, s := range r.Sets {
		row(out, "set", s.Set)
		if s.Baseline != "" {
			row(out, "  baseline", s.Baseline)
		}
		printChoices(out, "  ", s.Choices)
		if !s.Until.IsZero() {
			row(out, "  "+asOf(r.InSync()), s.Until.UTC().Format(time.RFC3339Nano)+would)
		}
		if s.Error != "" {
			row(out, "  failed", s.Error)
		}
	}
}

// printChoices prints a line for each choice between a list and a dump.
func printChoices(out io.Writer, indent string, choices []destination.Choice) {
	for _, c := range choices {
		row(out, fmt.Sprintf("%s%s from", indent, c.For), fmt.Sprintf("the %s: %s", c.Used, c.Why))
	}
}

func printProblems(w io.Writer, problems []destination.Problem, all int) error {
	for _, p := range problems {
		if _, err := fmt.Fprintln(w, cli.Line(fmt.Sprintf("FAIL  %s  %s", first(p.URL, p.Path), p.Why))); err != nil {
			return err
		}
	}
	if more := all - len(problems); more > 0 {
		_, err := fmt.Fprintf(w, "... and %d more\n", more)
		return err
	}
	return nil
}

// row writes a line of a table, each value into a column of its own.
func row(w io.Writer, name string, values ...any) {
	line := name
	for _, v := range values {
		line += "\t" + cli.Line(fmt.Sprint(v))
	}
	_, _ = fmt.Fprintln(w, line) // Flush reports errors
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
