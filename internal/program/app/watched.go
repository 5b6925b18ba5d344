package app

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/internal/base/ingress"
)

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
	tick := time.NewTicker(ingress.FilesEvery)
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
