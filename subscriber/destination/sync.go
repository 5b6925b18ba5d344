package destination

import (
	"context"
	"errors"
	"fmt"
	"iter"
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
// worked with; what was done before it stays done.
func (c *Copy) Sync(ctx context.Context) (Report, error) {
	t := &tally{Report: Report{Source: c.o.Source, Began: time.Now(), DryRun: c.o.DryRun, Problems: []Problem{}}}
	err := c.sync(ctx, t)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Took = time.Since(t.Began)
	return t.Report, err
}

func (c *Copy) sync(ctx context.Context, t *tally) error {
	sets, err := c.sets(ctx)
	if err != nil {
		return err
	}
	var failed error
	var until []time.Time
	for _, set := range sets {
		to, err := c.syncSet(ctx, set, t)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("the set %s: %w", set.name, err))
		}
		until = append(until, to)
	}
	if failed == nil && !c.o.DryRun {
		failed = c.tryAgain(ctx, t, time.Time{})
	}
	if len(until) == 1 {
		t.Until = until[0]
	}
	return failed
}

// syncSet brings one set in step, and returns as of when it is.
func (c *Copy) syncSet(ctx context.Context, set namedSet, t *tally) (time.Time, error) {
	st, err := c.state.set(set.name)
	if err != nil {
		return time.Time{}, err
	}
	if c.needsBaseline(set, st) {
		if st, err = c.newBaseline(ctx, set, t); err != nil || c.o.DryRun {
			return st.BaselineAt, err
		}
	}
	switch {
	case set.offers(resourcesync.ChangeList):
		return c.pull(ctx, set, st, t)
	case set.offers(resourcesync.ChangeDump) && !c.o.DryRun:
		return c.pullDumps(ctx, set, st, t)
	case t.Baseline == "": // there are no changes to be had: the list again
		st, err = c.newBaseline(ctx, set, t)
	}
	return st.BaselineAt, err
}

// needsBaseline reports whether a set has none yet, or had nothing that it could be
// taken from and now has.
func (c *Copy) needsBaseline(set namedSet, st setState) bool {
	return st.BaselineAt.IsZero() || st.From == "" && set.offers(resourcesync.ResourceList, resourcesync.ResourceDump)
}

// newBaseline takes a baseline, and remembers that it is there.
func (c *Copy) newBaseline(ctx context.Context, set namedSet, t *tally) (setState, error) {
	st := setState{CapabilityList: set.CapabilityList}
	at, err := c.baseline(ctx, set, t)
	if errors.Is(err, errNoBaseline) { // changes only: whatever they say from the beginning on
		at, err = time.Unix(1, 0).UTC(), nil
	}
	if err != nil || c.o.DryRun {
		return st, err
	}
	st.BaselineAt, st.From, st.DumpsUntil = at, t.Baseline, at
	return st, c.state.putSet(set.name, st)
}

// pull takes what the Change Lists have.
func (c *Copy) pull(ctx context.Context, set namedSet, st setState, t *tally) (time.Time, error) {
	if c.o.DryRun {
		_, err := subscriber.ReadChanges(ctx, c.web, set.Set, st.BaselineAt, func(e resourcesync.Entry) error {
			what := Copied
			if e.Change == resourcesync.Deleted {
				what = Deleted
			}
			t.event(Event{What: what, URL: e.Loc, Change: e.Change, Bytes: max(0, e.Length)})
			return nil
		})
		return st.BaselineAt, err
	}
	s, err := c.openSubscriber(set, st, "")
	if err != nil {
		return time.Time{}, err
	}
	defer func() { _ = s.Close() }()
	if err := s.CatchUp(ctx); err != nil {
		return time.Time{}, err
	}
	again, err := c.applyAll(ctx, set, s, s.Waiting(ctx), t)
	if err != nil {
		return time.Time{}, err
	}
	if again {
		if _, err := c.newBaseline(ctx, set, t); err != nil {
			return time.Time{}, err
		}
	}
	status, err := s.Status()
	return status.Until, err
}

// pullDumps takes what the Change Dumps have, or else a baseline.
func (c *Copy) pullDumps(ctx context.Context, set namedSet, st setState, t *tally) (time.Time, error) {
	until, err := c.fromChangeDumps(ctx, set, st.DumpsUntil, t)
	if errors.Is(err, errHole) {
		c.log.Warn("the Change Dumps do not reach back far enough; a baseline is taken", "event", "baseline_needed", "error", err)
		st, err = c.newBaseline(ctx, set, t)
		return st.BaselineAt, err
	}
	if err != nil {
		return until, err
	}
	st.DumpsUntil = until
	return until, c.state.putSet(set.name, st)
}

