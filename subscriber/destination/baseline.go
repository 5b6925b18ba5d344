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

// errNoBaseline says that a set has no document to make a baseline from.
var errNoBaseline = errors.New("the Source offers neither a Resource List nor a Resource Dump")

// ErrBehind says that the Source's list or dump is older than changes that were missed and are
// lost. The copy can be in sync again once the Source writes a new list or dump.
var ErrBehind = errors.New("the changes since then are in no Change List any more; try again when the Source has written a new list or dump")

// needsBaseline reports whether a set has no baseline yet, or needs a new one because
// changes were missed, had no document to make one from and has one now, or was made for another
// selection.
func (s *syncer) needsBaseline(set namedSet, st setState) bool {
	return s.reconciler.selector.isNew(set, st) || st.BaselineAt.IsZero() || !st.Due.IsZero() || st.From == "" && set.offers(resourcesync.ResourceList, resourcesync.ResourceDump)
}

// newBaseline makes a baseline, and records it.
func (s *syncer) newBaseline(ctx context.Context, set namedSet, st setState, t *tally) (setState, error) {
	if err := s.state.unreadable(); err != nil { // so it only seems that the set needs one
		return st, err
	}
	end, err := s.o.turn(ctx, s.reconciler.progressed)
	if err != nil {
		return st, err
	}
	next, err := s.baseline(ctx, set, st, t)
	end()
	switch {
	case errors.Is(err, errUnchanged):
		return st, nil
	case errors.Is(err, errNoBaseline): // changes only: apply all of them
		next, err = st, nil
		if !st.Due.IsZero() {
			s.log.Error("changes were missed, and the Source has no list from which they can be repaired", "event", "changes_lost", "set", set.name, "before", st.Due)
			next.Lost = later(st.Lost, st.Due)
		}
		if next.BaselineAt.IsZero() {
			next.BaselineAt, next.DumpsUntil = firstInstant, firstInstant
			next.Unread = set.offers(resourcesync.ChangeList, resourcesync.ChangeDump)
		}
	}
	if err != nil || s.o.DryRun {
		return st, err
	}
	next.Due, next.Via, next.Way = time.Time{}, s.o.Source, set.way
	return next, errors.Join(s.state.putSet(set.name, next), s.state.forgetDeletions(set.name, next.BaselineAt))
}

// firstInstant is before all changes.
var firstInstant = time.Unix(1, 0).UTC()

// baseline brings the copy of a set in sync with the Source's Resource List or Resource Dump.
// Resources that are in sync are not fetched again, so an interrupted baseline continues where it
// stopped.
func (s *syncer) baseline(ctx context.Context, set namedSet, st setState, t *tally) (setState, error) {
	list, dump := set.Documents[resourcesync.ResourceList], set.Documents[resourcesync.ResourceDump]
	docs, useDump, why := s.chooseBaseline(ctx, set, st)
	if docs != nil {
		defer docs.remove()
	}
	if useDump {
		next, err := s.baselineFrom(ctx, set, resourcesync.ResourceDump, st, nil, t)
		if err == nil || list == "" || ctx.Err() != nil || fatal(err) {
			t.chooseBaseline("dump", why)
			return next, err
		}
		why = fmt.Sprintf("the Resource Dump cannot be used: %v", err)
		s.log.Warn("the Resource Dump could not be used; the Resource List is used instead", "event", "dump_failed", "dump", dump, "error", err)
	}
	if list != "" {
		t.chooseBaseline("list", why)
	}
	switch {
	case list != "":
		return s.baselineFrom(ctx, set, resourcesync.ResourceList, st, docs, t)
	case dump != "":
		return st, fmt.Errorf("a dry run does not fetch dumps, and no Resource List says what is in %s", dump)
	}
	return st, errNoBaseline
}

// chooseBaseline decides between a Resource List and a Resource Dump, and says why if the set has
// both. It returns the list if it has downloaded it.
func (s *syncer) chooseBaseline(ctx context.Context, set namedSet, st setState) (docs *documents, useDump bool, why string) {
	list, dump := set.Documents[resourcesync.ResourceList], set.Documents[resourcesync.ResourceDump]
	switch {
	case dump == "" || s.o.DryRun:
		return nil, false, ""
	case list == "":
		return nil, true, ""
	case s.o.Baseline != BaselineAuto:
		return nil, s.o.Baseline == BaselineDump, "it was asked for"
	case !s.reconciler.selector.All():
		return nil, false, "only a part of the Source is selected"
	case s.state.count() == 0:
		return nil, true, "the copy has no files yet"
	case !s.needsBaseline(set, st):
		return nil, false, "the list is compared with the copy"
	}
	docs, err := s.lists.download(ctx, list, resourcesync.ResourceList, setState{})
	if err != nil {
		return nil, false, "" // its use reports the error
	}
	useDump, why = s.cheaperDump(ctx, set, docs)
	return docs, useDump, why
}

