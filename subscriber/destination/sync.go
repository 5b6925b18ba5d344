package destination

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber"
)

// together is how many changes are carried out, and committed, together.
const together = 1000

// Sync brings the copy in step with the Source by pulling: each set of resources
// from a baseline the first time, from its Change Lists or Change Dumps after that,
// and from a baseline again where these do not reach back far enough or where there
// are none. The Report says what was done; what could not be had is in it and no
// error. An error says that the Source, or the copy's own state, could not be
// worked with (*HostError, *subscriber.StatusError, ErrBehind among others); what was
// done before it stays done.
func (c *Copy) Sync(ctx context.Context) (Report, error) {
	t := newTally(c.o.Source)
	t.DryRun = c.o.DryRun
	lending, end := context.WithCancel(ctx)
	lent := make(chan struct{})
	go func() { defer close(lent); c.lend(lending) }()
	err := c.sync(ctx, t)
	end()
	<-lent
	return t.report(), err
}

func (c *Copy) sync(ctx context.Context, t *tally) error {
	sets, err := c.sets(ctx)
	if err != nil {
		return err
	}
	var failed error
	var until []time.Time
	for _, set := range sets {
		t.begin(set.name)
		to, err := c.syncSet(ctx, set, t)
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
	if failed == nil { // a set of another name may have what one that is not there any more had
		failed = c.forgetSets(ctx, sets, t)
	}
	return errors.Join(failed, c.tryAgain(ctx, t, time.Time{}))
}

// syncSet brings one set in step, and returns as of when it is.
func (c *Copy) syncSet(ctx context.Context, set namedSet, t *tally) (time.Time, error) {
	st := c.state.set(set.name)
	if err := c.leads(set, &st); err != nil {
		return st.BaselineAt, err
	}
	var behind error
	took := needsBaseline(set, st)
	if took {
		next, err := c.makeUp(ctx, set, st, t)
		switch {
		case errors.Is(err, ErrBehind) && !st.BaselineAt.IsZero():
			behind = err // what comes after it can be carried out nevertheless
		case err != nil || c.o.DryRun:
			return st.BaselineAt, err
		}
		st = next
	}
	var err error
	at := st.BaselineAt
	switch {
	case set.offers(resourcesync.ChangeList):
		at, err = c.pull(ctx, set, st, t)
	case set.offers(resourcesync.ChangeDump) && !c.o.DryRun:
		at, err = c.pullDumps(ctx, set, st, t)
	case !took && set.offers(resourcesync.ResourceList, resourcesync.ResourceDump): // there are no changes to be had: the list again
		st, err = c.newBaseline(ctx, set, st, t)
		at = st.BaselineAt
	}
	return at, errors.Join(behind, err)
}

// pull takes what the Change Lists have. Where they say that changes were missed it
// takes a baseline, and then what the lists have after that.
func (c *Copy) pull(ctx context.Context, set namedSet, st setState, t *tally) (time.Time, error) {
	if c.o.DryRun {
		return st.BaselineAt, c.pretend(ctx, set, st, t)
	}
	s, err := c.openSubscriber(set, st, "", nil)
	if err != nil {
		return time.Time{}, err
	}
	defer func() { _ = s.Close() }()
	var behind error
	for round := 1; ; round++ {
		if err := s.CatchUp(ctx); err != nil {
			return time.Time{}, err
		}
		missed, err := c.applyAll(ctx, set, s, s.Waiting(ctx), t)
		if err != nil {
			return time.Time{}, err
		}
		if !missed {
			status, err := s.Status()
			return status.Until, errors.Join(behind, err)
		}
		if round == 3 {
			return time.Time{}, errors.New("the Source's Change Lists say each time that changes were missed")
		}
		c.log.Warn("changes were missed that can't be had; a baseline is taken", "event", "baseline_needed", "set", set.name)
		if _, behind = c.newBaseline(ctx, set, c.state.set(set.name), t); behind != nil && !errors.Is(behind, ErrBehind) {
			return time.Time{}, behind
		}
	}
}

// pretend tells what pull would do.
func (c *Copy) pretend(ctx context.Context, set namedSet, st setState, t *tally) error {
	since := st.BaselineAt
	if status, err := subscriber.ReadStatus(c.subscriberDir(set.name)); err == nil && status.Until.After(since) {
		since = status.Until
	}
	var changes []subscriber.Change
	_, err := subscriber.ReadChanges(ctx, c.web, set.Set, since, c.listLimit(), func(e resourcesync.Entry) error {
		changes = append(changes, subscriber.Change{Entry: e})
		return nil
	})
	if err != nil {
		return err
	}
	return c.apply(ctx, set, changes, t)
}

// pullDumps takes what the Change Dumps have, or else a baseline.
func (c *Copy) pullDumps(ctx context.Context, set namedSet, st setState, t *tally) (time.Time, error) {
	since := st.DumpsUntil
	err := c.changeDumps(ctx, set, since,
		func(wants []want) error { return c.change(ctx, t, slices.DeleteFunc(wants, c.isStale)) },
		func(until time.Time) error {
			st.DumpsUntil = until
			return c.state.putSet(set.name, st)
		})
	var hole *holeError
	if errors.As(err, &hole) {
		c.log.Warn("the Change Dumps do not reach back far enough; a baseline is taken", "event", "baseline_needed", "set", set.name, "error", err)
		st.Due = hole.until
		if err := c.state.putSet(set.name, st); err != nil {
			return since, err
		}
		st, err = c.newBaseline(ctx, set, st, t)
	}
	return st.DumpsUntil, err
}

// openSubscriber opens the stream of changes of a set, which begins at the
// baseline. Without a callback it is pulled only. Look is that of subscriber.Options.
func (c *Copy) openSubscriber(set namedSet, st setState, callback string, look func()) (*subscriber.Subscriber, error) {
	topic := set.Topic
	if callback == "" {
		topic = ""
	}
	s, err := subscriber.Open(subscriber.Options{
		MaxEntries: c.o.MaxEntries,
		Hubs:       set.Hubs, Look: look,
		Dir: c.subscriberDir(set.name), Topic: topic, Hub: c.o.Hub, Callback: callback, Lease: c.o.Lease, InsecureSecret: c.o.InsecureSecret, MinSignature: c.o.MinSignature,
		ChangeList: set.Documents[resourcesync.ChangeList], ChangeListArchive: set.Documents[resourcesync.ChangeListArchive],
		Start: st.BaselineAt, CheckEvery: c.o.CheckEvery, HoldFor: c.o.HoldFor, Client: c.web, Log: c.log,
	})
	if err != nil {
		return nil, err
	}
	if err := nameSet(c.subscriberDir(set.name), set.name); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// applyAll carries changes out, some at a time, and commits them. It ends, and reports so,
// where the stream says that changes were missed.
func (c *Copy) applyAll(ctx context.Context, set namedSet, s *subscriber.Subscriber, changes iter.Seq[subscriber.Change], t *tally) (missed bool, err error) {
	var batch []subscriber.Change
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		if err := c.apply(ctx, set, batch, t); err != nil {
			return err
		}
		last := batch[len(batch)-1].Cursor
		batch = batch[:0]
		return s.Commit(last)
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
	return false, errors.Join(flush(), s.Err(), ctx.Err())
}

// apply carries out changes. That a baseline is needed it remembers.
func (c *Copy) apply(ctx context.Context, set namedSet, changes []subscriber.Change, t *tally) error {
	var wants []want
	for i := range changes {
		e := &changes[i]
		if e.NeedsBaseline {
			if err := c.missed(set, e); err != nil {
				return err
			}
		}
		if e.Loc != "" {
			w := wanted(set.name, &e.Entry)
			w.notificationID, w.unlisted = e.NotificationID, set.pushOnly()
			wants = append(wants, w)
		}
	}
	return c.change(ctx, t, wants)
}

// change carries out changes that came one after the other: of each resource the last
// one, deletions first, so that a folder may take the place of a file. So may it where
// there is no file yet, but somebody tries again to have it.
func (c *Copy) change(ctx context.Context, t *tally, wants []want) error {
	last := map[string]int{}
	for i := range wants {
		last[wants[i].url] = i
	}
	var deletes, others []want
	for i, w := range wants {
		switch {
		case last[w.url] != i:
		case w.change.Removes():
			deletes = append(deletes, w)
		default:
			others = append(others, w)
		}
	}
	if err := c.deleteAll(ctx, deletes, t, "the Source deleted it"); err != nil || len(others) == 0 {
		return err
	}
	return c.carryOut(ctx, t, "changes", len(others), values(others))
}

// missed remembers that a set needs a new baseline, before the change that says so
// is committed.
func (c *Copy) missed(set namedSet, change *subscriber.Change) error {
	if err := c.pushedUntil(set, change.From); err != nil {
		return err
	}
	st := c.state.set(set.name)
	if change.Until.After(st.Due) {
		st.Due = change.Until
	}
	return c.state.putSet(set.name, st)
}

// tryAgain tries what could not be had, where its time has come by now; at the zero
// time that is all.
func (c *Copy) tryAgain(ctx context.Context, t *tally, now time.Time) error {
	var deletes []want
	n := 0
	for url, f := range c.state.failures() {
		switch {
		case !now.IsZero() && f.NextAt.After(now), t.tried(url):
		case f.Change.Removes():
			deletes = append(deletes, f.again(url))
		default:
			n++
		}
	}
	if err := c.deleteAll(ctx, deletes, t, "the Source deleted it"); err != nil || n == 0 {
		return err
	}
	return c.carryOut(ctx, t, "changes", n, func(yield func(want) bool) {
		for url, f := range c.state.failures() {
			due := now.IsZero() || !f.NextAt.After(now)
			if due && !f.Change.Removes() && !t.tried(url) && !yield(f.again(url)) {
				return
			}
		}
	})
}
