package source

import (
	"context"
	"slices"
	"strings"
	"time"
)

// Problem is a path that can't be published as it is.
type Problem struct {
	Path string
	Err  error
}

// maxProblems is how many problems and slow files a FolderStatus names.
const maxProblems = 100

// FolderStatus is how a Folder is doing.
type FolderStatus struct {
	// Ready: the first scan is finished.
	Ready bool
	// Resources is how many there are in the index.
	Resources int
	// Watching says that the system reports changes anywhere in the folder. Otherwise
	// scans find them.
	Watching bool
	// Scanned is when the whole folder was last scanned; zero: not yet.
	Scanned time.Time
	// Skipped counts the links and special files that this scan left out. Hidden counts what
	// it left out because of what it may hold: names that begin with a dot, and folders of
	// state, without what is in them.
	Skipped, Hidden int
	// Err is why nothing can be published now; nil: everything can.
	Err error
	// Incomplete is why a catalogue was not whole, so that nothing was deleted that is missing in it; nil:
	// it was.
	Incomplete error
	// Held counts the resources that are gone and not published as deleted, because they are
	// more than FolderOptions.MaxDeleted.
	Held int
	// Problems are files and folders that can't be read, which stay published as they were,
	// and those that can't be published; at most 100 of them, in order.
	Problems []Problem
	// Slow are files that are written to all the time, at most 100, in order.
	Slow []string
}

// Status returns how the folder is doing.
func (f *Folder) Status() FolderStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.status
	s.Problems, s.Slow = slices.Clone(s.Problems), slices.Clone(s.Slow)
	s.Ready, s.Resources, s.Watching = f.x.Ready(), f.x.Len(), f.watch.whole()
	return s
}

// start begins a Run or Scan.
func (f *Folder) start() {
	f.begun, f.scanned = time.Now(), false
	f.vias.refresh(f.pending)
	f.pending.everything(f.begun)
}

