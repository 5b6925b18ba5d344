package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// packageEntries is the most entries of a package. That many are in memory while one is
// written.
const packageEntries = 10_000

// item is an entry of a package, and the resource whose bytes go with it. What was deleted
// has no bytes.
type item struct {
	resource Resource
	change   *Change // nil in a Resource Dump
}

// packager writes packages of dumps from the bytes of resources.
type packager struct {
	composer *composer
	origin   origin
}

// dump is what was written of a dump: its packages, the entries that list them, and the
// resources that were left out.
type dump struct {
	packages []packaging
	entries  []resourcesync.Entry
	left     []Resource
}

// writePackages writes the packages of a dump, each with at most PackageBytes and
// packageEntries, at paths that begin with name. Span is what the dump as a whole is about.
// There is at least one package.
func (s *packager) writePackages(ctx context.Context, e *edition, snap *Snapshot, name, capability string, span packaging, items iter.Seq2[item, error]) (d dump, err error) {
	var gathered []item
	var size int64
	flush := func(until time.Time) error {
		p := packaging{Path: fmt.Sprintf("dumps/%s-%d.zip", name, len(d.packages)+1), At: span.At, From: span.From, Until: until}
		head := resourcesync.Head{Capability: capability, At: p.At, From: p.From, Until: p.Until, Links: []resourcesync.Link{s.composer.upLink()}}
		left, err := s.writePackage(ctx, e, snap, p.Path, head, gathered)
		if err != nil {
			return err
		}
		d.packages, d.entries, d.left = append(d.packages, p), append(d.entries, s.composer.packageEntry(p, e.last())), append(d.left, left...)
		gathered, size, span.From = gathered[:0], 0, until
		return nil
	}
	for x, err := range items {
		if err == nil && len(gathered) > 0 && (size+max(x.resource.Length, 0) > s.composer.schedule.PackageBytes || len(gathered) == packageEntries) {
			until := span.Until
			if x.change != nil {
				until = x.change.At // no two changes have the same instant
			}
			err = flush(until)
		}
		if err != nil {
			return d, err
		}
		gathered, size = append(gathered, x), size+max(x.resource.Length, 0)
	}
	if len(gathered) > 0 || len(d.packages) == 0 {
		err = flush(span.Until)
	}
	return d, err
}

// writePackage writes a package of a dump (DOC-38, DOC-43). It leaves out items whose file
// has changed since it was indexed, and returns them.
func (s *packager) writePackage(ctx context.Context, e *edition, snap *Snapshot, path string, h resourcesync.Head, items []item) (left []Resource, err error) {
	try := packageTry{changed: make(map[int]bool)}
	for {
		at, err := s.tryPackage(ctx, e, snap, path, h, items, &try)
		switch {
		case errors.Is(err, errStale):
			try.changed[at] = true // it was begun, so the package cannot be used
		case err != nil:
			return nil, err
		case try.options.Store || isReadable(filepath.Join(e.shelf.dir, e.last().File)):
			for i := range try.changed {
				left = append(left, items[i].resource)
			}
			return left, nil
		default:
			e.dropLast()
			try.options.Store = true
		}
	}
}

// packageTry is what the attempts to write a package have shown.
type packageTry struct {
	changed map[int]bool // items to leave out
	options resourcesync.DumpWriteOptions
}

// isReadable reports whether readers accept a package. Files that shrink too much when they
// are compressed make it look like a bomb.
func isReadable(name string) bool {
	f, size, err := openFile(name)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // it was only read
	_, err = resourcesync.NewDumpReader(f, size, resourcesync.DumpReadOptions{})
	return err == nil
}

