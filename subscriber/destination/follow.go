package destination

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/subscriber"
)

const (
	followAgain = 10 * time.Second // wait after changes could not be carried out
	waitMost    = 5 * time.Minute  // between tries to begin with a Source that is away or not ready
	gather      = 10 * time.Millisecond
	retrySweep  = time.Second
	retryShare  = 20               // 1/retryShare of the time may go into looking for failures to try again
	setsEvery   = time.Hour        // between questions for new sets of the Source
	dueEvery    = 10 * time.Minute // between tries of a baseline that the Source does not have yet
)

// Follow brings the copy in sync with the Source and keeps it in sync until ctx ends. It applies
// changes that are pushed to Handler at once, and others every Options.PollEvery. It retries
// resources that could not be fetched, at longer and longer intervals of up to an hour. At the
// start it waits for a Source that is unavailable or not ready. It returns nil when ctx ends. An
// error says that the state of the copy cannot be used, or is not the current one (ErrOtherState). If there is no copy yet, an error can
// also say why the address leads to no Source that can be copied, now or later (subscriber.Away).
func (c *Copy) Follow(ctx context.Context) error {
	if err := c.refusePinned(); err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wg.Go(func() { c.keepStatus(ctx) })
	wg.Go(func() { c.serveSnapshots(ctx) })
	wg.Go(func() { c.reconciler.handover.run(ctx) })
	if c.o.AuditEvery > 0 {
		wg.Go(func() { c.follower.audits.run(ctx) })
	}
	return c.follower.run(ctx)
}

// follower keeps sets in sync. It waits for pushes, the next poll and the next try, and the
// syncer does the rest.
type follower struct {
	o        *Options
	log      *slog.Logger
	syncer   *syncer
	handlers handlers
	audits   *auditor
	synced   sync.Map // when each set was last brought in sync, by its name
	parcels  sync.Map // the open *parcels of each set, by its name
	troubles troubles
	again    chan struct{} // the sets may be others
}

// run follows all sets, and those that the Source gets later, until ctx ends.
func (f *follower) run(ctx context.Context) error {
	sets, err := f.firstSets(ctx)
	if err != nil || ctx.Err() != nil {
		return err
	}
	f.handlers.expect(len(sets))
	following := map[string]*followed{}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		f.retryFailed(ctx)
		return nil
	})
	for {
		for _, set := range sets {
			was := following[set.name]
			if was != nil && reflect.DeepEqual(was.set, set) {
				continue
			}
			if was != nil { // the set offers other documents or channels now
				was.cancel()
				<-was.ended
			}
			one := &followed{set: set, ended: make(chan struct{})}
			var within context.Context
			within, one.cancel = context.WithCancel(ctx)
			following[set.name] = one
			group.Go(func() error {
				defer close(one.ended)
				defer one.cancel()
				if err := f.followSet(within, set); err != nil && within.Err() == nil {
					return fmt.Errorf("following the set %s: %w", set.name, err)
				}
				return nil
			})
		}
		if !clock.Wait(ctx, setsEvery, f.again) {
			return group.Wait()
		}
		more, err := f.syncer.source.sets(ctx)
		if err == nil {
			sets = more
		}
		f.troubles.set("", err)
	}
}

// followed is a set that is being followed, as the Source described it then.
type followed struct {
	set    namedSet
	cancel context.CancelFunc
	ended  chan struct{}
}

// firstSets returns the Source's sets. It waits for a Source that is unavailable, not ready, or
// offers nothing yet, because the Source may start later. Without a copy, it returns an error
// that only a person can fix: an address that leads to no Source, a token that is not accepted, a
// host that is not allowed. If there is a copy, the settings were right once, so it waits
// whatever the error.
func (f *follower) firstSets(ctx context.Context) ([]namedSet, error) {
	for tries := 0; ; tries++ {
		sets, err := f.syncer.source.sets(ctx)
		if ctx.Err() != nil {
			return nil, nil
		}
		f.troubles.set("", err)
		if err == nil {
			return sets, nil
		}
		if f.syncer.state.count() == 0 && !subscriber.Away(err) && !errors.Is(err, errNothing) {
			return nil, err
		}
		wait := backoff(tries, waitMost)
		if status := (*subscriber.StatusError)(nil); errors.As(err, &status) {
			wait = max(wait, min(status.RetryAfter, waitMost))
		}
		f.log.Warn(fmt.Sprintf("the Source is unavailable or not ready; it is asked again in %v", wait), "event", "source_failed", "wait", wait, "error", err)
		if !clock.Sleep(ctx, wait) {
			return nil, nil
		}
	}
}

