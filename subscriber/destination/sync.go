package destination

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber"
)

// together is how many changes are applied and committed together.
const together = 1000

// syncer brings sets in sync with the Source. It decides which lists and changes are read, and
// how far they count.
type syncer struct {
	o          *Options
	log        *slog.Logger
	source     *source
	lists      *lists
	state      *state
	reconciler *reconciler
	pinner     *pinner
}

// Sync brings the copy in sync with the Source by pulling. The first time it makes a baseline of
// each set. Later it reads the Change Lists or Change Dumps, or makes a new baseline if these do
// not reach back far enough or do not exist. Resources that failed are in the Report and are no
// error. An error says that the Source, or the state of the copy, cannot be used (*HostError,
// *subscriber.StatusError, ErrBehind among others); what was done before it stays done.
//
// If Options.AsOf is set, or Options.Source is a list, a dump or an archive of lists or dumps, the
// copy gets the state that this describes, from the archives of the Source, and no later one. What
// the Source does not have any more is an error (ErrNoState) or, for bytes of a resource, in the
// Report. A copy that has another state is refused (ErrOtherState).
func (c *Copy) Sync(ctx context.Context) (Report, error) {
	t := newTally(c.o.Source)
	t.DryRun, t.Selection = c.o.DryRun, c.selection.Selection
	var wg sync.WaitGroup
	defer wg.Wait()
	serving, cancel := context.WithCancel(ctx)
	defer cancel()
	wg.Go(func() { c.serveSnapshots(serving) })
	_ = c.web.takeRefused() // of an earlier run
	err := c.syncer.sync(ctx, t)
	if err != nil {
		t.fail(err)
	}
	t.NotAllowed = c.web.takeRefused()
	return t.report(), err
}

func (s *syncer) sync(ctx context.Context, t *tally) error {
	found, err := s.source.find(ctx)
	if err != nil {
		return err
	}
	if t.Pinned, err = s.pinner.pin(&found); err != nil {
		return err
	}
	sets, err := s.pinner.setsOf(t.Pinned, &found)
	if err != nil {
		return err
	}
	var failed error
	var until []time.Time
	for _, set := range sets {
		t.begin(set.name)
		to, err := s.syncTo(ctx, set, t)
		t.end(to, err)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("the set %s: %w", set.name, err))
		}
		if ctx.Err() != nil || fatal(err) {
			return failed
		}
		until = append(until, to)
	}
	if len(until) == 1 && failed == nil {
		t.Until = until[0]
	}
	if failed == nil { // after the others: a set with a new name may list the resources of a set that is gone
		failed = s.forgetSets(ctx, sets, t)
	}
	return errors.Join(failed, s.reconciler.tryAgain(ctx, t, time.Time{}))
}

// syncTo brings one set to the state that the copy has of the Source.
func (s *syncer) syncTo(ctx context.Context, set namedSet, t *tally) (time.Time, error) {
	if t.Pinned.IsZero() {
		if err := s.beginAnew(set); err != nil {
			return time.Time{}, err
		}
		return s.syncSet(ctx, set, t)
	}
	return s.pinner.syncPast(ctx, set, t.Pinned, t)
}

// syncSet brings one set in sync, and returns the time of the state that it has then.
func (s *syncer) syncSet(ctx context.Context, set namedSet, t *tally) (time.Time, error) {
	st := s.state.set(set.name)
	if err := s.recordSource(set, &st); err != nil {
		return st.BaselineAt, err
	}
	var behind error
	made := s.needsBaseline(set, st)
	if made {
		next, err := s.catchUp(ctx, set, st, t)
		switch {
		case errors.Is(err, ErrBehind) && !st.BaselineAt.IsZero():
			behind = err // later changes can be applied all the same
		case err != nil || s.o.DryRun:
			return st.BaselineAt, err
		}
		st = next
	}
	var err error
	at := st.BaselineAt
	switch {
	case set.offers(resourcesync.ChangeList):
		at, err = s.pullChangeLists(ctx, set, st, t)
	case set.offers(resourcesync.ChangeDump) && !s.o.DryRun:
		at, err = s.pullChangeDumps(ctx, set, st, t)
	case !made && set.offers(resourcesync.ResourceList, resourcesync.ResourceDump): // there are no changes to read: use the list again
		st, err = s.newBaseline(ctx, set, st, t)
		at = st.BaselineAt
	}
	if err == nil {
		err = s.hasRead(set)
	}
	return at, errors.Join(behind, err)
}

// hasRead records that the changes of a set were read to their end.
func (s *syncer) hasRead(set namedSet) error {
	st := s.state.set(set.name)
	if !st.Unread || s.o.DryRun {
		return nil
	}
	st.Unread = false
	return s.state.putSet(set.name, st)
}

