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
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/internal/base/ingress"
	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/internal/program/config"
	"github.com/rshub/rshub/subscriber/destination"
)

// notWithSources are flags that are about one Source.
var notWithSources = []string{"source", "map", "hub"}

// checkSources reports what is wrong with the flags where there is --sources, and reads the file.
func (f *copyFlags) checkSources(cmd *cobra.Command, source string) ([]destination.Member, error) {
	for _, name := range notWithSources {
		if config.Given(cmd.Flags(), name) {
			return nil, cli.Fail(cli.ExitUsage, "--%s is about one Source, and --sources about many: write %s into the file, to the Source that it is for", name, strings.Replace(name, "source", "url", 1))
		}
	}
	if source != "" {
		return nil, cli.Fail(cli.ExitUsage, "an argument names one Source, and --sources a file with many: leave out %s, or --sources", source)
	}
	if f.dir == "" {
		return nil, cli.Fail(cli.ExitUsage, "--dir is missing: the folder with the copies")
	}
	if err := checkURLs(f.callback); err != nil {
		return nil, err
	}
	if _, err := f.way.check(cmd.Flags(), f.callback, f.call.Dev); err != nil {
		return nil, err
	}
	log, err := f.log.Logger(cmd.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	members, err := f.readSources(cmd, log)
	if err != nil {
		return nil, cli.WrongSettings(err)
	}
	return members, nil
}

// calls reports whether hubs are to call a callback, once the flags were checked.
func (f *copyFlags) calls(cmd *cobra.Command) bool {
	calls, err := f.way.check(cmd.Flags(), f.callback, f.call.Dev)
	return calls && err == nil
}

// followAll follows the Sources of a file.
func (f *copyFlags) followAll(cmd *cobra.Command, args []string, server *cli.ServerFlags) error {
	files := &ingress.Watched{}
	files.Take(f.sources)
	members, err := f.checkSources(cmd, strings.Join(args, ""))
	if err != nil {
		return err
	}
	o := destination.FleetOptions{Dir: f.fleetDir(), Parallel: f.parallel}
	if o.Allow, err = f.call.Ranges(); err != nil {
		return err
	}
	if o.Log, err = f.log.Logger(cmd.ErrOrStderr()); err != nil {
		return err
	}
	ctx, cancel := untilSignal(cmd)
	defer cancel()
	o.Callback = f.callback
	l, err := listen(ctx, server, f.calls(cmd), f.call.Dev, &o.Callback, o.Log)
	if err != nil {
		return err
	}
	defer l.Stop(ctx, drain)
	fleet, err := destination.OpenFleet(o)
	if err != nil {
		return &cli.Error{Code: cli.ExitFailure, Err: err}
	}
	defer func() { _ = fleet.Close() }()
	s := &sources{flags: f, command: cmd, log: o.Log, fleet: fleet, files: files, lines: &lines{w: cmd.OutOrStdout(), json: f.json}}
	if err := s.set(members); err != nil {
		return err
	}
	s.metrics = newFleetMetrics(l, f, s) // it has the figures of each from the start
	l.Serve(ctx, fleet.Handler())
	o.Log.Info("Sources are followed", "event", "following", "sources", len(members), "file", f.sources)
	if o.Callback != "" {
		o.Log.Info("the callback listens", "event", "listening", "addr", l.Addr().String(), "callback_url", o.Callback)
	}
	following, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- fleet.Run(following) }()
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		s.watch(following)
	}()
	select {
	case err = <-ended:
	case err = <-l.Failed:
		stop()
		err = errors.Join(err, <-ended)
	}
	stop()
	<-watching
	l.Stop(ctx, drain) // before the state is closed
	return explained(err, o.Log)
}

// sources has a Fleet follow what the file of --sources says.
type sources struct {
	flags   *copyFlags
	command *cobra.Command
	log     *slog.Logger
	fleet   *destination.Fleet
	files   *ingress.Watched
	lines   *lines
	metrics *metrics
	wrong   atomic.Bool // the file has mistakes
}

// set hands the Sources to the Fleet.
func (s *sources) set(members []destination.Member) error {
	for i := range members {
		name := members[i].Name
		members[i].Options.Audited = func(r destination.AuditReport, err error) { s.metrics.audited(r, err) }
		members[i].Options.Event = func(e destination.Event) {
			s.metrics.event(e)
			s.lines.update(name, e)
		}
	}
	return s.fleet.Set(members)
}

// watch reads the file again when it changes, and at SIGHUP, until ctx ends.
func (s *sources) watch(ctx context.Context) {
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGHUP)
	defer signal.Stop(again)
	tick := time.NewTicker(ingress.FilesEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again:
			s.reload()
		case <-tick.C:
			if s.files.Changed() {
				s.reload()
			}
		}
	}
}

// reload reads the file. One with mistakes changes nothing.
func (s *sources) reload() {
	s.files.Take(s.flags.sources)
	had := s.names()
	members, err := s.flags.readSources(s.command, s.log)
	if err == nil {
		err = s.set(members)
	}
	s.wrong.Store(err != nil)
	if err != nil {
		s.log.Error("the file of Sources has mistakes; all Sources are followed as before", "event", "sources_refused", "file", s.flags.sources, "error", err)
		return
	}
	var names, added, removed []string
	for i := range members {
		names = append(names, members[i].Name)
		if !slices.Contains(had, members[i].Name) {
			added = append(added, members[i].Name)
		}
	}
	for _, name := range had {
		if !slices.Contains(names, name) {
			removed = append(removed, name)
		}
	}
	s.log.Info(fmt.Sprintf("the file of Sources was read again: %d Sources", len(names)), "event", "sources_reloaded", "file", s.flags.sources, "added", added, "removed", removed)
}

// names are the Sources that are followed.
func (s *sources) names() (names []string) {
	for _, m := range s.fleet.Members() {
		names = append(names, m.Name)
	}
	return names
}
