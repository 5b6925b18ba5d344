package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/internal/base/disk"
	"github.com/rshub/rshub/internal/base/quantity"
	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/publisher/source"
)

// buildFlags are those of `rspub build`.
type buildFlags struct {
	sets                     setFlags
	schedule                 scheduleFlags
	call                     cli.CallFlags
	out, publicURL, stateDir string
	link, linkAnyway, json   bool
}

func buildCommand() *cobra.Command {
	f := buildFlags{}
	cmd := &cobra.Command{
		Use: "build", Short: "Write the documents as static files, for any web server", Args: cli.NoArguments,
		Long: `Scans a folder and writes its documents to --out. A web server has to serve them at
--public-url. The resources stay where they are: OUT/data becomes a link to the folder,
or the web server serves the folder at data/ itself. A link shows everything in the
folder. So if it has names that begin with a dot, or folders of state, no link is made
unless you give --link-data, and the exit code is 1. With --resource-url there is no
link: a web server has the resources already. Each document is also written
compressed with gzip, for web servers that can use it (gzip_static).

With --state-dir the command remembers the last run. Run it after changes, or every
hour, to get Change Lists, Change Dumps and archives too. Without --state-dir each run
starts anew, and writes only a Resource List and a Resource Dump.

If --max-deleted keeps missing resources from being published as deleted, the command
writes the documents and ends with 1.

Documents are replaced one by one, each after those that it names. Changes are not
pushed to hubs; rspub serve does that.`,
		Example: `  rspub build --dir ./books --out /srv/www/books --state-dir /var/lib/rspub \
      --public-url https://example.org/books/`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.linkAnyway = f.link && cmd.Flags().Changed("link-data")
			return f.run(cmd)
		},
	}
	flags := cmd.Flags()
	f.sets.add(cmd)
	flags.StringVar(&f.out, "out", "", "`FOLDER` to write to")
	flags.StringVar(&f.publicURL, "public-url", "", "`URL` at which the web server serves OUT")
	flags.StringVar(&f.stateDir, "state-dir", "", "`FOLDER` in which to remember the last run")
	f.schedule.add(flags)
	f.call.Add(flags, "catalogues, and the bytes that they name, may be at loopback and private addresses")
	flags.BoolVar(&f.link, "link-data", true, "make OUT/data a link to the folder, even if the folder has names that are not published (default: only if it has none)")
	flags.BoolVar(&f.json, "json", false, "print a JSON object with the written documents")
	return cmd
}