// followSet follows one set until ctx ends.
func (f *follower) followSet(ctx context.Context, set namedSet) error {
	if err := f.syncer.beginAnew(set); err != nil {
		return err
	}
	st := f.syncer.state.set(set.name)
	for tries := 0; f.syncer.needsBaseline(set, st); tries++ {
		next, err := f.baselineOf(ctx, set)
		if err == nil || errors.Is(err, ErrBehind) && !st.BaselineAt.IsZero() {
			st = next
			break
		}
		if !clock.Sleep(ctx, backoff(tries, waitMost)) {
			return nil
		}
	}
	name := digest(set.name, 8)
	if set.Topic == "" || f.o.Via == subscriber.ViaPoll {
		f.handlers.set(name, nil)
		dir := f.syncer.subscriberDir(set.name)
		if _, err := os.Stat(dir); err == nil {
			if err := f.leave(ctx, dir); err != nil && ctx.Err() == nil {
				f.log.Warn("an old subscription could not be ended; it lasts until its lease ends", "event", "unsubscribe_failed", "set", set.name, "error", err)
			}
		}
		return f.poll(ctx, set)
	}
	looks := make(chan struct{}, 1)
	var look func()
	if set.pushOnly() {
		look = func() {
			select {
			case looks <- struct{}{}:
			default: // a check is requested already
			}
		}
	}
	s, err := f.syncer.openSubscriber(set, st, f.o.Via, look)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	f.handlers.set(name, &stream{set.name, s})
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wg.Go(func() { _ = s.Run(ctx) })
	notified := make(chan struct{}, 1)
	if set.Framework != "" {
		wg.Go(func() { f.followFramework(ctx, set, s, notified) })
	}
	return f.consume(ctx, set, s, looks, notified)
}

// inStep records that a set has just been brought in sync.
func (f *follower) inStep(set namedSet) {
	f.synced.Store(set.name, time.Now())
	f.troubles.set(set.name, nil)
}

// baselineOf makes a baseline of a set, and logs the result.
func (f *follower) baselineOf(ctx context.Context, set namedSet) (setState, error) {
	t := newTally(f.o.Source)
	var st setState
	var err error
	f.audits.sync(ctx, func() { st, err = f.syncer.catchUp(ctx, set, f.syncer.state.set(set.name), t) })
	r := t.report()
	if ctx.Err() == nil {
		f.troubles.set(set.name, err)
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		f.log.Warn("the baseline could not be made; it is tried again", "event", "baseline_failed", "set", set.name, "error", err)
	case r.Baseline != "":
		f.inStep(set)
		f.log.Info("the baseline is complete", "event", "baseline_done", "set", set.name,
			"copied", r.Copied, "deleted", r.Deleted, "failed", r.Failed, "held", r.Held, "from", r.Baseline)
	}
	return st, err
}

// poll follows a set by asking the Source for changes again and again.
func (f *follower) poll(ctx context.Context, set namedSet) error {
	why := "the set has no hub to subscribe at"
	if set.Topic != "" {
		why = "the hub is not asked"
	}
	f.log.Info(why+", so the Source is asked for changes", "event", "polling", "set", set.name, "every", f.o.PollEvery)
	for {
		f.syncNow(ctx, set)
		if !clock.Sleep(ctx, f.o.PollEvery) {
			return nil
		}
	}
}

