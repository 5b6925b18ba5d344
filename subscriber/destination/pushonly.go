package destination

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber"
)

// A Source may push changes and have no Change List. What was pushed is then known to
// the copy alone: a list or dump that is older than a change must not undo it. Of files
// that are there, their records say when they changed; of those that are not, the
// deletions that are remembered here.

// keepDeletions is for how long they are, where no baseline makes them superfluous: no
// list or dump that is used is older.
const keepDeletions = 31 * 24 * time.Hour

// deletion is when a resource of a set was pushed as deleted.
type deletion struct {
	Set string    `json:"set"`
	At  time.Time `json:"at"`
}

// deletionKey is that of the deletion of a resource by a set.
func deletionKey(set, url string) string { return digest(set, 8) + " " + url }

// forgetDeletions forgets the deletions of a set up to an instant, and those that are too old.
func (s *state) forgetDeletions(set string, until time.Time) error {
	if old := time.Now().Add(-keepDeletions); old.After(until) {
		until = old
	}
	var stale []string
	for key, was := range goneTable.all(s) {
		if was.Set == set && !was.At.After(until) {
			stale = append(stale, key)
		}
	}
	return s.update(func(w *writer) {
		for _, key := range stale {
			goneTable.delete(w, key)
		}
	})
}

// addPushed adds to changes, by URL, those of a set after an instant that are in the copy
// already: they were pushed, and no list tells of them.
func (s *state) addPushed(set namedSet, since time.Time, changes map[string]desired) {
	add := func(w desired) {
		if have, ok := changes[w.url]; !ok || have.changedAt.Before(w.changedAt) {
			changes[w.url] = w
		}
	}
	for url, f := range s.files() {
		if at := s.members(url)[set.name]; at.After(since) {
			w := recordedWant(url, set.name, f)
			w.change, w.changedAt = resourcesync.Updated, at
			add(w)
		}
	}
	for key, was := range goneTable.all(s) {
		if _, url, _ := strings.Cut(key, " "); was.Set == set.name && was.At.After(since) {
			w := absent(set.name, url)
			w.changedAt = was.At
			add(w)
		}
	}
}

// isStale reports whether a change of a Change Dump is older than one of its resource
// that was pushed meanwhile, for the same set.
func (s *state) isStale(w desired) bool {
	was, _ := goneTable.read(s, deletionKey(w.set, w.url))
	return !w.changedAt.IsZero() && later(was.At, s.members(w.url)[w.set]).After(w.changedAt)
}

// syncNow takes what a set without Change Lists has, where something may not have been
// pushed.
func (f *follower) syncNow(ctx context.Context, set namedSet) {
	switch _, err := f.syncer.syncSet(ctx, set, newTally(f.o.Source)); {
	case err == nil:
		f.inStep(set)
	case ctx.Err() == nil:
		f.log.Warn("the set could not be brought in step; it is tried again", "event", "sync_failed", "set", set.name, "error", err)
	}
}

// pushedUntil notes how far a set without Change Lists was pushed: its Change Dumps are of
// interest from there on. As long as something before it was missed they are from where
// that began.
func (s *syncer) pushedUntil(set namedSet, until time.Time) error {
	st := s.state.set(set.name)
	if !set.pushOnly() || !st.Due.IsZero() || !until.After(st.DumpsUntil) {
		return nil
	}
	st.DumpsUntil = until
	return s.state.putSet(set.name, st)
}

// catchUp takes the baseline that a set needs. Where that is due since something was
// missed, and there are Change Dumps in place of Change Lists which have it by now, they
// are taken.
func (s *syncer) catchUp(ctx context.Context, set namedSet, st setState, t *tally) (setState, error) {
	due := st.Due
	if s.o.DryRun || due.IsZero() || st.BaselineAt.IsZero() || set.offers(resourcesync.ChangeList) || !set.offers(resourcesync.ChangeDump) {
		return s.newBaseline(ctx, set, st, t)
	}
	_, err := s.pullChangeDumps(ctx, set, st, t)
	next := s.state.set(set.name)
	switch {
	case err != nil && !errors.Is(err, ErrBehind) && !next.Due.IsZero():
		s.log.Warn("the Change Dumps could not be used; a baseline is taken", "event", "dump_failed", "set", set.name, "error", err)
	case next.Due.IsZero(): // it took a baseline itself
		return next, nil
	case next.DumpsUntil.Before(next.Due):
	default:
		s.log.Info("what was missed came from the Change Dumps", "event", "gap_repaired", "set", set.name, "until", due)
		next.Due = time.Time{}
		return next, s.state.putSet(set.name, next)
	}
	return s.newBaseline(ctx, set, next, t)
}

// inForce reports whether a hub pushes changes to a subscriber.
func inForce(s *subscriber.Subscriber) bool {
	st, err := s.Status()
	return err == nil && slices.ContainsFunc(st.Subscriptions, func(sub subscriber.SubscriptionStatus) bool { return sub.State == "active" })
}
