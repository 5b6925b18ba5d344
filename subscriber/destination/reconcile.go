package destination

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// reconciler brings files in step with what is known of the Source. It may be shared
// between goroutines.
type reconciler struct {
	o       *Options
	log     *slog.Logger
	source  *source
	tree    *tree
	fetcher *fetcher
	state   *state

	claims   claims
	deleting sync.Mutex // held by the one who uses up the share of deletions
}

func newReconciler(o *Options, source *source, f *fetcher) *reconciler {
	return &reconciler{o: o, log: o.Log, source: source, tree: f.tree, fetcher: f, state: f.state, claims: claims{of: map[string]chan struct{}{}}}
}

// change carries out changes that came one after the other: of each resource the last
// one, deletions first, so that a folder may take the place of a file. So may it where
// there is no file yet, but somebody tries again to have it.
func (r *reconciler) change(ctx context.Context, t *tally, wants []desired) error {
	last := map[string]int{}
	for i := range wants {
		last[wants[i].url] = i
	}
	var deletes, others []desired
	for i, w := range wants {
		switch {
		case last[w.url] != i:
		case w.change.Removes():
			deletes = append(deletes, w)
		default:
			others = append(others, w)
		}
	}
	if err := r.deleteAll(ctx, deletes, t, "the Source deleted it"); err != nil || len(others) == 0 {
		return err
	}
	return r.carryOut(ctx, t, "changes", len(others), values(others))
}

// tryAgain tries what could not be had, where its time has come by now; at the zero
// time that is all.
func (r *reconciler) tryAgain(ctx context.Context, t *tally, now time.Time) error {
	var deletes []desired
	n := 0
	for url, f := range r.state.failures() {
		switch {
		case !now.IsZero() && f.NextAt.After(now), t.tried(url):
		case f.Change.Removes():
			deletes = append(deletes, f.again(url))
		default:
			n++
		}
	}
	if err := r.deleteAll(ctx, deletes, t, "the Source deleted it"); err != nil || n == 0 {
		return err
	}
	return r.carryOut(ctx, t, "changes", n, func(yield func(desired) bool) {
		for url, f := range r.state.failures() {
			due := now.IsZero() || !f.NextAt.After(now)
			if due && !f.Change.Removes() && !t.tried(url) && !yield(f.again(url)) {
				return
			}
		}
	})
}

// reconcileOne does what is wanted of one resource, which is claimed. False: it is not
// wanted any more.
func (r *reconciler) reconcileOne(ctx context.Context, w desired) (res result, ok bool) {
	res = result{desired: w, what: Unchanged}
	if w.again {
		f, failed := r.state.failure(w.url)
		if !failed || f.Change != w.change || !f.ChangedAt.Equal(w.changedAt) {
			return res, false
		}
	}
	if w.mark || r.isBehindFailure(&w) {
		res.apart = true
	} else if w.change.Removes() {
		if r.state.othersList(w.url, w.leavingSets()) {
			f, _ := r.state.failure(w.url)
			res.apart = !f.Change.Removes()
		} else if r.tree.has(w.url) {
			res.what = Deleted
			if !r.o.DryRun {
				res.file, res.err = r.tree.remove(w)
			}
		}
	} else if have, there := r.isInStep(w); there {
		res.file = have
		res.touched = r.refresh(&res.file, w)
	} else {
		res.what = Copied
		if r.o.DryRun {
			res.file.Length = max(0, w.length)
		} else {
			before := r.tree.recordedHash(w)
			res.file, res.err = r.fetcher.fetch(ctx, w)
			res.file.ChangedAt = w.changedAt
			if res.err == nil && before != "" && res.file.Hash == before {
				res.what, res.touched = Unchanged, true
			}
		}
	}
	if res.err != nil {
		res.what = Failed
	}
	return res, true
}

// refresh brings what is remembered of a file up to date, where the Source tells
// another time of the same bytes, or has the resource in another set.
func (r *reconciler) refresh(f *file, w desired) (touched bool) {
	if r.o.DryRun {
		return false
	}
	if !w.lastMod.IsZero() && !w.lastMod.Equal(f.LastMod) {
		r.tree.setTime(f.Path, w.lastMod)
		f.LastMod, touched = w.lastMod, true
	}
	if f.Set != w.set && !r.source.isSet(f.Set) {
		f.Set, touched = w.set, true
	}
	if f.Set == w.set && w.changedAt.After(f.ChangedAt) {
		f.ChangedAt, touched = w.changedAt, true
	}
	return touched
}

// isInStep reports whether a resource is in the copy as it is wanted, as far as can be
// told without reading it. The time of modification does not count for a change that
// has a time of its own: that may have kept it. It does for one without, as lists of
// such changes are handed on again when their beginning changes.
func (r *reconciler) isInStep(w desired) (file, bool) {
	f, ok := r.state.file(w.url)
	if !ok || w.force {
		return f, false
	}
	info, err := r.tree.root.Lstat(f.Path)
	if err != nil || !info.Mode().IsRegular() || info.Size() != f.Length {
		return f, false
	}
	if r.outdated(&f, &w) {
		return f, true
	}
	if w.length >= 0 && w.length != f.Length {
		return f, false
	}
	switch resourcesync.ParseHashes(f.Hash).Compare(w.digests) {
	case resourcesync.Equal:
		return f, true
	case resourcesync.Different:
		return f, false
	}
	return f, (w.change == "" || w.changedAt.IsZero()) && f.Instead == "" && !w.lastMod.IsZero() && w.lastMod.Equal(f.LastMod)
}

// isBehindFailure reports whether another set that lists the same resource described a
// later state of it, which could not be fetched yet. The failure stays, and is tried again.
func (r *reconciler) isBehindFailure(w *desired) bool {
	f, failed := r.state.failure(w.url)
	if !failed || w.again || f.Set == w.set || f.Change.Removes() || w.change.Removes() || !isLater(f.ChangedAt, f.LastMod, w) {
		return false
	}
	_, lists := r.state.members(w.url)[f.Set]
	return lists
}

// outdated reports whether another set that lists the same resource described a later
// state of it, of which the copy has the bytes: sets may be behind each other, and the
// copy would go back and forth between them.
func (r *reconciler) outdated(f *file, w *desired) bool {
	if !f.Said || f.Set == w.set || !isLater(f.ChangedAt, f.LastMod, w) {
		return false
	}
	_, lists := r.state.members(w.url)[f.Set]
	return lists
}

// isLater reports whether a state that is described with these times is later than w: by
// the times of the changes where both have one, or else, for w of a list, by the times of
// modification.
func isLater(changedAt, lastMod time.Time, w *desired) bool {
	if !w.changedAt.IsZero() && !changedAt.IsZero() {
		return changedAt.After(w.changedAt)
	}
	return w.change == "" && !w.lastMod.IsZero() && lastMod.After(w.lastMod)
}
