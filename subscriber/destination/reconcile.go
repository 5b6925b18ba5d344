package destination

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// reconciler brings files in sync with what is known of the Source. It may be shared between
// goroutines.
type reconciler struct {
	o       *Options
	log     *slog.Logger
	source  *source
	tree    *tree
	fetcher *fetcher
	state   *state
	// selector decides which resources are copied.
	selector *selector

	claims   claims
	deleting sync.Mutex   // locked while deletions use up Options.MaxDelete
	coming   atomic.Int64 // files that changes under way would delete, and that are held
	done     atomic.Int64
	handover *handover // nil: nobody wants events
}

// progressed returns a number that grows with each resource and each 64 KiB.
func (r *reconciler) progressed() int64 { return r.done.Load() + r.fetcher.web.bytes.Load()>>16 }

func newReconciler(o *Options, source *source, f *fetcher) *reconciler {
	return &reconciler{o: o, log: o.Log, source: source, tree: f.tree, fetcher: f, state: f.state}
}

// change carries out consecutive changes: only the last one of each resource, and deletions
// first, so that a folder may replace a file. The deletion of a resource that was never fetched
// ends its retries.
func (r *reconciler) change(ctx context.Context, t *tally, wants []desired) error {
	last := map[string]int{}
	for i := range wants {
		if before, earlier := last[wants[i].url]; earlier {
			wants[i].after(&wants[before])
		}
		last[wants[i].url] = i
	}
	var deletes, others []desired
	for i, w := range wants {
		switch {
		case last[w.url] != i:
		case w.change.Removes():
			deletes = append(deletes, w)
		case !r.selector.wants(&w):
			t.leaveOut()
			if r.selector.drops(w.url) {
				gone := absent(w.set, w.url)
				gone.changedAt = w.changedAt
				deletes = append(deletes, gone)
			}
		default:
			others = append(others, w)
		}
	}
	if err := r.deleteAll(ctx, deletes, t, "the Source deleted it", 0); err != nil || len(others) == 0 {
		return err
	}
	return r.carryOut(ctx, t, "changes", len(others), each(others))
}

// tryAgain tries the failures again that are due by now; all of them if now is zero. Deletions that are
// held count together, whether they are due or not, so that they are not carried out bit by bit.
func (r *reconciler) tryAgain(ctx context.Context, t *tally, now time.Time) error {
	later := 0 // deletions that are held, and not due
	due := func(yield func(desired) bool) {
		later = 0
		for url, f := range r.state.failures() {
			if !now.IsZero() && !f.isDue(now) {
				if f.Held {
					later++
				}
				continue
			}
			w := f.again(url)
			w.held = r.emptied(f.Emptied)
			if !t.tried(url) && !yield(w) {
				return
			}
		}
	}
	var deletes []desired
	n := 0
	for w := range due {
		if w.change.Removes() {
			deletes = append(deletes, w)
		} else {
			n++
		}
	}
	if err := r.deleteAll(ctx, deletes, t, "the Source deleted it", later+int(r.coming.Load())); err != nil || n == 0 {
		return err
	}
	return r.carryOut(ctx, t, "changes", n, func(yield func(desired, error) bool) {
		for w := range due {
			if !w.change.Removes() && !yield(w, nil) {
				return
			}
		}
	})
}

// reconcileOne does what is wanted of one resource, which is claimed. False: it is not
// wanted any more.
func (r *reconciler) reconcileOne(ctx context.Context, w desired) (res result, ok bool) {
	res = result{desired: w, what: Unchanged}
	f, failed := r.state.failure(w.url)
	switch {
	case w.again && (!failed || f.Change != w.change || !f.ChangedAt.Equal(w.changedAt)):
		return res, false
	case w.mark, failed && r.isBehindFailure(&f, &w):
		res.apart = true
	case w.change.Removes():
		r.removeOne(&res, &f)
	default:
		r.bringOne(ctx, &res)
	}
	if res.err != nil && w.held == nil {
		res.what = Failed
	}
	return res, true
}

// removeOne deletes the file of a resource, unless another set lists it. F is its failure,
// zero if there is none.
func (r *reconciler) removeOne(res *result, f *failure) {
	switch have, ok := r.tree.existing(res.url); {
	case r.state.othersList(res.url, res.leavingSets()):
		if res.apart = !f.Change.Removes(); f.Set == "" {
			res.next = r.unranked(have.Outranked, res)
		}
	case !ok:
	case res.held != nil:
		res.what, res.err = HeldBack, res.held
	default:
		res.what = Deleted
		if !r.o.DryRun {
			res.file, res.err = have, r.fetcher.forbidden(r.tree.unlink(have.Path), have.Path)
		}
	}
}

