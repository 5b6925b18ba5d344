package destination

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// findExtra finds what is in the copy and not listed: files of resources, and
// files of which nothing is known below the folders that resources go to. What was
// pushed and is not listed yet it compares with what was said then.
func (a *audit) findExtra(ctx context.Context) error {
	c := a.c
	var roots []string
	add := func(dir string) {
		if !slices.Contains(roots, dir) {
			roots = append(roots, dir)
		}
	}
	add(c.tree.rootOf(c.o.Source).Dir)
	for _, r := range c.o.Roots {
		add(r.Dir)
	}
	for url, f := range c.state.files() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		add(c.tree.rootOf(url).Dir)
		if _, ok := a.listed[keyOf(url)]; ok || !a.looksAt(url) {
			continue
		}
		if a.isPushed(url) {
			a.compare(ctx, recordedWant(url, f.Set, f))
			continue
		}
		if info, err := c.tree.root.Lstat(f.Path); err != nil || info.IsDir() {
			continue
		}
		other := ""
		for set := range c.state.members(url) {
			if !slices.Contains(a.sets, set) {
				other = set
			}
		}
		if other != "" { // nothing was said of it, so that it stays
			a.note(Finding{Extra, url, f.Path, "it is of the set " + other + ", to which this address of the Source does not lead"})
			continue
		}
		if a.repair {
			w := absent(f.Set, url)
			w.more = a.sets // none of them lists it
			a.extra = append(a.extra, w)
		}
		a.note(Finding{Extra, url, f.Path, "the Source does not list it"})
	}
	for _, dir := range roots {
		within := func(other string) bool { return other != dir && (other == "." || strings.HasPrefix(dir, other+"/")) }
		if slices.ContainsFunc(roots, within) {
			continue // it is looked through with that
		}
		if err := a.findStrays(ctx, path.Clean(dir)); err != nil {
			return fmt.Errorf("looking through the copy: %w", err)
		}
	}
	return nil
}

// findStrays finds the files of a folder that belong to no resource.
func (a *audit) findStrays(ctx context.Context, dir string) error {
	return fs.WalkDir(a.c.tree.root.FS(), dir, func(p string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case d.IsDir() && p == stateName:
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		at := a.c.tree.fold(p)
		if _, known := a.unknown[keyOf(at)]; known || a.c.state.owner(at) != "" || !a.looksAt(p) {
			return nil
		}
		if a.repair {
			a.strays = append(a.strays, p)
		}
		a.note(Finding{Extra, "", p, "it belongs to no resource of the Source"})
		return nil
	})
}

// repair fetches what an audit found missing or differing, and deletes what it
// found extra.
func (r *reconciler) repair(ctx context.Context, a *audit, t *tally) error {
	const why = "the Source does not list it"
	if err := r.deleteAll(ctx, a.extra, t, why, nil); err != nil {
		return err
	}
	if err := r.deleteStrays(a.strays, t, why); err != nil || len(a.lacking) == 0 {
		return err
	}
	return r.carryOut(ctx, t, "repair", len(a.lacking), each(a.lacking))
}

// deleteStrays deletes files of which nothing is recorded, all or none as deleteAll
// does.
func (r *reconciler) deleteStrays(strays []string, t *tally, why string) error {
	if len(strays) == 0 {
		return nil
	}
	r.deleting.Lock()
	defer r.deleting.Unlock()
	held := r.tooMany(len(strays), why)
	deleted := 0
	for _, p := range strays {
		e := Event{What: Deleted, Path: p}
		if e.Err = held; held != nil {
			e.What = HeldBack
		} else if e.Err = r.tree.unlink(p); e.Err != nil {
			e.What = Failed
		} else {
			deleted++
		}
		r.report(t, e)
	}
	return r.state.update(func(w *writer) { w.countDeletes(deleted, time.Now()) })
}
