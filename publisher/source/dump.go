package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// packageEntries is how many entries a package has at most. As many are held in
// memory while one is written.
const packageEntries = 10_000

// item is an entry of a package, and the resource whose bytes go with it; none of
// what was deleted.
type item struct {
	resource Resource
	change   *Change // nil in a Resource Dump
}

// packager writes packages of dumps from the files of a folder.
type packager struct {
	composer *composer
	folder   *Folder
}

// writePackage writes a package of a dump (DOC-38, DOC-43). Items whose file has
// changed since it was indexed are left out, and returned.
func (s *packager) writePackage(ctx context.Context, e *edition, path string, h resourcesync.Head, items []item) (left []Resource, err error) {
	h.Links = []resourcesync.Link{s.composer.upLink()}
	try := packageTry{moved: make(map[int]bool)}
	for {
		at, err := s.tryPackage(ctx, e, path, h, items, &try)
		switch {
		case errors.Is(err, errStale):
			try.moved[at] = true // it was begun with, so the package is of no use
		case err != nil:
			return nil, err
		case try.options.Store || readable(filepath.Join(e.shelf.dir, e.last().File)):
			for i := range try.moved {
				left = append(left, items[i].resource)
			}
			return left, nil
		default:
			e.dropLast()
			try.options.Store = true
		}
	}
}

// packageTry is what was learnt of a package by trying to write it.
type packageTry struct {
	moved   map[int]bool // items that are left out
	options resourcesync.DumpWriteOptions
}

// readable reports whether a package is one that readers take. Files that shrink
// too much when they are compressed make it look like a bomb.
func readable(name string) bool {
	f, err := os.Open(name) //nolint:gosec // a file of the shelf
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return false
	}
	_, err = resourcesync.NewDumpReader(f, info.Size(), resourcesync.DumpReadOptions{})
	return err == nil
}

// tryPackage is writePackage once. With errStale it returns the item at fault.
func (s *packager) tryPackage(ctx context.Context, e *edition, path string, h resourcesync.Head, items []item, try *packageTry) (at int, err error) {
	err = e.compose(path, zipType, func(out io.Writer) error {
		w, err := resourcesync.NewDumpWriter(out, h, try.options)
		for i := range items {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				break
			}
			if try.moved[i] {
				continue
			}
			var packed bool
			if packed, err = s.pack(w, i, &items[i]); errors.Is(err, errStale) {
				at = i
			} else if err == nil && !packed {
				try.moved[i] = true
			}
		}
		if err == nil {
			err = w.Close()
		}
		return err
	})
	return at, err
}

// pack writes one item, and returns false for one that it passes over, since its
// file was seen to have changed before anything of it was written. Where that shows
// later, the error wraps errStale.
func (s *packager) pack(w *resourcesync.DumpWriter, number int, x *item) (packed bool, err error) {
	entry, ok := s.composer.entry(&x.resource)
	if x.change != nil {
		entry, ok = s.composer.change(x.change)
	}
	if !ok {
		return true, nil // it is in no list either
	}
	if entry.Change.Removes() {
		return true, w.Write(entry)
	}
	f, same, err := s.openIndexed(&x.resource)
	if f != nil {
		defer func() { _ = f.Close() }() // only read
	}
	if err == nil && f != nil && !same {
		same, err = sameBytes(f, &x.resource)
	}
	switch {
	case err != nil:
		s.composer.odd.note(s.composer.log, x.resource.Path, fmt.Sprintf("it can't be read: %v", err))
		return true, nil // it will not be any more so for being told again
	case !same:
		return false, nil
	}
	entry.Path = "/" + dataPath + x.resource.Path
	in := &reading{r: f}
	err = w.Write(entry, in)
	if refused := refusedBy(err); refused != nil && refused.Kind != resourcesync.BadPackage {
		// A name that not every system can have in a package. Nothing was read.
		entry.Path = fmt.Sprintf("/unnamed/%d", number+1)
		err = w.Write(entry, in)
	}
	if refused := refusedBy(err); in.err != nil || refused != nil && refused.Kind == resourcesync.BadPackage {
		return false, fmt.Errorf("%s: %w while it was read: %w", x.resource.Path, errStale, err)
	}
	return err == nil, err
}

// reading remembers why a file could not be read.
type reading struct {
	r   io.Reader
	err error
}

func (r *reading) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

func refusedBy(err error) *resourcesync.Error {
	var e *resourcesync.Error
	errors.As(err, &e)
	return e
}