func (f *buildFlags) run(cmd *cobra.Command) (err error) {
	if f.out == "" || f.publicURL == "" {
		return cli.Fail(cli.ExitUsage, "name the folder to write to with --out, and the URL at which it is served with --public-url")
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	sets, err := f.sets.resolve(cmd.InOrStdin())
	if err != nil {
		return err
	}
	schedule := f.schedule.schedule()
	if schedule.Dump > 0 {
		schedule.Dump = time.Nanosecond // each run where there are changes
	}
	state := f.stateDir
	if state == "" {
		sweepTemp()
		if state, err = os.MkdirTemp("", tempPrefix); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(state)) }()
		schedule.ChangeList, schedule.Archive = -1, -1 // they would be empty
	}
	for i := range sets {
		if !source.SameFolder(f.out, sets[i].Folder.Dir) { // else Export has recorded which documents there are
			sets[i].Folder.Exclude = append(sets[i].Folder.Exclude, f.out)
		}
		excludeCatalogue(&sets[i])
		sets[i].Folder.Progress = showScan(cmd.ErrOrStderr(), sets[i].Folder.Dir, nil)
	}
	log, err := cli.NewLog(cmd.ErrOrStderr(), "warn", "")
	if err != nil {
		return err
	}
	client, err := clientOf(&f.call)
	if err != nil {
		return err
	}
	urls := []string{} // in JSON a list, also if nothing was written
	s, err := source.Open(source.Options{
		PublicURL: f.publicURL, StateDir: state, Sets: sets, Client: client, Schedule: schedule, Log: log,
		Hooks: source.Hooks{Built: func(_ string, built []string) { urls = append(urls, built...) }},
	})
	if err != nil {
		return explain(err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := f.build(ctx, s, sets); err != nil {
		return err
	}
	warnOfResources(ctx, s, log)
	slices.Sort(urls)
	urls = slices.Compact(urls) // some are written more than once
	if f.json {
		return cli.WriteJSON(cmd.OutOrStdout(), struct {
			Out       string   `json:"out"`
			Resources int      `json:"resources"`
			URLs      []string `json:"urls"`
		}{f.out, s.Resources(), urls})
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s, %s written to %s; begin at %s\n",
		quantity.Count(s.Resources(), "resource", "resources"), quantity.Count(len(urls), "document", "documents"), f.out, s.DescriptionURL())
	return err
}

// tempPrefix begins the names of the temporary folders of runs without --state-dir.
const tempPrefix = "rspub-build-"

// sweepTemp removes the temporary folders of runs that were killed. It ignores errors.
func sweepTemp() {
	for _, dir := range disk.Match(os.TempDir(), tempPrefix+"*") {
		_ = source.RemoveState(dir) // after an error the next run does it
	}
}

func (f *buildFlags) build(ctx context.Context, s *source.Source, sets []source.Set) error {
	if err := s.Build(ctx); err != nil {
		if ctx.Err() != nil {
			return cli.Fail(cli.ExitFailure, "stopped before the documents were complete; those in %s are unchanged", f.out)
		}
		return err
	}
	if err := checkRefused(s.Status().Sets, sets); err != nil {
		return err
	}
	if err := s.Export(f.out); err != nil {
		return err
	}
	return cmp.Or(f.linkEach(s, sets), checkHeld(s.Status().Sets, sets))
}

// linkEach makes the links to the folders.
func (f *buildFlags) linkEach(s *source.Source, sets []source.Set) error {
	if !f.link {
		return nil
	}
	for i, st := range s.Status().Sets {
		if n := st.Folder.Hidden; n > 0 && sets[i].ResourceURL == "" && !f.linkAnyway && !f.sets.hidden {
			return cli.Fail(cli.ExitFailure, "the documents are written, but %s is not linked to %s: the folder has %s not published, because they begin with a dot or are folders of state. A web server would show them. "+
				"If there is an old link, remove it. Then move these names away, or give --link-data=false and configure the web server to serve the folder at data/ without them. --link-data makes the link all the same",
				filepath.Join(f.out, st.Name, "data"), sets[i].Folder.Dir, quantity.Count(n, "name that is", "names that are"))
		}
	}
	for _, x := range sets {
		if x.Catalogue.Location != "" || x.ResourceURL != "" {
			continue // the link would show what the catalogue does not list, or another server has the resources
		}
		if err := linkData(x.Folder.Dir, filepath.Join(f.out, x.Name, "data")); err != nil {
			return err
		}
	}
	return nil
}

// checkRefused returns an error if a set is empty only because everything in it was refused: its subscribers would
// delete what they have.
func checkRefused(status []source.SetStatus, sets []source.Set) error {
	for i, st := range status {
		if problems := st.Folder.Problems; st.Folder.Resources == 0 && len(problems) > 0 {
			return cli.Fail(cli.ExitFailure, "nothing is written, since nothing in %s can be published, for example because of this: %w",
				cmp.Or(sets[i].Catalogue.Location, sets[i].Folder.Dir), problems[0].Err)
		}
	}
	return nil
}

// checkHeld returns an error if resources of a set are missing and not published as deleted: nobody may read the log of
// a run from cron.
func checkHeld(status []source.SetStatus, sets []source.Set) error {
	for i, st := range status {
		if n := st.Folder.Held; n > 0 {
			return cli.Fail(cli.ExitFailure, "the documents are written, and still list %s missing in %s, because of --max-deleted. Bring it back (is the disk mounted?), or if the rest was deleted, run this once with --max-deleted 100%%",
				quantity.Count(n, "resource that is", "resources that are"), cmp.Or(sets[i].Catalogue.Location, sets[i].Folder.Dir))
		}
	}
	return nil
}

// linkData makes a link to a folder. An existing link or folder stays, if it is the
// folder.
func linkData(dir, link string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil { //nolint:gosec // for a web server to read
		return err
	}
	err = os.Symlink(dir, link)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	there, err := filepath.EvalSymlinks(link)
	if err != nil {
		return err
	}
	if real, err := filepath.EvalSymlinks(dir); err != nil || there != real {
		return cli.Fail(cli.ExitFailure, "%s exists already and is not %s; remove it, or give --link-data=false and configure the web server to serve the folder at data/", link, dir)
	}
	return nil
}
