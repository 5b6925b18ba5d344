package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/internal/base/originlog"
	"github.com/rshub/rshub/resourcesync"
)

// copyState is the folder of a copy in which rssub says where its files come from.
const copyState = ".rssub"

// viaEvery is how often the origins of a copy are read again, at most.
const viaEvery = time.Second

// vias link the files of a copy that rssub keeps to where they come from (LNK-08). A nil *vias
// links none.
type vias struct {
	reader *originlog.Reader
	log    *slog.Logger

	mu     sync.Mutex
	broken string // why they cannot be read; empty: they can
}

// newVias returns the vias of a folder; nil: it is to have none.
func newVias(dir string, o *FolderOptions) *vias {
	if o.NoVia {
		return nil
	}
	return &vias{reader: originlog.NewReader(dir, copyState), log: o.Log}
}

// refresh reads what rssub has written since, and plans to look at the files that it is about.
func (v *vias) refresh(pending *pending) {
	if v == nil {
		return
	}
	paths, all, err := v.reader.Refresh()
	now := time.Now()
	for _, path := range paths {
		pending.touch(path, now)
	}
	if all {
		pending.everything(now.Add(pending.settle))
	}
	v.failed(err)
}

// failed logs once that the origins cannot be read, and remembers it while it is so. If the folder itself is
// not there, the scan says so.
func (v *vias) failed(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	why := ""
	if err != nil {
		why = err.Error()
	}
	if why != "" && why != v.broken && !errors.Is(err, fs.ErrNotExist) {
		v.log.Warn("where the files of this copy come from cannot be read, so new files get no link via: run as the user of rssub, or leave these links out (FolderOptions.NoVia)", "event", "origins_unreadable", "error", why)
	}
	v.broken = why
}

func (v *vias) isBroken() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.broken != ""
}

// follow refreshes until ctx ends.
func (v *vias) follow(ctx context.Context, pending *pending) {
	for clock.Sleep(ctx, min(viaEvery, max(pending.settle, viaEvery/100))) {
		v.refresh(pending)
	}
}

// of returns the links of a file. Had are those that it has until now: it keeps them if nobody
// knows whether they are right.
func (v *vias) of(path string, had []resourcesync.Link) []resourcesync.Link {
	if v == nil {
		return nil
	}
	o, ok, err := v.reader.Get(path)
	switch {
	case err != nil || !ok && v.isBroken():
		return had
	case !ok:
		return nil
	}
	links := []resourcesync.Link{{Rel: "via", Href: o.URL, Modified: modTime(instantOf(o.Modified))}}
	if o.Modified.IsZero() {
		links[0].Modified = time.Time{}
	}
	if sameLinks(links, had) {
		return had
	}
	if err := (&Given{Resource: Resource{Path: path, Links: links}}).Check(); err != nil {
		v.log.Warn("a file of this copy gets no link via, which no document could have", "event", "via_left_out", "path", path, "error", err)
		return nil
	}
	return links
}

// sameLinks reports whether two lists of links are equal.
func sameLinks(a, b []resourcesync.Link) bool {
	return bytes.Equal(appendLinks(nil, a), appendLinks(nil, b))
}

// relink gives a file that has not changed the links that it has by now.
func (p *pass) relink(ctx context.Context, known *record) error {
	links := p.f.vias.of(known.Path, known.Links)
	if sameLinks(links, known.Links) {
		return nil
	}
	r := *known
	r.Links = links
	select {
	case p.done <- step{key: r.Path, now: &r}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("looking at %s: %w", known.Path, ctx.Err())
	}
}