// wait waits until there is something to look at, or ctx ends.
func (f *Folder) wait(ctx context.Context) error {
	for {
		timer := time.NewTimer(DefaultRescan)
		if at, ok := f.pending.next(f.o.Patience); ok {
			// Wait a little longer, to look at more paths at once.
			timer.Reset(time.Until(at) + f.o.Settle/8)
		}
		select {
		case <-timer.C:
			return nil
		case <-f.pending.wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// turn looks at what is due.
func (f *Folder) turn(ctx context.Context) error {
	defer f.reportSlow()
	f.vias.refresh(f.pending)
	if paths, all := f.pending.due(time.Now()); len(paths) > 0 || all {
		// Something may have happened to the folder itself.
		if err := f.lookAt(ctx, paths, all || slices.Contains(paths, "")); err != nil {
			f.pending.everything(time.Now().Add(f.o.Unwatched))
			return err
		}
	}
	return f.endBaseline()
}

func (f *Folder) lookAt(ctx context.Context, paths []string, all bool) error {
	defer f.pending.done(paths)
	if !all {
		return f.pass(ctx, paths, false)
	}
	f.watch.restart()
	if err := f.pass(ctx, []string{""}, true); err != nil {
		return err
	}
	if !f.scanned {
		f.scanned = true
		f.signal()
	}
	f.rescan()
	return nil
}

// rescan plans the next scan of all.
func (f *Folder) rescan() {
	after := f.o.Rescan
	if !f.watch.whole() {
		after = f.o.Unwatched
	}
	f.pending.everything(time.Now().Add(after))
}

// endBaseline finishes the first scan, once the whole folder was scanned and no file is
// still being written.
func (f *Folder) endBaseline() error {
	_, unknown := f.pending.count()
	if f.x.Ready() || !f.scanned || unknown > 0 && time.Since(f.begun) < f.o.Patience {
		return nil
	}
	if err := f.x.baseline(time.Now()); err != nil {
		return err
	}
	f.o.Log.Info("the first scan of the folder is finished", "event", "folder_ready", "folder", f.dir, "resources", f.x.Len())
	f.finished()
	f.signal()
	return nil
}

// finished closes ready if the first scan is finished.
func (f *Folder) finished() {
	if f.x.Ready() {
		f.readyOnce.Do(func() { close(f.ready) })
	}
}

func (f *Folder) signal() { poke(f.changed) }

// happened handles an event at a path.
func (f *Folder) happened(path string) {
	if folder, ok := strings.CutSuffix("/"+path, "/"+exportRecord); ok {
		path = strings.TrimPrefix(folder, "/") // other files may be documents now, or no more
	}
	f.pending.touch(path, time.Now())
}

// lost handles the loss of events: everything is scanned, after the storm.
func (f *Folder) lost() { f.pending.everything(time.Now().Add(f.o.Settle)) }

// ignores reports whether what is at a path, in a folder that is not ignored
// itself, is left out.
func (f *Folder) ignores(path string, folder bool) bool {
	return f.excluded[path] || f.hidden.match(path, folder) || f.rules.match(path, folder)
}

// ignoresAbove reports whether a folder on the way to a path is left out.
func (f *Folder) ignoresAbove(path string) bool {
	for folder := range foldersAbove(path) {
		if f.ignores(folder, true) {
			return true
		}
	}
	return false
}

// looked stores what a pass found in the status.
func (f *Folder) looked(paths []string, all bool, p *pass) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &f.status
	known := map[string]string{}
	for _, old := range s.Problems {
		known[old.Path] = old.Err.Error()
	}
	if all {
		s.Scanned, s.Skipped, s.Hidden, s.Problems = time.Now(), p.skipped, p.hidden, nil
	}
	s.Problems = slices.DeleteFunc(s.Problems, func(old Problem) bool {
		return slices.ContainsFunc(paths, func(path string) bool { return below(old.Path, path) })
	})
	for path, err := range p.problems {
		if known[path] != err.Error() && len(s.Problems) < maxProblems {
			f.o.Log.Warn("this can't be published as it is", "event", "unpublishable", "folder", f.dir, "path", path, "error", err)
		}
		if len(s.Problems) < maxProblems {
			s.Problems = append(s.Problems, Problem{path, err})
		}
	}
	slices.SortFunc(s.Problems, func(a, b Problem) int { return strings.Compare(a.Path, b.Path) })
}

// withhold stores how much is gone and not published as deleted.
func (f *Folder) withhold(count, total int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if count > 0 {
		f.pending.everything(time.Now().Add(f.o.Unwatched))
		if f.status.Held == 0 {
			f.o.Log.Error("so much of the folder is gone that nothing is published as deleted: bring it back (is the disk mounted?), or accept the deletions",
				"event", "deletions_held", "folder", f.dir, "gone", count, "resources", total)
		}
	}
	if count == 0 && f.status.Held > 0 {
		f.signal()
	}
	f.status.Held = count
}

// stopped stores why nothing can be published; nil: everything can.
func (f *Folder) stopped(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch was := f.status.Err; {
	case err != nil && (was == nil || was.Error() != err.Error()):
		f.o.Log.Error("the folder can't be published; it is tried again", "event", "folder_failed", "folder", f.dir, "error", err)
	case err == nil && was != nil:
		f.signal()
		f.o.Log.Info("the folder can be published again", "event", "folder_recovered", "folder", f.dir)
	}
	f.status.Err = err
}

// reportSlow reports files that are written to all the time.
func (f *Folder) reportSlow() {
	all, fresh := f.pending.slow(f.o.Patience, time.Now())
	for _, path := range fresh[:min(len(fresh), maxProblems)] {
		f.o.Log.Warn("this file is written to all the time, and is published when that ends", "event", "file_busy", "folder", f.dir, "path", path)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status.Slow = all[:min(len(all), maxProblems)]
}
