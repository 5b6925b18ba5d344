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

// watch receives events from the system about folders. An event only says where to look, and
// a rescan finds what was missed.
type watch struct {
	root string // the folder, absolute
	log  *slog.Logger
	// happened is called with the path below root at which something happened, and lost when
	// events were lost.
	happened func(path string)
	lost     func()

	// on enables the watch. It is set before the first restart.
	on bool
	mu sync.Mutex
	// inotify has the watches; nil: there are none, and only rescans find changes.
	inotify *fsnotify.Watcher
	folders map[string]struct{} // watched, by path below root
	most    int                 // folders to watch, as if the system had no more; 0: as many as it has
	limited bool                // some folders are not watched
	warned  bool                // of that
	heard   sync.WaitGroup
}

// restart drops all watches and begins anew, before a scan of everything. So each scan
// repairs folders that are not watched, or watched under a wrong name: after lost events, or
// after something was mounted.
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
	// In a goroutine of its own: the watcher holds its lock while it reports an error, and
	// forget waits for that lock.
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

// forget ends the watches of a folder that was moved, and of everything below it. The system
// would go on to report events there, and the watcher would give them the old names.
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

// add watches a folder. Call it before the folder is listed.
func (w *watch) add(folder string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inotify == nil {
		return
	}
	// Add it even if it is watched: it may be another folder of that name, or its watch may
	// have ended under an older name.
	var err error = syscall.ENOSPC
	if w.most == 0 || len(w.folders) < w.most {
		err = w.inotify.Add(filepath.Join(w.root, folder))
	}
	switch {
	case err == nil:
		w.folders[folder] = struct{}{}
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EACCES):
		// Listing the folder finds that out.
	default:
		w.limit(fmt.Errorf("%d folders are watched; the next: %w", len(w.folders), err))
	}
}

// limit notes that not everything is watched, and logs that once. Mu is held.
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

// end drops all watches and waits for the last event to be handled.
func (w *watch) end() {
	w.mu.Lock()
	inotify := w.inotify
	w.inotify = nil
	w.mu.Unlock()
	if inotify != nil {
		_ = inotify.Close() // its error says nothing of use
	}
	w.heard.Wait()
}
