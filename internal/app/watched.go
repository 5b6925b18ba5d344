package app

import (
	"context"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/rshub/rshub/admin"
)

// filesEvery is how often the files are looked at that are read again when they
// change. A change counts once two looks in a row find the same, so that no file is
// read while it is being written.
const filesEvery = 2 * time.Second

// reloadable is what was read of files, and can be read again. What is no good
// leaves in force what was read before. Each logs what came of it.
type reloadable interface {
	// check reads again what changed.
	check(now time.Time)
	// reload reads all of it again, and says what is in force now.
	reload(now time.Time) (admin.Reloaded, error)
}

// reloads are the parts of a hub that can be read again.
type reloads struct {
	mu    sync.Mutex
	parts []reloadable
}

func (r *reloads) add(part reloadable) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.parts = append(r.parts, part)
}

func (r *reloads) all() []reloadable {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.parts)
}

// watch checks all parts until ctx ends.
func (r *reloads) watch(ctx context.Context) error {
	tick := time.NewTicker(filesEvery)
	defer tick.Stop()
	for {
		for _, part := range r.all() {
			part.check(time.Now())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Reload reads again at once what is read again when its files change: the
// publishers with their secrets, the operator's token and the certificate. Whoever is
// revoked may not publish any more when it returns, except for bodies that have come
// already. What is no good changes nothing, and does not keep the others from being
// read. The settings are read at the start alone. The log says what came of it.
func (a *App) Reload() { a.reloads.reload() }

// reload is Reload, and says what came of each part.
func (r *reloads) reload() []admin.Reloaded {
	var out []admin.Reloaded
	for _, part := range r.all() {
		done, err := part.reload(time.Now())
		if err != nil {
			done.Error = err.Error()
		}
		out = append(out, done)
	}
	return out
}

// watched are files that are read again when one of them changes. Its owner
// guards it.
type watched struct {
	names []string
	// taken is how they were when they were read, found how the last look found
	// them; nil stands for one that could not be looked at.
	taken, found []os.FileInfo
}

// take is called before the files are read: what is written meanwhile is another
// change.
func (w *watched) take(names ...string) {
	w.names = names
	w.found = w.look()
	w.taken = w.found
}

// changed looks, and tells whether they are to be read.
func (w *watched) changed() bool {
	now := w.look()
	settled := same(now, w.found)
	w.found = now
	return settled && !same(now, w.taken)
}

func (w *watched) look() []os.FileInfo {
	now := make([]os.FileInfo, len(w.names))
	for i, name := range w.names {
		now[i], _ = os.Stat(name) // whoever reads it says why
	}
	return now
}

func same(a, b []os.FileInfo) bool {
	return slices.EqualFunc(a, b, func(a, b os.FileInfo) bool {
		if a == nil || b == nil {
			return a == nil && b == nil
		}
		return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
	})
}
