package source

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/fsnotify/fsnotify"
)

// watch hears from the system of what happens in folders. It only ever says where
// to look: a rescan finds what it misses.
type watch struct {
	root string // the folder, absolute
	log  *slog.Logger
	// happened is called with the path below root that something happened at, and
	// lost when it isn't known any more where.
	happened func(path string)
	lost     func()

	// on: it is to listen. It is set before the first restart.
	on bool
	mu sync.Mutex
	// inotify has the watches; nil: there is none, and rescans have to do.
	inotify *fsnotify.Watcher
	folders map[string]struct{} // watched, by path below root
	most    int                 // folders to watch, as if the system had no more; 0: as many as it has
	limited bool                // some folders are not watched
	warned  bool                // of that
	heard   sync.WaitGroup
}

// restart drops all watches and begins to listen anew, before all is scanned. Thus
// every scan heals what is not watched, or under a wrong name: after lost events,
// and where something was mounted.
func (w *watch) restart() {
	if !w.on {
		return
	}
	w.end()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.folders, w.limited = map[string]struct{}{}, false
	inotify, err := fsnotify.NewWatcher()
	if err != nil {
		w.limit(err)
		return
	}
	w.inotify = inotify
	w.heard.Go(func() { w.hear(inotify) })
	// Apart from the events: the watcher holds a lock of its own while it reports
	// an error, and forget waits for that.
	w.heard.Go(func() {
		for err := range inotify.Errors {
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				w.log.Warn("watching the folder: an event could not be read; all is scanned", "event", "watch_event_lost", "folder", w.root, "error", err)
			}
			w.lost()
		}
	})
}

func (w *watch) hear(inotify *fsnotify.Watcher) {
	for e := range inotify.Events {
		path := strings.TrimPrefix(strings.TrimPrefix(e.Name, w.root), string(filepath.Separator))
		if e.Has(fsnotify.Rename) || e.Has(fsnotify.Remove) {
			w.forget(path)
		}
		w.happened(filepath.ToSlash(path))
	}
}

// forget ends the watches of a folder that is elsewhere now, and of all below it:
// the system goes on telling of them under their new names, the watcher under the
// old ones.
func (w *watch) forget(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.folders[path]; !ok || w.inotify == nil {
		return
	}
	for folder := range w.folders {
		if below(folder, path) {
			delete(w.folders, folder)
			_ = w.inotify.Remove(filepath.Join(w.root, folder)) // it may have gone by itself
		}
	}
}

// add watches a folder. It has to be called before the folder is listed.
func (w *watch) add(folder string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inotify == nil {
		return
	}
	// Though it may be watched already: a folder of that name may be another, or
	// its watch have been ended under an older name.
	var err error = syscall.ENOSPC
	if w.most == 0 || len(w.folders) < w.most {
		err = w.inotify.Add(filepath.Join(w.root, folder))
	}
	switch {
	case err == nil:
		w.folders[folder] = struct{}{}
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EACCES):
		// Who lists it finds that out.
	default:
		w.limit(fmt.Errorf("%d folders are watched; the next: %w", len(w.folders), err))
	}
}

// limit notes that not all is watched, and says so once. Mu is held.
func (w *watch) limit(err error) {
	w.limited = true
	if w.warned {
		return
	}
	w.warned = true
	w.log.Warn("not all of the folder can be watched, and changes in the rest are found by scanning it; on Linux raise fs.inotify.max_user_watches (or max_user_instances)",
		"event", "unwatched", "folder", w.root, "error", err)
}

// whole reports whether all of the folder is watched.
func (w *watch) whole() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.inotify != nil && !w.limited
}

// end drops all watches and waits until nothing is heard any more.
func (w *watch) end() {
	w.mu.Lock()
	inotify := w.inotify
	w.inotify = nil
	w.mu.Unlock()
	if inotify != nil {
		_ = inotify.Close() // nothing is lost with it
	}
	w.heard.Wait()
}
