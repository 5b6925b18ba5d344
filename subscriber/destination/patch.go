package destination

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/rshub/rshub/resourcesync"
)

// patchRel is the relation of a link to a patch.
const patchRel = "http://www.openarchives.org/rs/terms/patch"

// patchesKept bounds the patches of one change.
const patchesKept = 8

// Patch is a patch that was fetched. Its paths are absolute.
type Patch struct {
	URL, Type string // of the resource, and the media type of the patch
	Old, File string // the file of the resource as it is, and the patch
}

// Patcher applies a patch: it writes the new file to out. It does not change the old one. An error
// of out ends it, for instance since the new file became too long. Several goroutines may call it.
type Patcher func(ctx context.Context, p Patch, out io.Writer) error

// unifiedTypes are the media types of unified diffs.
var unifiedTypes = []string{"text/x-diff", "text/x-patch"}

// patchers returns what applies the patches of each media type.
func patchers(o *Options) map[string]Patcher {
	all := map[string]Patcher{}
	for _, t := range unifiedTypes {
		all[t] = nil // by unify
	}
	for t, p := range o.Patches {
		if t = strings.ToLower(t); p == nil {
			delete(all, t)
		} else {
			all[t] = p
		}
	}
	return all
}

// patch makes the file of a changed resource from the one in the copy and a patch, if the change
// names one that can be used (LNK-04). The result counts only if it has the length and a hash of the
// entry. False: the whole resource has to be fetched.
func (ft *fetcher) patch(ctx context.Context, w desired, p string) (f file, done bool) {
	have, ok := ft.state.file(w.url)
	if !ok || w.force || w.change != resourcesync.Updated || w.length < 0 || len(w.digests.Algorithms()) == 0 || have.Path != p || have.Instead != "" {
		return file{}, false
	}
	if size, ok := ft.tree.size(p); !ok || size != have.Length {
		return file{}, false
	}
	for _, link := range w.patches {
		apply, known := ft.patchers[mediaType(link.Type)]
		if !known || link.Length < 0 || link.Length >= w.length/2 {
			continue
		}
		f, err := ft.patchWith(ctx, w, p, link, apply)
		switch {
		case err == nil:
			f.patched = true
			return f, true
		case ctx.Err() != nil || fatal(err) || full(err):
			return file{}, false // so does the whole resource
		}
		ft.log.Warn("a patch could not be used; the whole resource is fetched", "event", "patch_failed", "url", w.url, "patch", link.URL, "error", err)
		return file{}, false
	}
	return file{}, false
}

// patchWith fetches a patch and applies it; apply is nil for a unified diff.
func (ft *fetcher) patchWith(ctx context.Context, w desired, p string, link mirror, apply Patcher) (file, error) {
	address, err := resolve(w.url, link.URL)
	if err != nil {
		return file{}, err
	}
	of := desired{url: "patch of " + w.url, length: link.Length, digests: resourcesync.ParseHashes(link.Hash), encoding: link.Encoding}
	name := partsDir + "/" + digest(of.url, 16) + whole
	defer func() { _ = ft.tree.root.Remove(name) }() // unless it could not be fetched
	if _, err := ft.fetchFrom(ctx, of, address, name); err != nil {
		return file{}, err
	}
	part, err := ft.openPartial(w, w.url, p, false)
	if err != nil {
		return file{}, err
	}
	defer part.close()
	if apply == nil {
		apply = func(_ context.Context, _ Patch, out io.Writer) error { return ft.unify(p, name, out) }
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, to := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := apply(ctx, Patch{w.url, link.Type, filepath.Join(ft.dir, filepath.FromSlash(p)), filepath.Join(ft.dir, filepath.FromSlash(name))}, to)
		_ = to.CloseWithError(err) // never fails
		ended <- err
	}()
	err = part.receive(from, ft.limit(w))
	cancel()
	_ = from.CloseWithError(errors.New("the file that it makes is too long")) // never fails
	if failed := <-ended; err == nil && failed != nil {
		err = failed
	}
	if err != nil {
		return file{}, fmt.Errorf("applying it: %w", err)
	}
	return part.moveIn(w, p)
}

// unify applies a unified diff to a file of the copy.
func (ft *fetcher) unify(p, diff string, out io.Writer) error {
	old, err := ft.tree.root.Open(p)
	if err != nil {
		return err
	}
	defer func() { _ = old.Close() }()
	d, err := ft.tree.root.Open(diff)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	return applyUnified(out, old, d)
}

// mediaType returns a media type without its parameters, in lower case.
func mediaType(t string) string {
	t, _, _ = strings.Cut(t, ";")
	return strings.ToLower(strings.TrimSpace(t))
}
