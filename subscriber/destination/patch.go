package destination

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
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

// patchable is a state of a resource, and the patches that make it of the state before.
type patchable struct {
	Length  int64    `json:"length"`
	Hash    string   `json:"hash"`
	Patches []mirror `json:"patches,omitempty"`
}

// chainKept bounds the states that one change is patched through.
const chainKept = 8

// after notes the change before w of the same resource: patches may lead through its state.
func (w *desired) after(before *desired) {
	if w.chain = nil; w.change != resourcesync.Updated || before.change.Removes() {
		return
	}
	w.chain = append(slices.Clone(before.chain), patchable{before.length, before.digests.String(), before.patches})
	w.chain = w.chain[max(0, len(w.chain)-chainKept):]
}

// from returns the states that lead from a file to w. If the file has none of them, it is taken for the state before
// the first: the hash shows whether that is so.
func (w *desired) from(have *file) []patchable {
	states := append(slices.Clip(w.chain), patchable{w.length, w.digests.String(), w.patches})
	known := resourcesync.ParseHashes(have.Hash)
	for i := len(w.chain) - 1; i >= 0; i-- {
		if x := &states[i]; x.Length == have.Length && known.Compare(resourcesync.ParseHashes(x.Hash)) == resourcesync.Equal {
			return states[i+1:]
		}
	}
	return states
}

// patch makes the file of a changed resource from the one in the copy and patches, if the change and
// those before it name some that can be used (LNK-04). Each result counts only if it has the length and a hash of
// its entry. False: the whole resource has to be fetched.
func (ft *fetcher) patch(ctx context.Context, w desired, p string) (f file, done bool) {
	have, ok := ft.state.file(w.url)
	if !ok || w.force || w.change != resourcesync.Updated || have.Path != p || have.Instead != "" {
		return file{}, false
	}
	if size, ok := ft.tree.size(p); !ok || size != have.Length {
		return file{}, false
	}
	states := w.from(&have)
	links, ok := ft.usable(states, w.length/2)
	if !ok {
		return file{}, false
	}
	old, names := p, []string(nil)
	defer func() {
		for _, name := range names {
			_ = ft.tree.root.Remove(name) // it is not there if its patch failed
		}
	}()
	for i, x := range states {
		made, to := w, p
		if i < len(states)-1 {
			made = desired{url: fmt.Sprintf("state %d of %s", i, w.url), length: x.Length, digests: resourcesync.ParseHashes(x.Hash)}
			to = partsDir + "/" + digest(made.url, 16) + whole
			names = append(names, to)
		}
		var err error
		if f, err = ft.patchWith(ctx, w.url, links[i], old, made, to); err != nil {
			if ctx.Err() == nil && !fatal(err) && !full(err) { // else the whole resource fails, too
				ft.log.Warn("a patch could not be used; the whole resource is fetched", "event", "patch_failed", "url", w.url, "patch", links[i].URL, "error", err)
			}
			return file{}, false
		}
		old = to
	}
	f.patched = true
	return f, true
}

// usable returns a patch for each state, if there are some that cost less than most bytes.
func (ft *fetcher) usable(states []patchable, most int64) ([]mirror, bool) {
	var links []mirror
	for _, x := range states {
		i := slices.IndexFunc(x.Patches, func(l mirror) bool {
			_, known := ft.patchers[mediaType(l.Type)]
			return known && l.Length >= 0 && l.Length < most
		})
		if i < 0 || x.Length < 0 || x.Hash == "" {
			return nil, false
		}
		links, most = append(links, x.Patches[i]), most-x.Patches[i].Length
	}
	return links, true
}

// patchWith fetches a patch for a resource and applies it to a file of the copy. It makes what is wanted at a path.
func (ft *fetcher) patchWith(ctx context.Context, url string, link mirror, old string, w desired, to string) (file, error) {
	of := desired{url: "patch of " + url, length: link.Length, digests: resourcesync.ParseHashes(link.Hash), encoding: link.Encoding}
	name := partsDir + "/" + digest(of.url, 16) + whole
	defer func() { _ = ft.tree.root.Remove(name) }() // unless it could not be fetched
	if _, err := ft.fetchFrom(ctx, of, link.URL, name); err != nil {
		return file{}, err
	}
	part, err := ft.openPartial(w, w.url, to, false)
	if err != nil {
		return file{}, err
	}
	defer part.close()
	apply := ft.patchers[mediaType(link.Type)]
	if apply == nil {
		apply = func(_ context.Context, _ Patch, out io.Writer) error { return ft.unify(old, name, out) }
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := apply(ctx, Patch{url, link.Type, filepath.Join(ft.dir, filepath.FromSlash(old)), filepath.Join(ft.dir, filepath.FromSlash(name))}, in)
		_ = in.CloseWithError(err) // never fails
		ended <- err
	}()
	err = part.receive(from, w)
	cancel()
	_ = from.CloseWithError(errors.New("the file that it makes is too long")) // never fails
	if failed := <-ended; err == nil && failed != nil {
		err = failed
	}
	if err != nil {
		return file{}, fmt.Errorf("applying it: %w", err)
	}
	return part.moveIn(w, to)
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
