package destination

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// gone is what is wanted of a resource that the Source has not any more.
func gone(set, url string) want {
	return want{url: url, set: set, length: -1, change: resourcesync.Deleted}
}

// deleteUnlisted deletes what was copied of a set and is not listed any more,
// unless that is suspiciously much. What a change brought after the list was made
// stays.
func (c *Copy) deleteUnlisted(ctx context.Context, set namedSet, listed map[key]struct{}, at time.Time, t *tally) error {
	var extra []want
	for url, changed := range c.state.of(set.name) {
		if _, ok := listed[keyOf(url)]; !ok && !changed.After(at) {
			extra = append(extra, gone(set.name, url))
		}
	}
	const why = "the Source does not list it any more"
	if len(listed) == 0 && c.o.MaxDelete.byDefault() {
		return c.deleteUnless(ctx, extra, t, why, errors.New("the Source's list is empty all at once; if that is right, allow the deletions (Options.MaxDelete)"))
	}
	return c.deleteUnless(ctx, extra, t, why, nil)
}

// deleteAll carries deletions out. Of the files that no other set lists it deletes all
// or none: none where Options.MaxDelete does not allow as many.
func (c *Copy) deleteAll(ctx context.Context, wants []want, t *tally, why string) error {
	return c.deleteUnless(ctx, wants, t, why, nil)
}

// deleteUnless is deleteAll, and deletes no files where there is something against it.
func (c *Copy) deleteUnless(ctx context.Context, wants []want, t *tally, why string, held error) error {
	if len(wants) == 0 {
		return nil
	}
	c.deleting.Lock() // so that the share is not used twice, and nobody else ceases to list one of them
	defer c.deleting.Unlock()
	var files, others []want
	for i := range wants {
		if w := wants[i]; c.isThere(w.url) && !c.state.othersList(w.url, w.leaving()) {
			files = append(files, w)
		} else {
			others = append(others, w)
		}
	}
	if len(files) > 0 && held == nil {
		held = c.tooMany(len(files), why)
	}
	for _, wants := range [][]want{others, files} {
		switch {
		case len(wants) == 0:
			continue
		case held != nil && len(files) > 0 && &wants[0] == &files[0]:
			return c.holdBack(files, t, held)
		}
		if err := c.carryOut(ctx, t, "deletions", len(wants), values(wants)); err != nil {
			return err
		}
	}
	return nil
}

// tooMany says that so many deletions are not allowed now; nil: they are. Called
// with deleting held.
func (c *Copy) tooMany(n int, why string) error {
	lately := c.state.deletes(time.Now())
	allowed := max(0, c.o.MaxDelete.of(c.state.count()+lately)-lately) // of what there was an hour ago
	if n <= allowed {
		return nil
	}
	c.log.Error("so many files are not deleted at once; if the Source is right, allow it with Options.MaxDelete", "event", "deletions_held",
		"deletions", n, "allowed", allowed, "why", why)
	return fmt.Errorf("%s, but %d deletions are more than the %d that are allowed now (Options.MaxDelete)", why, n, allowed)
}

func values(wants []want) iter.Seq[want] {
	return func(yield func(want) bool) {
		for _, w := range wants {
			if !yield(w) {
				return
			}
		}
	}
}

// holdBack notes deletions that are not carried out.
func (c *Copy) holdBack(wants []want, t *tally, why error) error {
	d := newSettled()
	var events []Event
	for _, w := range wants {
		f := w.failure(why)
		f.Held = true
		d.failed[w.url] = f
		d.says[w.url] = *w.says() // so that another set that comes to list it need not know of this
		events = append(events, Event{What: HeldBack, URL: w.url, Change: w.change, ChangedAt: w.changedAt, NotificationID: w.notificationID, Err: why})
	}
	if !c.o.DryRun {
		if err := c.state.store(d, c.fold, time.Now()); err != nil {
			return err
		}
	}
	for _, e := range events {
		t.event(e)
		c.o.Event(e)
	}
	return nil
}

// isThere reports whether there is anything of a resource to delete: what is
// recorded, or what was fetched and not recorded before a crash.
func (c *Copy) isThere(url string) bool {
	if _, known := c.state.file(url); known {
		return true
	}
	_, ok := c.orphan(url)
	return ok
}

// orphan is the path of a file that is where a resource of which nothing is known
// would be.
func (c *Copy) orphan(url string) (string, bool) {
	p, err := c.wish(url)
	if err != nil {
		return "", false
	}
	c.placing.Lock()
	owner := c.owner(c.fold(p))
	c.placing.Unlock()
	info, err := c.root.Lstat(p)
	return p, (owner == "" || owner == url) && err == nil && info.Mode().IsRegular()
}

// remove deletes the file of a resource, and the folders that it leaves empty.
func (c *Copy) remove(w want) (file, error) {
	f, known := c.state.file(w.url)
	if !known {
		p, ok := c.orphan(w.url)
		if !ok {
			return f, nil
		}
		f.Path = p
	}
	return f, c.unlink(f.Path)
}

// unlink deletes a file, if there is one at that path, and the folders that it leaves
// empty.
func (c *Copy) unlink(p string) error {
	info, err := c.root.Lstat(p)
	if err == nil && !info.IsDir() {
		err = c.root.Remove(p)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !c.throughFile(p) {
		return err
	}
	c.removeEmpty(path.Dir(p))
	return nil
}

// removeEmpty removes a folder, and those above it, as far as they are empty.
func (c *Copy) removeEmpty(dir string) {
	for ; dir != "."; dir = path.Dir(dir) {
		if info, err := c.root.Lstat(dir); err == nil && !info.IsDir() || c.root.Remove(dir) != nil && err == nil {
			break // it is no folder, or not empty
		}
	}
}

// throughFile reports whether a folder above a path is no folder, so that there can't
// be a file at it.
func (c *Copy) throughFile(p string) bool {
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		if info, err := c.root.Lstat(dir); err == nil {
			return !info.IsDir()
		}
	}
	return false
}
