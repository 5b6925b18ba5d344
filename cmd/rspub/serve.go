package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rshub/rshub/internal/engine/figures"
	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/publisher"
	"github.com/rshub/rshub/publisher/source"
)

// serveFlags are those of `rspub serve`.
type serveFlags struct {
	sets     setFlags
	hubs     hubFlags
	call     cli.CallFlags
	schedule scheduleFlags

	server              cli.ServerFlags
	publicURL, stateDir string
	resume              resumeFlags
	accept              bool
	outbox              int64 // the most bytes of one
	every, drain        cli.Span
	json                bool
	log                 cli.LogFlags
}

// serveCommand returns the command and what checks its flags before it runs.
func serveCommand() (*cobra.Command, func(*cobra.Command) error) {
	f := serveFlags{every: cli.Span(publisher.DefaultEvery), drain: cli.Span(10 * time.Second)}
	cmd := &cobra.Command{
		Use: "serve", Short: "Publish a folder as a whole Source", Args: cli.NoArguments,
		Long: `Publishes a folder: scans it, watches it, serves it with every document of
ResourceSync, and pushes its changes to hubs. The first scan of a new folder is
the baseline and publishes no change.

Subscribers find it through the Source Description, at .well-known/resourcesync
below --public-url. Each hub calls back there: it has to be reachable from the hub.
--state-dir stores what is known of the folder and what was published, so that a
restart continues where the last run stopped.

It runs until SIGTERM or SIGINT. Answers that are being sent then have --drain to
finish; a second signal ends it at once. It logs to standard error. The line with
"event":"listening" has the address.

--admin-listen serves the health of the Source at /livez and /readyz, and metrics for
Prometheus at /metrics. The Source stays ready while a hub is unavailable.`,
		Example: `  rspub serve --dir ./books --dev --hub http://localhost:8080/
  rspub serve --dir /srv/books --public-url https://books.example.org/ \
      --hub https://hub.example.org/ --token-file /etc/rspub/token \
      --state-dir /var/lib/rspub`,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	f.sets.add(cmd)
	flags.Var(cli.Positive(&f.sets.rescan), "rescan", "`TIME` between two scans of the whole folder, which find the changes that watching misses, and between two readings of a catalogue")
	f.server.Add(flags, "8090", "to listen on")
	flags.StringVar(&f.publicURL, "public-url", "", "`URL` under which others reach this Source (default http://localhost:<port>/, or https with --tls-cert)")
	flags.StringVar(&f.stateDir, "state-dir", "./rspub-state", "`FOLDER` of the state that a restart needs")
	f.hubs.add(flags)
	flags.Var(cli.Positive(&f.every), "every", "longest `TIME` that a change waits for others before it is pushed")
	f.addOutbox(flags, "changes wait")
	f.schedule.add(flags)
	f.call.Add(flags, "for a laptop: listen on 127.0.0.1:8090, hubs may be on loopback and private addresses")
	f.resume.add(flags)
	flags.BoolVar(&f.accept, "accept-deletions", false, "publish missing resources as deleted, even if they are more than --max-deleted")
	flags.Var(&f.drain, "drain", "`TIME` that answers have to finish when rspub ends")
	flags.BoolVar(&f.json, "json", false, "print each change, POST and document as a line of JSON")
	f.log.Add(flags)
	return cmd, f.check
}

// addOutbox adds the bound of the outbox. Then is what happens at the bound.
func (f *serveFlags) addOutbox(flags *pflag.FlagSet, then string) {
	f.outbox = publisher.DefaultMaxStored
	flags.Var(cli.Size(&f.outbox, 1), "outbox-limit", "`SIZE` of the notifications that a topic may have on disk; while a hub is away so long that there would be more, "+then)
}

// check reports what is wrong with the flags, or missing for a Source that others can reach.
func (f *serveFlags) check(cmd *cobra.Command) error {
	if _, err := f.log.Logger(cmd.ErrOrStderr()); err != nil {
		return err
	}
	o, err := f.options(cmd, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	for _, s := range o.Sets {
		if s.Catalogue.Location != "" {
			continue // it may come later
		}
		if _, err := os.Stat(s.Folder.Dir); err != nil {
			return fmt.Errorf("the folder to publish: %w", err)
		}
	}
	if f.publicURL == "" && !f.call.Dev {
		return errors.New("--public-url is missing: the URL at which others reach this Source, such as https://books.example.org/")
	}
	return f.server.Check()
}

func (f *serveFlags) run(cmd *cobra.Command) error { return f.publish(cmd, f.options, nil) }

// beside is what a command does beside a Source.
type beside interface {
	// measure adds its metrics.
	measure(set *figures.Set)
	// open opens what it listens at, before the Source is opened. Close releases that.
	open(ctx context.Context, log *slog.Logger) error
	close(ctx context.Context)
	// run does its work until ctx ends, and returns when answers under way had their time. It
	// may return nil before: then the command ends.
	run(ctx context.Context, s *source.Source) error
}

// publish runs a Source with options, and what is beside it; nil: nothing is.
func (f *serveFlags) publish(cmd *cobra.Command, options func(*cobra.Command, *slog.Logger) (source.Options, error), also beside) error {
	log, err := f.log.Logger(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	log = slog.New(advised{Handler: log.Handler()})
	if err := f.resume.read(len(f.sets.sets) > 1); err != nil {
		return err
	}
	o, err := options(cmd, log)
	if err != nil {
		return err
	}
	for _, hub := range f.resume.hubs {
		if !slices.Contains(f.hubs.urls, hub) {
			return cli.Fail(cli.ExitUsage, "--resume %s is not among the hubs that --hub names", hub)
		}
	}
	// Before anything is begun, so that no signal is missed.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)

	server, err := f.server.Open(cmd.Context(), f.call.Dev, "source", log)
	if err != nil {
		return err
	}
	defer server.Stop(cmd.Context(), 0) // it has ended, unless it never served
	if f.publicURL == "" {
		f.publicURL = server.URL("localhost")
	}
	o.PublicURL = f.publicURL
	var more []func(*figures.Set)
	if also != nil {
		if err := also.open(cmd.Context(), log); err != nil {
			return err
		}
		defer also.close(cmd.Context())
		more = append(more, also.measure)
	}
	m := newMetrics(server, cli.BuildVersion(version), f.stateDir, f.hubs.urls, more...)
	var printed events
	if f.json {
		printed.to = cmd.OutOrStdout()
	}
	o.Hooks = m.hooks(&printed)
	s, err := source.Open(o)
	if err != nil {
		return explain(err)
	}
	m.source = s
	if err := f.resume.check(s); err != nil {
		return errors.Join(err, s.Close())
	}
	err = f.serve(cmd.Context(), s, server, also, log, signals)
	if errors.Is(err, errAtOnce) {
		return cli.Fail(cli.ExitFailure, "%w", err)
	}
	return errors.Join(err, s.Close())
}

// errAtOnce is the error after a second signal, which ends the command at once.
var errAtOnce = errors.New("ended at once by a second signal; the next start repeats what was not finished")

// options returns the options of the Source that the flags describe, without its URL.
func (f *serveFlags) options(cmd *cobra.Command, log *slog.Logger) (source.Options, error) {
	sets, err := f.sets.resolve(cmd.InOrStdin())
	if err != nil {
		return source.Options{}, err
	}
	hubs, err := f.hubs.forSets(sets)
	if err != nil {
		return source.Options{}, err
	}
	client, err := clientOf(&f.call)
	if err != nil {
		return source.Options{}, err
	}
	for i := range sets {
		for _, file := range append(f.server.SecretFiles(), f.hubs.tokenFile, f.hubs.secretFile) {
			if file != "" {
				sets[i].Folder.Exclude = append(sets[i].Folder.Exclude, file)
			}
		}
		excludeCatalogue(&sets[i])
		name := sets[i].Folder.Dir
		say := func(line string) { log.Info(line, "event", "scanning", "folder", name) }
		sets[i].Folder.Progress = showScan(cmd.ErrOrStderr(), name, say)
	}
	return source.Options{
		StateDir: f.stateDir, Sets: sets, Hubs: hubs, Every: time.Duration(f.every), MaxStored: f.outbox,
		Schedule: f.schedule.schedule(), Client: client, Log: log,
	}, nil
}

// explain adds what to do to the errors that a person causes.
func explain(err error) error {
	var system syscall.Errno
	switch {
	case errors.Is(err, source.ErrLocked):
		return cli.Fail(cli.ExitFailure, "%w; is another rspub running? Each one needs its own --state-dir", err)
	case errors.Is(err, os.ErrNotExist):
		return cli.Fail(cli.ExitNotFound, "%w", err)
	case errors.Is(err, source.ErrDamaged), errors.Is(err, source.ErrNewer), errors.As(err, &system):
		return cli.Fail(cli.ExitFailure, "%w", err) // of the state or its disk, and not of a flag
	}
	return cli.Fail(cli.ExitUsage, "%w", err)
}

// serve serves and runs the Source until a signal comes, a part of it fails, or what is beside it
// ends.
func (f *serveFlags) serve(ctx context.Context, s *source.Source, server *cli.Server, also beside, log *slog.Logger, signals <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server.Serve(ctx, s.Handler())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	log.Info("the Source listens", "event", "listening", "address", server.Addr().String(), "url", f.publicURL,
		"description", s.DescriptionURL(), "hubs", strings.Join(f.hubs.urls, " "))
	var checks sync.WaitGroup
	checks.Go(func() { f.sets.watchRules(ctx, s, log) })
	checks.Go(func() {
		f.resume.run(ctx, s, log)
		f.checkSelf(ctx, s, log)
		checkResources(ctx, s, log)
	})
	checks.Go(func() { f.acceptDeletions(ctx, s, log) })

	var err error
	running := true
	ended, more := runBeside(ctx, s, also)
	select {
	case sig := <-signals:
		log.Info("asked to end", "event", "stopping", "signal", sig.String())
	case err = <-server.Failed:
		err = fmt.Errorf("serving: %w", err)
	case err = <-ran:
		running = false
	case err = <-ended:
		more = false
	case <-ctx.Done():
	}
	cancel()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		// The hub may still be fetching the topic of the last publish.
		server.Stop(ctx, time.Duration(f.drain))
		if running {
			err = errors.Join(err, <-ran)
		}
		if more {
			err = errors.Join(err, <-ended)
		}
		checks.Wait()
	}()
	select {
	case <-drained:
	case <-signals:
		return errAtOnce
	}
	if err == nil {
		log.Info("ended", "event", "stopped")
	}
	return err
}

// runBeside starts what is beside a Source. Ended gets its error; more: there is anything.
func runBeside(ctx context.Context, s *source.Source, also beside) (ended chan error, more bool) {
	ended = make(chan error, 1)
	if also == nil {
		return ended, false
	}
	go func() { ended <- also.run(ctx, s) }()
	return ended, true
}
