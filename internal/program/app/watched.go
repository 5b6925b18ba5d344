package app

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/internal/base/ingress"
	"github.com/rshub/rshub/internal/engine/telemetry"
)

// reloadable is a part of the settings that was read from files, and can be read again.
// If the new files are wrong, the old values stay in force. Each part logs the result.
type reloadable interface {
	// check reads the files again if they changed, and reports whether it did.
	check(now time.Time) (read bool, err error)
	// reload reads the files again, and says what is in force now.
	reload(now time.Time) (admin.Reloaded, error)
}

// fromFiles is the reloadable that a part embeds.
type fromFiles struct {
	what, file string // for people
	// load reads the files again, logs the result, and says what changed. Calls do not
	// overlap.
	load func() (detail string, err error)

	mu    sync.Mutex
	files ingress.Watched
}

func (f *fromFiles) check(time.Time) (read bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if read = f.files.Changed(); read {
		_, err = f.load()
	}
	return read, err
}

func (f *fromFiles) reload(time.Time) (admin.Reloaded, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	detail, err := f.load()
	return admin.Reloaded{What: f.what, File: f.file, Detail: detail}, err
}

// reloads are the parts of a hub that can be read again.
type reloads struct {
	mu    sync.Mutex
	parts []namedPart
	last  map[telemetry.Reloadable]telemetry.Reload
}

// namedPart is a part that can be read again, with its name in the metrics.
type namedPart struct {
	reloadable
	as telemetry.Reloadable
}

// latest returns the result of the last time that each part was read again.
func (r *reloads) latest() map[telemetry.Reloadable]telemetry.Reload {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.last)
}

// record records that a part was read again.
func (r *reloads) record(as telemetry.Reloadable, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = map[telemetry.Reloadable]telemetry.Reload{}
	}
	r.last[as] = telemetry.Reload{At: time.Now(), Failed: err != nil}
}

func (r *reloads) add(as telemetry.Reloadable, part reloadable) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.parts = append(r.parts, namedPart{part, as})
}

func (r *reloads) all() []namedPart {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.parts)
}

// watch checks all parts until ctx ends.
func (r *reloads) watch(ctx context.Context) error {
	for {
		for _, part := range r.all() {
			if read, err := part.check(time.Now()); read {
				r.record(part.as, err)
			}
		}
		if !clock.Sleep(ctx, ingress.FilesEvery) {
			return ctx.Err()
		}
	}
}

// Reload reads at once what the hub reads again when files change: the publishers with
// their secrets, the operator's token and the certificates. When it returns, a publisher
// that was revoked can no longer publish, except for bodies that have arrived already. A
// file that is wrong changes nothing, and the others are still read. All other settings
// are read only at the start. The log has the results.
func (a *App) Reload() { a.reloads.reload() }

// reload is Reload, and returns the result of each part.
func (r *reloads) reload() []admin.Reloaded {
	var out []admin.Reloaded
	for _, part := range r.all() {
		done, err := part.reload(time.Now())
		r.record(part.as, err)
		if err != nil {
			done.Error = err.Error()
		}
		out = append(out, done)
	}
	return out
}