// openSubscriber opens the stream of changes of a set, which begins at the
// baseline. Without a callback it is pulled only.
func (c *Copy) openSubscriber(set namedSet, st setState, callback string) (*subscriber.Subscriber, error) {
	topic := set.Topic
	if callback == "" {
		topic = ""
	}
	hub := c.o.Hub
	return subscriber.Open(subscriber.Options{
		Dir: c.subscriberDir(set.name), Topic: topic, Hub: hub, Callback: callback, Lease: c.o.Lease, InsecureSecret: c.o.InsecureSecret,
		ChangeList: set.Documents[resourcesync.ChangeList], ChangeListArchive: set.Documents[resourcesync.ChangeListArchive],
		Start: st.BaselineAt, CheckEvery: c.o.CheckEvery, Client: c.web, Log: c.log,
	})
}

// applyAll carries changes out, some at a time, and commits them. It reports
// whether the stream said that a baseline is needed.
func (c *Copy) applyAll(ctx context.Context, set namedSet, s *subscriber.Subscriber, changes iter.Seq[subscriber.Change], t *tally) (baseline bool, err error) {
	var batch []subscriber.Change
	flush := func() error {
		again, err := c.apply(ctx, set, batch, t)
		if err != nil || len(batch) == 0 {
			return err
		}
		baseline = baseline || again
		last := batch[len(batch)-1].Cursor
		batch = batch[:0]
		return s.Commit(last)
	}
	for change := range changes {
		if batch = append(batch, change); len(batch) == together {
			if err := flush(); err != nil {
				return baseline, err
			}
		}
	}
	return baseline, errors.Join(flush(), s.Err(), ctx.Err())
}

// apply carries out changes: of each resource the last one, deletions first, so
// that a folder may take the place of a file. It reports whether one of them says
// that a baseline is needed.
func (c *Copy) apply(ctx context.Context, set namedSet, changes []subscriber.Change, t *tally) (baseline bool, err error) {
	last := map[string]int{}
	for i := range changes {
		if changes[i].NeedsBaseline {
			baseline = true
		}
		if changes[i].Loc != "" {
			last[changes[i].Loc] = i
		}
	}
	var deletes, fetches []want
	for i := range changes {
		e := &changes[i]
		if k, ok := last[e.Loc]; !ok || k != i {
			continue
		}
		w := wanted(set.name, &e.Entry)
		w.notificationID = e.NotificationID
		switch {
		case e.Change != resourcesync.Deleted:
			fetches = append(fetches, w)
		case c.isThere(w.url):
			deletes = append(deletes, w)
		default:
			c.forget(w.url)
		}
	}
	if err := c.deleteAll(ctx, deletes, t, "the Source deleted it"); err != nil {
		return baseline, err
	}
	if len(fetches) == 0 {
		return baseline, nil
	}
	return baseline, c.carryOut(ctx, t, "changes", len(fetches), c.lacking(fetches, t))
}

// lacking are those that are not in the copy as they are wanted.
func (c *Copy) lacking(wants []want, t *tally) iter.Seq[want] {
	return func(yield func(want) bool) {
		for _, w := range wants {
			if f, ok := c.has(w); ok && f.Said {
				c.forget(w.url)
				t.event(Event{What: Unchanged, URL: w.url, Path: f.Path})
				continue
			}
			if !yield(w) {
				return
			}
		}
	}
}

// isThere reports whether there is anything of a resource to delete.
func (c *Copy) isThere(url string) bool {
	if _, known, err := c.state.file(url); known || err != nil {
		return true
	}
	p, err := c.wish(url)
	if err != nil || c.state.owner(c.fold(p)) != "" {
		return false
	}
	return !notThere(c, p)
}

// forget drops what is remembered of an earlier failure of a resource.
func (c *Copy) forget(url string) {
	if err := c.state.forget(url); err != nil {
		c.log.Warn("the state could not be written", "event", "state_failed", "error", err)
	}
}

// tryAgain tries what could not be had, where its time has come by now; at the zero
// time that is all.
func (c *Copy) tryAgain(ctx context.Context, t *tally, now time.Time) error {
	failed, err := c.state.failures()
	if err != nil || len(failed) == 0 {
		return err
	}
	var deletes, fetches []want
	for url, f := range failed {
		switch w := f.again(url); {
		case !now.IsZero() && f.NextAt.After(now), t.tried(url):
		case f.Change == resourcesync.Deleted:
			deletes = append(deletes, w)
		default:
			fetches = append(fetches, w)
		}
	}
	if err := c.deleteAll(ctx, deletes, t, "the Source deleted it"); err != nil || len(fetches) == 0 {
		return err
	}
	return c.carryOut(ctx, t, "changes", len(fetches), values(fetches))
}