// bringOne fetches a resource, unless it is in sync.
func (r *reconciler) bringOne(ctx context.Context, res *result) {
	as := r.fetcher.prefer.apply(res.desired)
	have, there := r.isInStep(as)
	if there {
		if res.file = have; r.outdated(&have, &as) {
			res.touched = r.outrank(&res.file, &res.desired)
		} else {
			res.touched = r.refresh(&res.file, as)
		}
		return
	}
	res.what = Copied
	if r.o.DryRun {
		res.file.Length = max(0, as.length)
		return
	}
	before := r.tree.recordedHash(have, res.desired)
	res.file, res.err = r.fetcher.fetch(ctx, res.desired)
	res.err = r.fetcher.explainPast(res.err)
	res.file.ChangedAt, res.file.Via = res.changedAt, res.via
	if o := have.Outranked; o != nil && o.Set != res.set {
		res.file.Outranked = o
	}
	if res.err == nil && before != "" && res.file.Hash == before {
		res.what, res.touched = Unchanged, true
	}
}

// refresh updates the record of a file, if the Source states another time or origin for the
// same bytes, or lists the resource in another set.
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
	if f.Set == w.set && f.Via != w.via {
		f.Via, touched = w.via, true
	}
	if f.Set == w.set && w.changedAt.After(f.ChangedAt) {
		f.ChangedAt, touched = w.changedAt, true
	}
	return touched
}

// errOutranked says why what a set says of a resource was not carried out.
var errOutranked = errors.New("another set of the Source described a later state, and does not list the resource any more")

// outrank notes in the record of a file what a set says that is of an earlier state. It reports whether that is new.
func (r *reconciler) outrank(f *file, w *desired) bool {
	o := f.Outranked
	switch isSame := resourcesync.ParseHashes(f.Hash).Compare(w.digests) == resourcesync.Equal; {
	case r.o.DryRun, isSame && (o == nil || o.Set != w.set):
		return false
	case isSame:
		f.Outranked = nil
		return true
	}
	next := w.failure(errOutranked)
	next.Tries, next.NextAt = 0, time.Time{}
	if o != nil && o.Set == next.Set && o.Hash == next.Hash && o.Length == next.Length && o.LastMod.Equal(next.LastMod) {
		return false
	}
	f.Outranked = next
	return true
}

// unranked returns what another set says of a resource and was outranked by what a set described that leaves it now, with res; nil:
// there is no such thing.
func (r *reconciler) unranked(outranked *failure, res *result) *failure {
	if outranked == nil || slices.Contains(res.leavingSets(), outranked.Set) {
		return nil
	}
	if f, ok := r.state.file(res.url); !ok || !slices.Contains(res.leavingSets(), f.Set) {
		return nil
	}
	if _, lists := r.state.members(res.url)[outranked.Set]; !lists {
		return nil
	}
	return outranked
}

// isInStep returns the record of a resource, and reports whether it is in the copy as it is wanted,
// without reading the file. The time of modification does not count for a change that has a time: the change
// may have kept it. It counts for a change without a time, because lists of such changes
// are applied again when their beginning changes.
func (r *reconciler) isInStep(w desired) (file, bool) {
	f, ok := r.state.file(w.url)
	if !ok || w.force {
		return f, false
	}
	if size, ok := r.tree.size(f.Path); !ok || size != f.Length {
		return f, false
	}
	if r.outdated(&f, &w) {
		return f, true
	}
	if w.length >= 0 && w.length != f.Length {
		return f, false
	}
	if c := resourcesync.ParseHashes(f.Hash).Compare(w.digests); c == resourcesync.Equal || c == resourcesync.Different {
		return f, c == resourcesync.Equal
	}
	return f, (w.change == "" || w.changedAt.IsZero()) && (f.Instead == w.first || f.Instead == "" && !w.alternate) && !w.lastMod.IsZero() && w.lastMod.Equal(f.LastMod) && !f.Early
}

// isToday reports whether a time of modification may be a date alone, as in many sitemaps, of a day that is not over in each zone.
func isToday(lastMod time.Time) bool {
	return lastMod.Equal(lastMod.UTC().Truncate(24*time.Hour)) && time.Since(lastMod) < 36*time.Hour
}

// isBehindFailure reports whether another set that lists the same resource described a
// later state of it, which could not be fetched yet. The failure stays, and is tried again.
func (r *reconciler) isBehindFailure(f *failure, w *desired) bool {
	return !w.again && !f.Change.Removes() && !w.change.Removes() && r.listsLater(f.Set, f.ChangedAt, f.LastMod, w)
}

// outdated reports whether the copy has the bytes of a later state that another set
// described. Sets may be behind each other, and the copy would go back and forth between
// them.
func (r *reconciler) outdated(f *file, w *desired) bool {
	return f.Said && r.listsLater(f.Set, f.ChangedAt, f.LastMod, w)
}

// listsLater reports whether a set other than that of w, which is not gone, lists the resource, and
// described a later state of it, with these times. The times of the changes decide if both have one. Else, if w is
// of a list, the times of modification do.
func (r *reconciler) listsLater(set string, changedAt, lastMod time.Time, w *desired) bool {
	isLater := w.change == "" && !w.lastMod.IsZero() && lastMod.After(w.lastMod)
	if !w.changedAt.IsZero() && !changedAt.IsZero() {
		isLater = changedAt.After(w.changedAt)
	}
	if set == w.set || !isLater || r.source.isGone(set) {
		return false
	}
	_, lists := r.state.members(w.url)[set]
	return lists
}