// openIndexed opens the file of a resource, and tells whether it is, by its size
// and time, what the index has. It returns nil where there is none any more.
func (s *packager) openIndexed(r *Resource) (f *os.File, same bool, err error) {
	f, err = s.folder.Open(r.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close() // only read
		return nil, false, err
	}
	return f, info.Size() == r.Length && info.ModTime().Equal(r.ModTime), nil
}

// buildResourceDump writes a Resource Dump when it is time for one and there were
// changes (DOC-36).
func (s *set) buildResourceDump(ctx context.Context) error {
	snap, err := s.index.Snapshot()
	if err != nil {
		return err
	}
	defer snap.Close()
	h := s.shelf.current().History
	if n := len(h.Dumps); n > 0 && (!isDue(h.Dumps[n-1].Written, s.composer.schedule.Dump, time.Now()) || h.Dumps[n-1].Last == snap.Last().Seq) {
		return nil
	}
	e := s.shelf.edition()
	dump, left, err := s.packager.writeResourceDump(ctx, e, snap)
	if err == nil && len(left) >= leastLeft && len(left) > snap.Len()/2 {
		err = errEmptied
	}
	if err == nil {
		err = s.renew(left)
	}
	if err != nil {
		e.discard()
		return err
	}
	return s.show(e, func(c *catalogue) error {
		h := &c.History
		h.Dumps = append(h.Dumps, dump)
		keep := s.composer.schedule.KeepDumps
		if s.composer.schedule.Archive < 0 {
			keep = 1
		}
		s.archivist.expireCollections(c, &h.Dumps, keep)
		c.notify(resourcesync.ResourceDump, resourceDumpPath, nil, false)
		return s.archivist.resourceDumpArchive(e, c)
	})
}

// writeResourceDump writes the packages of a Resource Dump, the document that lists
// them, and the same for the archive. It returns what was left out.
func (s *packager) writeResourceDump(ctx context.Context, e *edition, snap *Snapshot) (dump collection, left []Resource, err error) {
	dump = collection{At: snap.At, Last: snap.Last().Seq, Written: time.Now().UTC(), Path: fmt.Sprintf("archive/resourcedump-%d.xml", e.number)}
	var entries []resourcesync.Entry
	var items []item
	var size int64
	flush := func() error {
		path := fmt.Sprintf("dumps/resourcedump-%d-%d.zip", e.number, len(entries)+1)
		moved, err := s.writePackage(ctx, e, path, resourcesync.Head{Capability: resourcesync.ResourceDumpManifest, At: snap.At}, items)
		if err != nil {
			return err
		}
		left = append(left, moved...)
		p := packaging{Path: path, At: snap.At}
		dump.Packages = append(dump.Packages, p)
		entries = append(entries, s.composer.packageEntry(p, e.last()))
		items, size = items[:0], 0
		return nil
	}
	for r, err := range snap.Resources() {
		if err != nil {
			return dump, left, err
		}
		if len(items) > 0 && (size+r.Length > s.composer.schedule.PackageBytes || len(items) == packageEntries) {
			if err := flush(); err != nil {
				return dump, left, err
			}
		}
		items, size = append(items, item{resource: r}), size+r.Length
	}
	if len(items) > 0 || len(entries) == 0 {
		if err := flush(); err != nil {
			return dump, left, err
		}
	}
	for _, path := range []string{dump.Path, resourceDumpPath} {
		h := resourcesync.Head{Capability: resourcesync.ResourceDump, At: snap.At, Links: s.composer.links("", resourceDumpArchivePath)}
		if path != resourceDumpPath {
			if s.composer.schedule.Archive < 0 {
				continue
			}
			h.Links = s.composer.links("", "")
		}
		if err := s.composer.writeSplit(e, path, h, entries); err != nil {
			return dump, left, err
		}
	}
	return dump, left, nil
}

// packageEntry is what a dump says of a package.
func (s *composer) packageEntry(p packaging, d *document) resourcesync.Entry {
	return resourcesync.Entry{
		Loc: s.url(p.Path), Type: zipType, Length: d.Length, HasLength: true, Hash: d.hashes(),
		At: p.At, From: p.From, Until: p.Until,
	}
}

// writeSplit writes a document that is in memory, in parts if it must.
func (s *composer) writeSplit(e *edition, path string, h resourcesync.Head, entries []resourcesync.Entry) error {
	w, _, err := s.split(e, path, h)
	if err != nil {
		return err
	}
	for i := range entries {
		if err := w.Write(entries[i]); err != nil {
			w.Abort(err)
			return fmt.Errorf("writing %s: %w", path, err)
		}
	}
	return w.Close()
}
