package destination

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// A Source may push changes and have no Change List. Then only the copy knows what was
// pushed, and a list or dump that is older than a change must not undo it. The records of
// files say when they changed. Deletions are recorded here.

// keepDeletions is how long deletions are kept if no baseline makes them superfluous.
// Lists and dumps that are used are not older.
const keepDeletions = 31 * 24 * time.Hour

// deletion records that a resource of a set was pushed as deleted.
type deletion struct {
	Set string    `json:"set"`
	At  time.Time `json:"at"`
}

// deletionKey returns the key of the deletion of a resource by a set.
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

// addPushed adds to changes, by URL, those of a set after an instant that the copy has
// already: they were pushed, and are in no list.
func (s *state) addPushed(set namedSet, since time.Time, changes map[string]desired) {
	add := func(w desired) {
		if have, ok := changes[w.url]; !ok || have.changedAt.Before(w.changedAt) {
			changes[w.url] = w
		}
	}
	for url, f := range s.changedFiles() {
		if at := f.members[set.name]; at.After(since) {
			w := recordedWant(url, set.name, f.file)
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

// isStale reports whether a change of a Change Dump is older than a pushed change of the
// same resource and set.
func (s *state) isStale(w desired) bool {
	was, _ := goneTable.read(s, deletionKey(w.set, w.url))
	return !w.changedAt.IsZero() && later(was.At, s.members(w.url)[w.set]).After(w.changedAt)
}

// syncNow syncs a set without Change Lists, because a push may be missing.
func (f *follower) syncNow(ctx context.Context, set namedSet) {
	var err error
	f.audits.sync(ctx, func() { _, err = f.syncer.syncSet(ctx, set, newTally(f.o.Source)) })
	switch {
	case err == nil:
		f.inStep(set)
	case ctx.Err() == nil:
		f.troubles.set(set.name, err)
		f.log.Warn("the set could not be brought in sync; it is tried again", "event", "sync_failed", "set", set.name, "error", err)
	}
}

// pushedUntil records how far a set without Change Lists was pushed: its Change Dumps are
// read from there on. While earlier changes are missing, they are read from where the gap
// begins.
func (s *syncer) pushedUntil(set namedSet, until time.Time) error {
	st := s.state.set(set.name)
	if !set.pushOnly() || !st.Due.IsZero() || !until.After(st.DumpsUntil) {
		return nil
	}
	st.DumpsUntil = until
	return s.state.putSet(set.name, st)
}

// catchUp makes the baseline that a set needs. If the baseline is due because changes were
// missed, and the set has Change Dumps in place of Change Lists, it applies these if they
// have the changes.
func (s *syncer) catchUp(ctx context.Context, set namedSet, st setState, t *tally) (setState, error) {
	due := st.Due
	if s.o.DryRun || due.IsZero() || st.BaselineAt.IsZero() || set.offers(resourcesync.ChangeList) || !set.offers(resourcesync.ChangeDump) {
		return s.newBaseline(ctx, set, st, t)
	}
	_, err := s.pullChangeDumps(ctx, set, st, t)
	next := s.state.set(set.name)
	switch {
	case err != nil && !errors.Is(err, ErrBehind) && !next.Due.IsZero():
		s.log.Warn("the Change Dumps could not be used; a new baseline is made", "event", "dump_failed", "set", set.name, "error", err)
	case next.Due.IsZero(): // pullChangeDumps made a baseline
		return next, nil
	case next.DumpsUntil.Before(next.Due):
	default:
		s.log.Info("the Change Dumps had the missed changes", "event", "gap_repaired", "set", set.name, "until", due)
		next.Due = time.Time{}
		return next, s.state.putSet(set.name, next)
	}
	return s.newBaseline(ctx, set, next, t)
}