// pullChangeLists applies the Change Lists. If they say that changes were missed, it makes
// a baseline, and applies what the lists have after that.
func (s *syncer) pullChangeLists(ctx context.Context, set namedSet, st setState, t *tally) (time.Time, error) {
	if s.o.DryRun {
		return s.dryRun(ctx, set, st, t)
	}
	sub, err := s.openSubscriber(set, st, subscriber.ViaPoll, nil)
	if err != nil {
		return time.Time{}, err
	}
	defer func() { _ = sub.Close() }()
	var behind error
	for round := 1; ; round++ {
		if err := catchUp(ctx, sub); err != nil {
			return time.Time{}, err
		}
		missed, err := s.applyWaiting(ctx, set, sub, t)
		if err != nil {
			return time.Time{}, err
		}
		if !missed {
			status, err := sub.Status()
			return status.Until, errors.Join(behind, err)
		}
		if round == 3 {
			return time.Time{}, errors.New("the Source's Change Lists report missed changes after each baseline")
		}
		s.log.Warn("missed changes are lost; a new baseline is made", "event", "baseline_needed", "set", set.name)
		if _, behind = s.newBaseline(ctx, set, s.state.set(set.name), t); behind != nil && !errors.Is(behind, ErrBehind) {
			return time.Time{}, behind
		}
	}
}

// catchUp has a subscriber read the Change Lists, and read them again while their host is away for a moment.
func catchUp(ctx context.Context, sub *subscriber.Subscriber) (err error) {
	_, away := patiently(ctx, func() (none struct{}, away error) {
		if err = sub.CatchUp(ctx); subscriber.Away(err) {
			return none, err
		}
		return none, nil
	})
	return cmp.Or(away, err)
}

// applyWaiting applies the changes that a subscriber has, as applyAll does. It gets the bytes from
// Change Dumps where these cost less.
func (s *syncer) applyWaiting(ctx context.Context, set namedSet, sub *subscriber.Subscriber, t *tally) (missed bool, err error) {
	from := s.dumpsFor(ctx, set, changed(set, sub.Waiting(ctx)), t)
	defer from.close(ctx)
	_, held := s.reconciler.tooManyOf(changed(set, sub.Waiting(ctx)))
	return s.applyAll(ctx, set, sub, sub.Waiting(ctx), from, held, t)
}

// changed calls use with the resource of each change.
func changed(set namedSet, changes iter.Seq[subscriber.Change]) func(use func(*desired)) {
	return func(use func(*desired)) {
		for c := range changes {
			if w := desiredFrom(set.name, &c.Entry); c.Loc != "" {
				use(&w)
			}
		}
	}
}

// dryRun reports what pullChangeLists would do, and returns the time that it would reach.
func (s *syncer) dryRun(ctx context.Context, set namedSet, st setState, t *tally) (time.Time, error) {
	since := st.BaselineAt
	if status, err := subscriber.ReadStatus(s.subscriberDir(set.name)); err == nil && status.Until.After(since) {
		since = status.Until
	}
	var changes []subscriber.Change
	until, err := subscriber.ReadChanges(ctx, s.source.web, set.Set, since, s.lists.limit(), func(e resourcesync.Entry) error {
		changes = append(changes, subscriber.Change{Entry: e})
		return nil
	})
	if err != nil {
		return since, err
	}
	return until, s.apply(ctx, set, changes, nil, nil, t)
}

// pullChangeDumps applies the Change Dumps, or makes a baseline if they do not reach back
// far enough.
func (s *syncer) pullChangeDumps(ctx context.Context, set namedSet, st setState, t *tally) (time.Time, error) {
	since := st.DumpsUntil
	err := s.lists.changeDumps(ctx, set, set.Documents[resourcesync.ChangeDump], since, func(wants []desired, until time.Time) error {
		if err := s.reconciler.change(ctx, t, slices.DeleteFunc(wants, s.state.isStale)); err != nil {
			return err
		}
		st.DumpsUntil = until
		return s.state.putSet(set.name, st)
	})
	var hole *holeError
	if errors.As(err, &hole) {
		s.log.Warn("the Change Dumps do not reach back far enough; a new baseline is made", "event", "baseline_needed", "set", set.name, "error", err)
		st.Due = hole.until
		if err := s.state.putSet(set.name, st); err != nil {
			return since, err
		}
		if st, err = s.newBaseline(ctx, set, st, t); err == nil && st.From == "" { // there is no list: go on behind the hole
			st.DumpsUntil = hole.until
			if err := s.state.putSet(set.name, st); err != nil {
				return since, err
			}
			return s.pullChangeDumps(ctx, set, st, t)
		}
	}
	return st.DumpsUntil, err
}