// consume carries out the changes of the stream. Changes that come close together are carried out
// together. It checks for changes that were not pushed whenever that is requested.
func (f *follower) consume(ctx context.Context, set namedSet, s *subscriber.Subscriber, looks, notified <-chan struct{}) error {
	feed := make(chan subscriber.Change, together) // changes that come while others are carried out
	ctx, cancel := context.WithCancel(ctx)
	var reader sync.WaitGroup
	defer reader.Wait()
	defer cancel()
	reader.Go(func() {
		defer close(feed)
		for change := range s.Changes(ctx) {
			change.Content = nil // a copy does not use content
			select {
			case feed <- change:
			case <-ctx.Done():
				return
			}
		}
	})
	due := time.NewTicker(dueEvery)
	defer due.Stop()
	defer f.parcelsFor(ctx, set, nil) // closes them
	a := allowance{set: set, from: s, reconciler: f.syncer.reconciler}
	defer a.end()
	for {
		select {
		case first, more := <-feed:
			if !more {
				return s.Err()
			}
			batch := gatherFrom(feed, first, a.most())
			if err := f.applyBatch(ctx, set, s, batch, a.check(ctx, batch)); err != nil {
				return err
			}
			a.done()
		case <-looks:
			f.syncNow(ctx, set)
		case <-notified:
			f.readNamed(ctx, set)
		case <-due.C:
			f.parcelsFor(ctx, set, nil)
			switch {
			case f.syncer.needsBaseline(set, f.syncer.state.set(set.name)):
				_, _ = f.baselineOf(ctx, set) // it logs its error
			case set.pushOnly() && !isPushed(s):
				f.syncNow(ctx, set)
			}
		}
	}
}

// applyBatch carries out changes, until that succeeds or ctx ends, and commits them. What was read from
// lists comes from Change Dumps where these cost less. Held is as in applyAll. The error is that of the commit.
func (f *follower) applyBatch(ctx context.Context, set namedSet, s *subscriber.Subscriber, batch []subscriber.Change, held error) error {
	from := f.parcelsFor(ctx, set, batch)
	for {
		err := f.syncer.apply(ctx, set, batch, from, held, newTally(f.o.Source))
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			break
		}
		f.troubles.set(set.name, err)
		f.log.Warn("changes could not be carried out; they are tried again", "event", "apply_failed", "set", set.name, "error", err)
		if !clock.Sleep(ctx, followAgain) {
			return nil
		}
	}
	f.inStep(set)
	last := batch[len(batch)-1]
	if err := s.Commit(last.Cursor); err != nil {
		return err
	}
	if last.NeedsBaseline {
		f.log.Warn("missed changes are lost; a new baseline is made", "event", "baseline_needed", "set", set.name)
		_, _ = f.baselineOf(ctx, set) // it logs its error, and is tried again
		return nil
	}
	return f.syncer.pushedUntil(set, last.Until)
}

// parcelsFor returns the packages for changes that were read from lists. Those of the changes before them stay open
// as long as they have any of them, and others of the same Change Dump may join them.
func (f *follower) parcelsFor(ctx context.Context, set namedSet, batch []subscriber.Change) *parcels {
	was, _ := f.parcels.LoadAndDelete(set.name)
	from, _ := was.(*parcels)
	repaired := slices.ContainsFunc(batch, func(c subscriber.Change) bool { return c.Repaired })
	if !repaired || !from.hasAny(batch) {
		from.close(ctx)
		from = nil
	}
	changes := changed(set, slices.Values(batch))
	switch {
	case from != nil:
		wants, _ := f.syncer.lacking(changes)
		from.choose(wants, f.o.Changes == ChangesDump)
	case repaired:
		from = f.syncer.dumpsFor(ctx, set, changes, newTally(f.o.Source))
	}
	if from != nil {
		f.parcels.Store(set.name, from)
	}
	return from
}

// gatherFrom returns the changes that come within a moment, so many at most, up to one that says that a baseline
// is needed.
func gatherFrom(feed <-chan subscriber.Change, first subscriber.Change, most int) []subscriber.Change {
	batch := []subscriber.Change{first}
	timer := time.NewTimer(gather)
	defer timer.Stop()
	for len(batch) < most && !batch[len(batch)-1].NeedsBaseline {
		select {
		case change, more := <-feed:
			if !more {
				return batch
			}
			batch = append(batch, change)
		case <-timer.C:
			return batch
		}
	}
	return batch
}

// retryFailed tries failures again until ctx ends.
func (f *follower) retryFailed(ctx context.Context) {
	for wait := retrySweep; clock.Sleep(ctx, wait); {
		began := time.Now()
		if err := f.syncer.reconciler.tryAgain(ctx, newTally(f.o.Source), began); err != nil && ctx.Err() == nil {
			f.log.Warn("what failed could not be tried again", "event", "retry_failed", "error", err)
		}
		wait = max(retrySweep, retryShare*time.Since(began))
	}
}
