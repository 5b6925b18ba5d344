package destination

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// absent is what is wanted of a resource that the Source has not any more.
func absent(set, url string) desired {
	return desired{url: url, set: set, length: -1, change: resourcesync.Deleted}
}

// deleteUnlisted deletes what was copied of a set and is not listed any more,
// unless that is suspiciously much. What a change brought after the list was made
// stays.
func (r *reconciler) deleteUnlisted(ctx context.Context, set namedSet, listed map[key]struct{}, at time.Time, t *tally) error {
	var extra []desired
	for url, changed := range r.state.listedBy(set.name) {
		if _, ok := listed[keyOf(url)]; !ok && !changed.After(at) {
			extra = append(extra, absent(set.name, url))
		}
	}
	const why = "the Source does not list it any more"
	if len(listed) == 0 && r.o.MaxDelete.byDefault() {
		return r.deleteUnless(ctx, extra, t, why, errors.New("the Source's list is empty all at once; if that is right, allow the deletions (Options.MaxDelete)"))
	}
	return r.deleteUnless(ctx, extra, t, why, nil)
}

// deleteAll carries deletions out. Of the files that no other set lists it deletes all
// or none: none where Options.MaxDelete does not allow as many.
func (r *reconciler) deleteAll(ctx context.Context, wants []desired, t *tally, why string) error {
	return r.deleteUnless(ctx, wants, t, why, nil)
}

// deleteUnless is deleteAll, and deletes no files where there is something against it.
func (r *reconciler) deleteUnless(ctx context.Context, wants []desired, t *tally, why string, held error) error {
	if len(wants) == 0 {
		return nil
	}
	r.deleting.Lock() // so that the share is not used twice, and nobody else ceases to list one of them
	defer r.deleting.Unlock()
	var files, others []desired
	for i := range wants {
		if w := wants[i]; r.tree.has(w.url) && !r.state.othersList(w.url, w.leavingSets()) {
			files = append(files, w)
		} else {
			others = append(others, w)
		}
	}
	if len(files) > 0 && held == nil {
		held = r.tooMany(len(files), why)
	}
	for _, wants := range [][]desired{others, files} {
		switch {
		case len(wants) == 0:
			continue
		case held != nil && len(files) > 0 && &wants[0] == &files[0]:
			return r.holdBack(files, t, held)
		}
		if err := r.carryOut(ctx, t, "deletions", len(wants), values(wants)); err != nil {
			return err
		}
	}
	return nil
}

// tooMany says that so many deletions are not allowed now; nil: they are. Called
// with deleting held.
func (r *reconciler) tooMany(n int, why string) error {
	lately := r.state.deletes(time.Now())
	allowed := max(0, r.o.MaxDelete.of(r.state.count()+lately)-lately) // of what there was an hour ago
	if n <= allowed {
		return nil
	}
	r.log.Error("so many files are not deleted at once; if the Source is right, allow it with Options.MaxDelete", "event", "deletions_held",
		"deletions", n, "allowed", allowed, "why", why)
	return fmt.Errorf("%s, but %d deletions are more than the %d that are allowed now (Options.MaxDelete)", why, n, allowed)
}

func values(wants []desired) iter.Seq[desired] {
	return func(yield func(desired) bool) {
		for _, w := range wants {
			if !yield(w) {
				return
			}
		}
	}
}

// holdBack notes deletions that are not carried out.
func (r *reconciler) holdBack(wants []desired, t *tally, why error) error {
	d := newRecords()
	var events []Event
	for _, w := range wants {
		f := w.failure(why)
		f.Held = true
		d.failed[w.url] = f
		d.says[w.url] = *w.membershipChange() // so that another set that comes to list it need not know of this
		events = append(events, Event{What: HeldBack, URL: w.url, Change: w.change, ChangedAt: w.changedAt, NotificationID: w.notificationID, Err: why})
	}
	if !r.o.DryRun {
		if err := r.state.store(d, r.tree.fold, time.Now()); err != nil {
			return err
		}
	}
	for _, e := range events {
		t.event(e)
		r.o.Event(e)
	}
	return nil
}
