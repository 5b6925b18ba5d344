package destination

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// absent describes a resource that the Source does not have any more.
func absent(set, url string) desired {
	return desired{url: url, set: set, length: -1, change: resourcesync.Deleted}
}

// deleteUnlisted deletes the files of a set that the list does not name any more, unless they are
// suspiciously many. Files from changes after the list stay. Empty says that the list itself has no
// resources.
func (r *reconciler) deleteUnlisted(ctx context.Context, set namedSet, listed map[key]struct{}, empty bool, at time.Time, t *tally) error {
	var extra []desired
	for url, changed := range r.state.listedBy(set.name, listed) {
		if !changed.After(at) {
			w := absent(set.name, url)
			w.held = r.emptied(empty)
			extra = append(extra, w)
		}
	}
	return r.deleteAll(ctx, extra, t, "the Source does not list it any more", 0)
}

// errEmptied says that a file stays because the list of its set has no resources any more.
var errEmptied = errors.New("the Source's list is suddenly empty; if that is right, allow the deletions (Options.MaxDelete)")

// emptied returns why the files of a set stay, if its list is empty and nobody allowed to delete them.
func (r *reconciler) emptied(empty bool) error {
	if empty && r.o.MaxDelete.byDefault() {
		return errEmptied
	}
	return nil
}

// deleteAll carries out deletions, except those that are held already. It deletes all files that no
// other set lists, or none of them if Options.MaxDelete does not allow so many, together with so many
// others.
func (r *reconciler) deleteAll(ctx context.Context, wants []desired, t *tally, why string, others int) error {
	if len(wants) == 0 {
		return nil
	}
	r.deleting.Lock() // so that MaxDelete is not used twice, and no other run ends a membership of one of them
	defer r.deleting.Unlock()
	if files := r.filesOf(wants); files > 0 {
		held := r.tooMany(files+others, why)
		for i := range wants {
			wants[i].held = cmp.Or(wants[i].held, held)
		}
	}
	return r.carryOut(ctx, t, "deletions", len(wants), each(wants))
}

// filesOf returns how many files deletions would delete.
func (r *reconciler) filesOf(wants []desired) (files int) {
	for i := range wants {
		if r.deletesFile(&wants[i]) {
			files++
		}
	}
	return files
}

// deletesFile reports whether a deletion would delete a file: it is not held already, and no other set lists the resource.
func (r *reconciler) deletesFile(w *desired) bool {
	_, ok := r.tree.existing(w.url)
	return ok && w.held == nil && !r.state.othersList(w.url, w.leavingSets())
}

// tooManyOf returns how many files changes would delete in all, and an error if these are more than are allowed now. The
// changes are carried out bit by bit after that.
func (r *reconciler) tooManyOf(changes func(use func(*desired))) (files int, held error) {
	gone := map[key]struct{}{} // by the last change of each resource; no more than the copy has files
	changes(func(w *desired) {
		k := keyOf(w.url)
		if delete(gone, k); w.change.Removes() && r.deletesFile(w) {
			gone[k] = struct{}{}
		}
	})
	r.deleting.Lock()
	defer r.deleting.Unlock()
	return len(gone), r.tooMany(len(gone), "the Source deleted it")
}

// tooMany returns an error if so many deletions are not allowed now. The caller has locked
// deleting.
func (r *reconciler) tooMany(n int, why string) error {
	lately := r.state.deletes(time.Now())
	allowed := max(0, r.o.MaxDelete.of(r.state.count()+lately)-lately) // of the files an hour ago
	if n <= allowed {
		return nil
	}
	r.log.Error("so many files are not deleted at once; if the Source is right, allow it with Options.MaxDelete", "event", "deletions_held",
		"deletions", n, "allowed", allowed, "why", why)
	return fmt.Errorf("%s, but %d deletions are more than the %d that are allowed now (Options.MaxDelete)", why, n, allowed)
}