// baselineFrom makes a baseline from a Resource List or a Resource Dump, which may be downloaded
// already.
func (s *syncer) baselineFrom(ctx context.Context, set namedSet, capability string, st setState, docs *documents, t *tally) (setState, error) {
	address, apply := set.Documents[capability], s.applyDump
	var last setState
	if capability == resourcesync.ResourceList {
		apply = s.applyList
		if !s.needsBaseline(set, st) { // otherwise the same list is of no use
			last = st
		}
	}
	if docs == nil {
		var err error
		if docs, err = s.lists.download(ctx, address, capability, last); err != nil {
			return st, err
		}
		defer docs.remove()
	}
	if docs.at.Before(st.Due) {
		return st, fmt.Errorf("%s is as of %s: %w", address, resourcesync.FormatDatetime(docs.at), ErrBehind)
	}
	newer, err := s.leftToChanges(ctx, set, docs.at, st)
	if err != nil {
		return st, err
	}
	t.baseline(address)
	c := &picked{selector: s.reconciler.selector, tally: t}
	listed, err := apply(ctx, set, docs, newer, c)
	if err != nil {
		return st, err
	}
	resources := len(listed)
	empty := resources == 0
	for url := range newer { // the stream of changes decides about these
		listed[keyOf(url)] = struct{}{}
	}
	if err := s.reconciler.deleteUnlisted(ctx, set, listed, empty, docs.at, t); err != nil {
		return st, err
	}
	if err := s.dropUnselected(ctx, set, c, resources, t); err != nil {
		return st, err
	}
	if !docs.at.Before(st.Lost) {
		st.Lost = time.Time{}
	}
	return setState{Selected: s.reconciler.selector.digest, CapabilityList: set.CapabilityList, BaselineAt: docs.at, From: address, DumpsUntil: docs.at, ETag: docs.etag, Modified: docs.modified, Lost: st.Lost}, nil
}

// applyList fetches what a Resource List has, and returns the resources that it lists.
func (s *syncer) applyList(ctx context.Context, set namedSet, docs *documents, newer map[string]desired, c *picked) (map[key]struct{}, error) {
	listed, err := docs.resources()
	if err != nil {
		return nil, err
	}
	return listed, s.reconciler.carryOut(ctx, c.tally, "baseline", len(listed), s.readAgain(docs, c.from(docs.wants(set, newer))))
}

// readAgain yields resources, and forgets the validators of their list if one of them may change again without a change of
// the list: it has no hash, and a date of today. The list is read in full the next time, and the resource asked for.
func (s *syncer) readAgain(docs *documents, wants iter.Seq2[desired, error]) iter.Seq2[desired, error] {
	return func(yield func(desired, error) bool) {
		for w, err := range wants {
			if is := s.reconciler.fetcher.prefer.apply(w); len(is.digests.Algorithms()) == 0 && isToday(is.lastMod) {
				docs.etag, docs.modified = "", ""
			}
			if !yield(w, err) {
				return
			}
		}
	}
}

// leftToChanges returns the resources of a set that a baseline leaves to the changes since.
// These are the resources that changed, if st has an earlier baseline: the changes were
// applied already, and it only marks that the set lists them. If they were applied for another
// selection, the changes count instead of the list. For a first baseline they are the deleted resources, which would be
// fetched only to be deleted.
func (s *syncer) leftToChanges(ctx context.Context, set namedSet, since time.Time, st setState) (map[string]desired, error) {
	newer, _, err := s.changesSince(ctx, set, since)
	if err != nil && ctx.Err() == nil {
		s.log.Warn("the changes since the list was made are unavailable", "event", "changes_unknown", "set", set.name, "since", since, "error", err)
		newer, err = map[string]desired{}, nil
	}
	switch {
	case st.BaselineAt.IsZero():
		maps.DeleteFunc(newer, func(_ string, w desired) bool { return !w.change.Removes() })
	case st.Selected == s.reconciler.selector.digest:
		for url, w := range newer {
			w.mark = true
			newer[url] = w
		}
	}
	return newer, err
}

// changesSince returns the last change of each resource of a set since its list was made,
// and until when the changes are known.
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
		err = s.lists.changeDumps(ctx, set, set.Documents[resourcesync.ChangeDump], since, func(wants []desired, to time.Time) error {
			for _, w := range wants {
				w.open = nil // the package will be gone
				out[w.url] = w
			}
			until = to
			return nil
		})
	default:
		s.state.addPushed(set, since, out)
	}
	return out, until, err
}

// key identifies a URL where a million of them may be in memory.
type key [16]byte

func keyOf(url string) key {
	sum := sha256.Sum256([]byte(url))
	return key(sum[:16])
}