// openFile opens a file to read it, and returns its size.
func openFile(name string) (f *os.File, size int64, err error) {
	if f, err = os.Open(name); err != nil { //nolint:gosec // of the shelf, or of an Export
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close() // it was only read
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// tryPackage tries once to write a package. With errStale it returns the number of the item
// that caused it.
func (s *packager) tryPackage(ctx context.Context, e *edition, snap *Snapshot, path string, h resourcesync.Head, items []item, try *packageTry) (at int, err error) {
	err = e.compose(path, zipType, func(out io.Writer) error {
		w, err := resourcesync.NewDumpWriter(out, h, try.options)
		for i := 0; i < len(items) && err == nil; i++ {
			if try.changed[i] {
				continue
			}
			at = i
			var packed bool
			if packed, err = s.pack(ctx, w, snap, i, &items[i]); err == nil && !packed {
				try.changed[i] = true
			}
		}
		if err == nil {
			err = w.Close()
		}
		return err
	})
	return at, err
}

// pack writes one item. It returns false if it left the item out, because it saw that the
// file had changed before it wrote anything of it. If it sees that later, the error wraps
// errStale.
func (s *packager) pack(ctx context.Context, w *resourcesync.DumpWriter, snap *Snapshot, number int, x *item) (packed bool, err error) {
	var entry resourcesync.Entry
	var ok bool
	if x.change == nil {
		entry, ok, err = s.composer.entry(snap, &x.resource)
	} else {
		entry, ok, err = s.composer.change(snap, x.change)
	}
	entry.Links = withoutPatches(entry.Links) // the package would have to hold them
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err != nil:
		return false, err
	case !ok:
		return true, nil // it is in no list either
	case entry.Change.Removes():
		return true, w.Write(entry)
	}
	f, same, err := s.origin.Bytes(ctx, &x.resource)
	if f != nil {
		defer f.Close() //nolint:errcheck // it was only read
	}
	if err == nil && f != nil && !same {
		same, err = hasBytesOf(f, &x.resource)
	}
	switch {
	case errors.Is(err, errUnfetched):
		s.composer.odd.note(s.composer.log, x.resource.Key(), err.Error())
		return false, nil
	case err != nil:
		s.composer.odd.note(s.composer.log, x.resource.Key(), fmt.Sprintf("it cannot be read: %v", err))
		return true, nil // another change would not make it readable
	case !same:
		return false, nil
	}
	below, err := snap.isBelow(x.resource.Path)
	if err != nil {
		return false, err
	}
	if entry.Path = "/" + dataPath + x.resource.Path; x.resource.Path == "" || below {
		entry.Path = fmt.Sprintf("/named/%d", number+1)
	}
	in := &reading{r: f}
	err = w.Write(entry, in)
	if refused := refusedBy(err); refused != nil && refused.Kind != resourcesync.BadPackage {
		// Not every system can have this name in a package. Nothing was read yet.
		entry.Path = fmt.Sprintf("/unnamed/%d", number+1)
		err = w.Write(entry, in)
	}
	if refused := refusedBy(err); in.err != nil || refused != nil && refused.Kind == resourcesync.BadPackage {
		return false, fmt.Errorf("%s: %w while it was read: %w", x.resource.Key(), errStale, err)
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

// Bytes implements origin.
func (f *Folder) Bytes(_ context.Context, r *Resource) (file *os.File, same bool, err error) {
	file, err = f.Open(r.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close() // it was only read
		return nil, false, err
	}
	return file, info.Size() == r.Length && info.ModTime().Equal(r.ModTime), nil
}

// buildResourceDump writes a Resource Dump if one is due and there were changes (DOC-36).
func (s *set) buildResourceDump(ctx context.Context) error {
	return s.index.read(func(snap *Snapshot) error {
		h := s.shelf.current().History
		if n := len(h.Dumps); n > 0 && (!isDue(h.Dumps[n-1].Written, s.composer.schedule.Dump, time.Now()) || h.Dumps[n-1].Last == snap.Last().Seq) {
			return nil
		}
		e := s.shelf.edition()
		defer e.discard()
		x, left, err := s.packager.writeResourceDump(ctx, e, snap)
		if err == nil && len(left) >= leastLeft && len(left) > snap.Len()/2 {
			err = errEmptied
		}
		if err == nil {
			err = s.renew(left)
		}
		if err != nil {
			return err
		}
		return s.show(e, func(c *register) error {
			c.History.Dumps = append(c.History.Dumps, x)
			c.notify(resourcesync.ResourceDump, resourceDumpPath, nil, false)
			return s.archivist.resourceDumpArchive(e, c)
		})
	})
}

// writeResourceDump writes the packages of a Resource Dump, the document that lists them,
// and, if there are archives, the same document for the archive. It returns what was left
// out.
func (s *packager) writeResourceDump(ctx context.Context, e *edition, snap *Snapshot) (x collection, left []Resource, err error) {
	x = collection{At: snap.At, Last: snap.Last().Seq, Written: time.Now().UTC(), Path: fmt.Sprintf("archive/resourcedump-%d.xml", e.number)}
	d, err := s.writePackages(ctx, e, snap, fmt.Sprintf("resourcedump-%d", e.number), resourcesync.ResourceDumpManifest, packaging{At: snap.At}, func(yield func(item, error) bool) {
		for r, err := range snap.Resources() {
			if !yield(item{resource: r}, err) {
				return
			}
		}
	})
	x.Packages = d.packages
	head := resourcesync.Head{Capability: resourcesync.ResourceDump, At: snap.At, Links: s.composer.links("", "")}
	if err == nil && s.composer.schedule.Archive > 0 {
		err = s.composer.writeSplit(e, x.Path, head, each(d.entries))
	}
	if err == nil {
		head.Links = s.composer.links("", resourceDumpArchivePath)
		err = s.composer.writeSplit(e, resourceDumpPath, head, each(d.entries))
	}
	return x, d.left, err
}

// packageEntry is the entry of a package in a dump.
func (s *composer) packageEntry(p packaging, d *document) resourcesync.Entry {
	return resourcesync.Entry{
		Loc: s.url(p.Path), Type: zipType, Length: d.Length, HasLength: true, Hash: d.hashes(),
		At: p.At, From: p.From, Until: p.Until,
	}
}
