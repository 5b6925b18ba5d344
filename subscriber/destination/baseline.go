package destination

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"maps"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber"
)

// errNoBaseline says that a set has nothing that a baseline can be taken from.
var errNoBaseline = errors.New("the Source offers neither a Resource List nor a Resource Dump")

// ErrBehind says that the Source's list or dump is older than changes that were
// missed and can't be had: the copy can be in step again once the Source makes a new one.
var ErrBehind = errors.New("what changed since is in no Change List any more; try again when the Source has made a new one")

// needsBaseline reports whether a set has none yet, or one is due since changes were
// missed, or there was nothing that it could be taken from and now is.
func needsBaseline(set namedSet, st setState) bool {
	return st.BaselineAt.IsZero() || !st.Due.IsZero() || st.From == "" && set.offers(resourcesync.ResourceList, resourcesync.ResourceDump)
}

// newBaseline takes a baseline, and remembers that it is there.
func (s *syncer) newBaseline(ctx context.Context, set namedSet, st setState, t *tally) (setState, error) {
	next, err := s.baseline(ctx, set, st, t)
	switch {
	case errors.Is(err, errUnchanged):
		return st, nil
	case errors.Is(err, errNoBaseline): // changes only: whatever they say from the beginning on
		if !st.Due.IsZero() && !st.BaselineAt.IsZero() && !st.BaselineAt.Equal(beginning) {
			s.log.Error("changes were missed, and the Source has no list to make up for them", "event", "changes_lost", "set", set.name)
		}
		next, err = st, nil
		if next.BaselineAt.IsZero() {
			next.BaselineAt, next.DumpsUntil = beginning, beginning
		}
	}
	if err != nil || s.o.DryRun {
		return st, err
	}
	next.Due, next.Via = time.Time{}, s.o.Source
	return next, errors.Join(s.state.putSet(set.name, next), s.state.forgetDeletions(set.name, next.BaselineAt))
}

// beginning is before all changes.
var beginning = time.Unix(1, 0).UTC()

// baseline brings the copy of a set in step with the Source's Resource List or
// Resource Dump. What is there and as it should be is not fetched again, so that a
// baseline that was cut off goes on where it stopped.
func (s *syncer) baseline(ctx context.Context, set namedSet, st setState, t *tally) (setState, error) {
	list, dump := set.Documents[resourcesync.ResourceList], set.Documents[resourcesync.ResourceDump]
	useDump := dump != "" && (list == "" || s.o.Baseline == BaselineDump ||
		s.o.Baseline == BaselineAuto && st.BaselineAt.IsZero() && s.state.count() < 100)
	if useDump && !s.o.DryRun {
		next, err := s.fromDump(ctx, set, dump, st, t)
		if err == nil || list == "" || ctx.Err() != nil || fatal(err) {
			return next, err
		}
		s.log.Warn("the Resource Dump could not be used; the Resource List is", "event", "dump_failed", "dump", dump, "error", err)
	}
	switch {
	case list != "":
		return s.fromList(ctx, set, list, st, t)
	case dump != "":
		return st, fmt.Errorf("a dry run does not fetch dumps, and there is no Resource List that says what is in %s", dump)
	}
	return st, errNoBaseline
}

// fromList takes a baseline from a Resource List.
func (s *syncer) fromList(ctx context.Context, set namedSet, address string, st setState, t *tally) (setState, error) {
	last := st
	if needsBaseline(set, st) {
		last = setState{} // the same list will not do
	}
	docs, err := s.lists.download(ctx, address, resourcesync.ResourceList, last)
	if err != nil {
		return st, err
	}
	defer docs.remove()
	if docs.at.Before(st.Due) {
		return st, fmt.Errorf("%s is as of %s: %w", address, resourcesync.FormatDatetime(docs.at), ErrBehind)
	}
	listed, err := docs.resources()
	if err != nil {
		return st, fmt.Errorf("reading %s: %w", address, err)
	}
	newer, err := s.leftToChanges(ctx, set, docs.at, st)
	if err != nil {
		return st, err
	}
	t.baseline(address)
	var failed error
	wants := func(yield func(desired) bool) {
		for e, err := range docs.entries() {
			if err != nil {
				failed = err
				return
			}
			if _, ok := newer[e.Loc]; !ok && !yield(asListed(desiredFrom(set.name, &e))) {
				return
			}
		}
		marks(newer)(yield)
	}
	if err := s.reconciler.carryOut(ctx, t, "baseline", len(listed), wants); err != nil {
		return st, err
	}
	if failed != nil {
		return st, fmt.Errorf("reading %s: %w", address, failed)
	}
	for url := range newer { // theirs is the stream's business
		listed[keyOf(url)] = struct{}{}
	}
	if err := s.reconciler.deleteUnlisted(ctx, set, listed, docs.at, t); err != nil {
		return st, err
	}
	next := setState{CapabilityList: set.CapabilityList, BaselineAt: docs.at, From: address, DumpsUntil: docs.at, ETag: docs.etag, Modified: docs.modified}
	return next, nil
}

// marks note of resources that a baseline leaves to the changes since that their set
// lists them.
func marks(left map[string]desired) iter.Seq[desired] {
	return func(yield func(desired) bool) {
		for url, w := range left {
			if !w.change.Removes() && !yield(desired{url: url, set: w.set, length: -1, change: w.change, changedAt: w.changedAt, mark: true}) {
				return
			}
		}
	}
}

// leftToChanges are the resources of a set that a baseline leaves to the changes since: those
// that changed, where st tells of a baseline before it, as they were carried out
// already; of a first one those that were deleted, which would come only to go again.
func (s *syncer) leftToChanges(ctx context.Context, set namedSet, since time.Time, st setState) (map[string]desired, error) {
	newer, _, err := s.changesSince(ctx, set, since)
	if st.BaselineAt.IsZero() {
		maps.DeleteFunc(newer, func(_ string, w desired) bool { return !w.change.Removes() })
	}
	return newer, err
}

// changesSince are the resources of a set that changed since its list was made, by the
// last change of each, and until when that is known.
func (s *syncer) changesSince(ctx context.Context, set namedSet, since time.Time) (map[string]desired, time.Time, error) {
	out, until := map[string]desired{}, since
	var err error
	switch {
	case set.offers(resourcesync.ChangeList):
		until, err = subscriber.ReadChanges(ctx, s.source.web, set.Set, since, s.lists.limit(), func(e resourcesync.Entry) error {
			out[e.Loc] = desiredFrom(set.name, &e)
			return nil
		})
	case set.offers(resourcesync.ChangeDump) && !s.o.DryRun:
		defer s.state.addPushed(set, since, out)
		err = s.lists.changeDumps(ctx, set, since, func(wants []desired) error {
			for _, w := range wants {
				w.open = nil // the package will be gone
				out[w.url] = w
			}
			return nil
		}, func(to time.Time) error { until = to; return nil })
	default:
		s.state.addPushed(set, since, out)
	}
	if err != nil && ctx.Err() == nil {
		s.log.Warn("the changes since the list was made can't be had", "event", "changes_unknown", "set", set.name, "since", since, "error", err)
		return map[string]desired{}, since, nil
	}
	return out, until, err
}

// key stands for a URL where a million of them are in memory.
type key [16]byte

func keyOf(url string) key {
	sum := sha256.Sum256([]byte(url))
	return key(sum[:16])
}