// subscriberDir returns the folder of a set's subscriber.
func (s *syncer) subscriberDir(set string) string {
	return filepath.Join(s.o.StateDir, streamDirs+digest(set, 8))
}

// beginAnew has the subscriber of a set forget what it received, if there is no baseline any more: the state of the copy was
// lost, and with it the changes that were applied. The next baseline may be older than what the subscriber would go on from.
func (s *syncer) beginAnew(set namedSet) error {
	st, dir := s.state.set(set.name), s.subscriberDir(set.name)
	if err := s.state.unreadable(); err != nil {
		return err
	}
	if _, err := os.Stat(dir); err != nil || !st.BaselineAt.IsZero() || s.o.DryRun {
		return nil //nolint:nilerr // there is no such folder, or its use reports the error
	}
	s.log.Warn("the copy has no record of this set any more; it begins anew with a baseline", "event", "set_begun_anew", "set", set.name)
	return subscriber.BeginAnew(dir)
}

// openSubscriber opens the stream of changes of a set, which begins at the baseline. Look is that
// of subscriber.Options.
func (s *syncer) openSubscriber(set namedSet, st setState, via subscriber.Via, look func()) (*subscriber.Subscriber, error) {
	callback := s.o.callbackOf(digest(set.name, 8))
	if via == subscriber.ViaPoll {
		callback = ""
	}
	sub, err := subscriber.Open(subscriber.Options{
		MaxEntries: s.o.MaxEntries,
		Hubs:       set.Hubs, Look: look,
		Dir: s.subscriberDir(set.name), Topic: set.Topic, Hub: s.o.Hub, Callback: callback, Via: via, PollEvery: s.o.PollEvery, InsecureStream: s.o.InsecureStream, Lease: s.o.Lease, InsecureSecret: s.o.InsecureSecret, MinSignature: s.o.MinSignature,
		ChangeList: set.Documents[resourcesync.ChangeList], ChangeListArchive: set.Documents[resourcesync.ChangeListArchive],
		Start: st.BaselineAt, CheckEvery: s.o.CheckEvery, HoldFor: s.o.HoldFor, Client: s.source.web, StreamClient: hubs{s.source.web}, Log: s.log,
	})
	if err != nil {
		return nil, err
	}
	if err := nameSet(s.subscriberDir(set.name), set.name); err != nil {
		return nil, errors.Join(err, sub.Close())
	}
	return sub, nil
}

// applyAll applies changes in batches, and commits them. Held is why they delete nothing; nil: they may delete. It stops if the stream says that
// changes were missed, and returns true.
func (s *syncer) applyAll(ctx context.Context, set namedSet, sub *subscriber.Subscriber, changes iter.Seq[subscriber.Change], from *parcels, held error, t *tally) (missed bool, err error) {
	var batch []subscriber.Change
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		if err := s.apply(ctx, set, batch, from, held, t); err != nil {
			return err
		}
		last := batch[len(batch)-1].Cursor
		batch = batch[:0]
		return sub.Commit(last)
	}
	for change := range changes {
		batch = append(batch, change)
		if change.NeedsBaseline {
			return true, flush()
		}
		if len(batch) == together {
			if err := flush(); err != nil {
				return false, err
			}
		}
	}
	return false, errors.Join(flush(), sub.Err(), ctx.Err())
}

// apply applies changes, with the bytes from packages, as far as these have them. If they say that a
// baseline is needed, it records that. Held is as in applyAll.
func (s *syncer) apply(ctx context.Context, set namedSet, changes []subscriber.Change, from *parcels, held error, t *tally) error {
	var wants []desired
	for i := range changes {
		e := &changes[i]
		if e.NeedsBaseline {
			if err := s.missed(set, e); err != nil {
				return err
			}
		}
		if e.Loc != "" {
			w := desiredFrom(set.name, &e.Entry)
			w.notificationID, w.unlisted = e.NotificationID, set.pushOnly()
			if w.change.Removes() {
				w.held = held
			}
			wants = append(wants, w)
		}
	}
	from.fill(ctx, wants)
	return s.reconciler.change(ctx, t, wants)
}

// missed records that a set needs a new baseline, before the change that says so is
// committed.
func (s *syncer) missed(set namedSet, change *subscriber.Change) error {
	if err := s.pushedUntil(set, change.From); err != nil {
		return err
	}
	if !change.From.After(firstInstant) { // a copy without a list begins here
		return nil
	}
	st := s.state.set(set.name)
	st.Due = later(st.Due, change.Until)
	return s.state.putSet(set.name, st)
}
