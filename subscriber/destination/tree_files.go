package destination

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rshub/rshub/resourcesync"
)

// folder reads files of the copy. It holds the folder open that it read of last, so that many files of
// one are found quickly. It is for one goroutine.
type folder struct {
	tree *tree
	path string
	root *os.Root // nil: none is open
}

// enter opens the folder of a path, and returns the path within.
func (f *folder) enter(p string) (string, error) {
	dir, base := path.Split(p)
	if f.root != nil && f.path == dir {
		return base, nil
	}
	f.leave()
	root, err := f.tree.root.OpenRoot(path.Clean(dir))
	if err == nil {
		f.path, f.root = dir, root
	}
	return base, err
}

// leave closes the folder.
func (f *folder) leave() {
	if f.root != nil {
		_ = f.root.Close()
		f.root = nil
	}
}

// size is that of tree.
func (f *folder) size(p string) (int64, bool) {
	base, err := f.enter(p)
	if err != nil {
		return 0, false
	}
	return sizeIn(f.root, base)
}

// hashFile is that of tree.
func (f *folder) hashFile(ctx context.Context, p string, of ...resourcesync.Algorithm) (resourcesync.Digests, int64, error) {
	base, err := f.enter(p)
	if err != nil {
		return resourcesync.Digests{}, 0, err
	}
	return hashFileIn(ctx, f.root, base, of...)
}

// size returns the size of the file at a path; false: there is none, or it is not a regular file.
func (t *tree) size(p string) (int64, bool) { return sizeIn(t.root, p) }

func sizeIn(root *os.Root, p string) (int64, bool) {
	info, err := root.Lstat(p)
	if err != nil || !info.Mode().IsRegular() {
		return 0, false
	}
	return info.Size(), true
}

// isFolder reports whether there is a folder at a path.
func isFolder(root *os.Root, p string) bool {
	info, err := root.Lstat(p)
	return err == nil && info.IsDir()
}

// linkOut returns the symbolic link above a path that leads out of the copy; empty: there is none.
func (t *tree) linkOut(p string) string {
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		if t.leadsOut(dir) {
			return dir
		}
	}
	return ""
}

// leadsOut reports whether a symbolic link is at a path that leads out of the copy, or nowhere.
func (t *tree) leadsOut(p string) bool {
	_, err := t.root.Stat(p)
	return err != nil && isLink(t.root, p)
}

func isLink(root *os.Root, p string) bool {
	info, err := root.Lstat(p)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// walkFS is the files of an os.Root for a walk that needs names and types only. The ReadDir of an
// os.Root also reads the details of each file, which takes longer than all the rest of such a walk.
type walkFS struct{ fs.FS }

// ReadDir implements fs.ReadDirFS. The entries have no Info: it would not stay within the root.
func (w walkFS) ReadDir(name string) ([]fs.DirEntry, error) {
	in, err := w.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()                                     // it was only read
	fd, err := unix.FcntlInt(in.(*os.File).Fd(), unix.F_DUPFD_CLOEXEC, 0) //nolint:errcheck // an os.Root opens nothing else
	if err != nil {
		return nil, &fs.PathError{Op: "dup", Path: name, Err: err}
	}
	dir := os.NewFile(uintptr(fd), name) // the same folder, no longer as one of an os.Root
	defer func() { _ = dir.Close() }()
	entries, err := dir.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

// recordedHash returns the hash in the record of a resource; empty: there is none that can be
// trusted.
func (t *tree) recordedHash(f file, w desired) string {
	if size, ok := t.size(f.Path); !ok || size != f.Length || w.force {
		return ""
	}
	return f.Hash
}

// replaced returns the length of the file that a resource replaces.
func (t *tree) replaced(w desired, to string) int64 {
	if f, ok := t.state.file(w.url); ok && f.Path == to {
		return f.Length
	}
	return 0
}

// hashFile reads a file of the copy.
func (t *tree) hashFile(ctx context.Context, p string, of ...resourcesync.Algorithm) (resourcesync.Digests, int64, error) {
	return hashFileIn(ctx, t.root, p, of...)
}

func hashFileIn(ctx context.Context, root *os.Root, p string, of ...resourcesync.Algorithm) (resourcesync.Digests, int64, error) {
	f, err := root.Open(p)
	if err != nil {
		return resourcesync.Digests{}, 0, err
	}
	defer func() { _ = f.Close() }()
	h := resourcesync.NewHasher(of...)
	buffer := buffers.Get().(*[64 << 10]byte) //nolint:errcheck // there is nothing else in it
	defer buffers.Put(buffer)
	if _, err := io.CopyBuffer(h, until{ctx, f}, buffer[:]); err != nil {
		return resourcesync.Digests{}, 0, err
	}
	return h.Digests(), h.Length(), nil
}

// buffers are for reading files. Allocating one for each file would be most of the work if the
// files are small.
var buffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// until is a reader that ends with a context.
type until struct {
	ctx context.Context //nolint:containedctx // it lives as long as one call
	r   io.Reader
}

func (u until) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}

// setTime sets the time of modification that the Source states.
func (t *tree) setTime(p string, at time.Time) {
	if at.IsZero() {
		return
	}
	if err := t.root.Chtimes(p, time.Time{}, at); err != nil {
		t.log.Debug("the time of a file could not be set", "event", "chtimes_failed", "path", p, "error", err)
	}
}

// existing returns the file of a resource that may be deleted: the recorded one, or one
// that was fetched and not recorded before a crash. False: there is none.
func (t *tree) existing(url string) (file, bool) {
	f, known := t.state.file(url)
	if known {
		return f, true
	}
	p, err := t.preferredPath(url)
	if err != nil {
		return f, false
	}
	t.placing.Lock()
	owner := t.owner(t.fold(p))
	t.placing.Unlock()
	_, ok := t.size(p)
	return file{Path: p}, ok && (owner == "" || owner == url)
}

// unlink deletes a file, if there is one at that path, and the folders that it leaves
// empty.
func (t *tree) unlink(p string) error {
	info, err := t.root.Lstat(p)
	if err == nil && !info.IsDir() {
		err = t.root.Remove(p)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !t.throughFile(p) {
		return err
	}
	t.removeEmpty(path.Dir(p))
	return nil
}

// removeEmpty removes a folder, and those above it, as far as they are empty.
func (t *tree) removeEmpty(dir string) {
	for ; dir != "."; dir = path.Dir(dir) {
		if info, err := t.root.Lstat(dir); err == nil && !info.IsDir() || t.root.Remove(dir) != nil && err == nil {
			break // it is not a folder, or not empty
		}
	}
}

// throughFile reports whether something above a path is not a folder, so that there can't be a
// file at the path.
func (t *tree) throughFile(p string) bool {
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		if info, err := t.root.Lstat(dir); err == nil {
			return !info.IsDir()
		}
	}
	return false
}
