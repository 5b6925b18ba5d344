package destination

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// findExtra finds files that the Source does not list: files of resources, and unknown files
// below the folders of resources. If a resource was pushed and is not listed yet, it compares the
// file with what was pushed.
func (a *audit) findExtra(ctx context.Context) error {
	c := a.c
	folders := map[string]bool{c.tree.rootOf(c.o.Source).Dir: true}
	for _, r := range c.o.Roots {
		folders[r.Dir] = true
	}
	at := folder{tree: c.tree}
	defer at.leave()
	unlisted := func(url string) bool {
		folders[c.tree.rootOf(url).Dir] = true
		_, listed := a.listed[keyOf(url)]
		return !listed && a.looksAt(url) || ctx.Err() != nil
	}
	for url, f := range filesTable.some(c.state, unlisted) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if _, ok := a.unselected[keyOf(url)]; ok {
			a.report.LeftOut++
			continue
		}
		if a.isPushed(url) && !a.isKept(url) {
			a.compare(ctx, &at, a.lastSaid(url, f.Set, f), nil)
			continue
		}
		if info, err := c.tree.root.Lstat(f.Path); err == nil && !info.IsDir() {
			a.foundExtra(url, f)
		}
	}
	roots := slices.Sorted(maps.Keys(folders))
	for _, dir := range roots {
		within := func(other string) bool { return other != dir && (other == "." || strings.HasPrefix(dir, other+"/")) }
		if slices.ContainsFunc(roots, within) {
			continue // it is searched together with the other folder
		}
		if err := a.findStrays(ctx, path.Clean(dir)); err != nil {
			return fmt.Errorf("looking through the copy: %w", err)
		}
	}
	return nil
}

// foundExtra records the file of a resource that no compared set lists.
func (a *audit) foundExtra(url string, f file) {
	why := "the Source does not list it"
	others := a.c.state.members(url)
	others.after(membershipChange{sets: a.sets, leaves: true})
	for set := range others { // nothing is known of it, so the file stays
		why = "it belongs to the set " + set + ", which this address of the Source does not lead to"
	}
	if a.repair && len(others) == 0 {
		w := absent(f.Set, url)
		w.more = a.sets // none of them lists it
		failed, _ := a.c.state.failure(url)
		w.held = cmp.Or(a.emptied[f.Set], a.c.reconciler.emptied(failed.Emptied))
		for set := range a.c.state.members(url) {
			w.held = cmp.Or(w.held, a.emptied[set])
		}
		a.extra = append(a.extra, w)
	}
	a.note(Finding{Extra, url, f.Path, why})
}

// findStrays finds the files of a folder that belong to no resource.
func (a *audit) findStrays(ctx context.Context, dir string) error {
	return fs.WalkDir(walkFS{a.c.tree.root.FS()}, dir, func(p string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil && isLink(a.c.tree.root, p): // it leads out of the copy: what is there does not belong to it
		case errors.Is(err, fs.ErrPermission): // such as lost+found; files of resources in it were found by their records
			a.c.log.Warn("a folder of the copy cannot be read, so an audit does not find files in it that belong to no resource; allow this user to read it", "event", "folder_unreadable", "path", p, "error", err)
			return fs.SkipDir
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

// repair fetches the files that an audit found missing or differing, and deletes the extra ones.
func (r *reconciler) repair(ctx context.Context, a *audit, t *tally) error {
	const why = "the Source does not list it"
	if err := r.deleteAll(ctx, a.extra, t, why, 0); err != nil {
		return err
	}
	if err := r.deleteStrays(a.strays, t, why, a.anyEmptied()); err != nil || len(a.lacking) == 0 {
		return err
	}
	return r.carryOut(ctx, t, "repair", len(a.lacking), each(a.lacking))
}

// anyEmptied returns why files without a record stay, if the list of a set is empty: they may be files of that set.
func (a *audit) anyEmptied() (held error) {
	for _, why := range a.emptied {
		held = cmp.Or(held, why)
	}
	return held
}

// deleteStrays deletes files that have no record: all of them or none, as deleteAll does.
func (r *reconciler) deleteStrays(strays []string, t *tally, why string, held error) error {
	if len(strays) == 0 {
		return nil
	}
	r.deleting.Lock()
	defer r.deleting.Unlock()
	if held == nil {
		held = r.tooMany(len(strays), why)
	}
	deleted := 0
	for _, p := range strays {
		e := Event{What: Deleted, Path: p}
		if e.Err = held; held != nil {
			e.What = HeldBack
		} else if e.Err = r.fetcher.forbidden(r.tree.unlink(p), p); e.Err != nil {
			e.What = Failed
		} else {
			deleted++
		}
		r.report(t, e)
	}
	return r.state.update(func(w *writer) { w.countDeletes(deleted, time.Now()) })
}
