package destination

import (
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
// suspiciously many. Files from changes after the list stay.
func (r *reconciler) deleteUnlisted(ctx context.Context, set namedSet, listed map[key]struct{}, at time.Time, t *tally) error {
	var extra []desired
	for url, changed := range r.state.listedBy(set.name, listed) {
		if !changed.After(at) {
			extra = append(extra, absent(set.name, url))
		}
	}
	var held error
	if len(listed) == 0 && r.o.MaxDelete.byDefault() {
		held = errors.New("the Source's list is suddenly empty; if that is right, allow the deletions (Options.MaxDelete)")
	}
	return r.deleteAll(ctx, extra, t, "the Source does not list it any more", held)
}

// deleteAll carries out deletions. It deletes all files that no other set lists, or none of them
// if held is an error or if Options.MaxDelete does not allow so many.
func (r *reconciler) deleteAll(ctx context.Context, wants []desired, t *tally, why string, held error) error {
	if len(wants) == 0 {
		return nil
	}
	r.deleting.Lock() // so that MaxDelete is not used twice, and no other run ends a membership of one of them
	defer r.deleting.Unlock()
	files := 0
	for i := range wants {
		if _, ok := r.tree.existing(wants[i].url); ok && !r.state.othersList(wants[i].url, wants[i].leavingSets()) {
			files++
		}
	}
	if held == nil {
		held = r.tooMany(files, why)
	}
	for i := range wants {
		wants[i].held = held
	}
	return r.carryOut(ctx, t, "deletions", len(wants), each(wants))
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
