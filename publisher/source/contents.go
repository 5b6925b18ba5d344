package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/rshub/rshub/internal/base/atomicfile"
	"github.com/rshub/rshub/internal/base/web"
	"github.com/rshub/rshub/publisher"
	"github.com/rshub/rshub/resourcesync"
)

// Doer makes requests. See publisher.Doer.
type Doer = publisher.Doer

// contents opens the bytes of resources that a catalogue lists: files below a folder, and URLs.
type contents struct {
	root     string   // empty: there are no files
	excluded []string // files that are never opened
	temp     string   // a folder for files without a name
	client   Doer     // nil: nothing is fetched
}

func newContents(root string, excluded []string, temp string, client Doer) (*contents, error) {
	if root != "" {
		if info, err := os.Stat(root); err != nil {
			return nil, fmt.Errorf("the root of contents: %w", err)
		} else if !info.IsDir() {
			return nil, fmt.Errorf("the root of contents %s is a file; name the folder that the paths of the catalogue begin at", root)
		}
	}
	return &contents{root, excluded, temp, client}, nil
}

// has reports whether there are bytes for a resource.
func (c *contents) has(r *Resource) bool {
	if c.address(r) != "" {
		return c.client != nil
	}
	return r.Path != "" && c.root != ""
}

// address is the URL of the bytes of a resource that has no file.
func (c *contents) address(r *Resource) string {
	if r.Content == "" && r.Path != "" {
		return ""
	}
	return cmp.Or(r.Content, r.URL)
}

// open opens the bytes of a resource. Same reports whether they are those of the index, as far as that can be seen without
// reading them. If there is no such file, it returns nil.
func (c *contents) open(ctx context.Context, r *Resource) (f *os.File, same bool, err error) {
	if at := c.address(r); at != "" {
		f, err = c.fetch(ctx, at, r.Length)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, false, nil
		}
		if err != nil {
			err = fmt.Errorf("%w: %w", errUnfetched, err)
		}
		return f, false, err
	}
	f, err = c.file(r.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close() // it was only read
		return nil, false, err
	}
	return f, info.Size() == r.Length && info.ModTime().Equal(r.ModTime), nil
}

// file opens a regular file below the root. os.Root lets no link lead out of it.
func (c *contents) file(path string) (*os.File, error) {
	if c.root == "" || !validPath(path) {
		return nil, fmt.Errorf("%w: %q: %w", ErrPath, path, fs.ErrNotExist)
	}
	root, err := os.OpenRoot(c.root)
	if err != nil {
		return nil, fmt.Errorf("the root of contents: %w", err)
	}
	defer root.Close() //nolint:errcheck // it was only read
	if stateAbove(root, path) {
		return nil, fmt.Errorf("%w: %q is in a folder of state: %w", ErrPath, path, fs.ErrNotExist)
	}
	// Without O_NONBLOCK, opening a pipe would wait for a writer.
	f, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := c.allowed(f, path); err != nil {
		_ = f.Close() // it was only read
		return nil, err
	}
	return f, nil
}

// allowed returns an error for a file that is not regular, or is excluded, under whatever name.
func (c *contents) allowed(f *os.File, path string) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%w: %q is no regular file", fs.ErrNotExist, path)
	}
	for _, name := range c.excluded {
		if other, err := os.Stat(name); err == nil && os.SameFile(info, other) {
			return fmt.Errorf("%w: %q is a file of this Source's own: %w", ErrPath, path, fs.ErrNotExist)
		}
		if abs, err := filepath.EvalSymlinks(name); err == nil && below(filepath.Join(realPath(c.root), path), abs) {
			return fmt.Errorf("%w: %q is in a folder that is left out: %w", ErrPath, path, fs.ErrNotExist)
		}
	}
	return nil
}

// The pace of a server that has contents.
const (
	contentStall = time.Minute
	contentRate  = 16 << 10 // bytes a second
	// maxContent bounds what is fetched of a resource whose length is not known.
	maxContent = 16 << 30
)

// errUnfetched says that the bytes of a resource could not be fetched, which another time may do.
var errUnfetched = errors.New("its bytes cannot be fetched now")

// fetch fetches a URL to a file without a name, which has length bytes if that is known.
func (c *contents) fetch(ctx context.Context, url string, length int64) (f *os.File, err error) {
	if c.client == nil {
		return nil, fmt.Errorf("%s is not fetched: this Source makes no requests", url)
	}
	header := http.Header{"Accept-Encoding": {"identity"}}
	pace := web.Pace{Stall: contentStall, Rate: contentRate}
	client := web.DoerFunc(func(req *http.Request) (*http.Response, error) { return pace.Do(c.client, req) })
	resp, err := web.Ask(ctx, client, web.Request{Method: http.MethodGet, URL: url, Header: header})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	switch {
	case resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone:
		return nil, fmt.Errorf("%s answers %d: %w", url, resp.StatusCode, fs.ErrNotExist)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s answers %d", url, resp.StatusCode)
	}
	if f, err = atomicfile.Nameless(c.temp); err != nil {
		return nil, err
	}
	most := int64(maxContent)
	if length >= 0 {
		most = length
	}
	n, err := io.Copy(f, io.LimitReader(resp.Body, most+1))
	if err == nil && n > most {
		err = fmt.Errorf("%s has more than %d bytes", url, most)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// learn reads the bytes of a resource and fills in what the catalogue does not say of them. It returns an error if the
// bytes are not those that the catalogue describes.
func (c *contents) learn(ctx context.Context, r *record) error {
	var f *os.File
	var err error
	if at := c.address(&r.Resource); at != "" {
		f, err = c.fetch(ctx, at, r.Length)
	} else {
		f, err = c.file(r.Path)
	}
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read
	begun := time.Now()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	h := resourcesync.NewHasher(resourcesync.MD5, resourcesync.SHA256)
	first := make([]byte, sniffed)
	n, err := io.ReadFull(f, first)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	_, _ = h.Write(first[:n]) // never fails
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if r.Length >= 0 && r.Length != h.Length() {
		return fmt.Errorf("the catalogue says that it has %d bytes, and it has %d; correct the length, or leave it out", r.Length, h.Length())
	}
	r.Length = h.Length()
	d := h.Digests()
	copy(r.SHA256[:], d.Sum(resourcesync.SHA256))
	copy(r.MD5[:], d.Sum(resourcesync.MD5))
	at := c.address(&r.Resource)
	if r.MediaType == "" {
		r.MediaType, r.Guessed = MediaType(cmp.Or(at, r.Path), first[:n]), true
	}
	if at == "" {
		r.setStat(statOf(info))
		r.racy = begun.Sub(r.stat.changed.time()) < racyWindow
	}
	return nil
}

// setStat stores how the file of a resource looks. If the catalogue does not say when it was modified, the file
// does.
func (r *record) setStat(s stat) {
	if !r.ModTime.IsZero() {
		s.mtime = instantOf(r.ModTime)
	}
	s.size = r.Length
	r.stat, r.ModTime = s, modTime(s.mtime)
}
