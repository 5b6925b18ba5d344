package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rshub/rshub/internal/base/disk"
	"github.com/rshub/rshub/resourcesync"
)

// ErrFolder is wrapped by the errors of Scan and Status if the folder itself can't be read.
var ErrFolder = errors.New("the folder is not there")

// pass looks at paths once and brings the index up to date. Its stages run side by side: one
// goroutine walks and finds the files to hash, some hash them, and one writes the results.
// What seems to be gone is written at the end, when it is known how much it is.
type pass struct {
	f    *Folder
	root *os.Root
	// documents are what Export wrote, which is no resource. The walker uses it, and after
	// it the sweep.
	documents outputs

	jobs chan job
	done chan step

	gone    []lost // of the walker
	skipped int    // of the walker: links and special files
	hidden  int    // of the walker: see FolderStatus.Hidden

	found, files, bytes atomic.Int64

	mu       sync.Mutex
	problems map[string]error
}

// job is a file to hash, as the walker saw it.
type job struct {
	path string
	seen stat
	had  []resourcesync.Link // that the index has
}

// lost is a path that the index has and the folder seems not to have.
type lost struct {
	path  string
	alone bool // only the path itself, and nothing below it
	// private says that it is left out because of what it may hold: it must not stay
	// published.
	private bool
}

// pass looks at paths. If all is set, they are the whole folder.
func (f *Folder) pass(ctx context.Context, paths []string, all bool) error {
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return fmt.Errorf("%w, and nothing is published as deleted until it is: %w", ErrFolder, err)
	}
	defer root.Close() //nolint:errcheck // it was only read
	p := &pass{f: f, root: root, documents: outputs{root: root}, jobs: make(chan job, f.o.Workers), done: make(chan step, f.o.Workers), problems: map[string]error{}}
	begun := time.Now()
	g, together := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(p.jobs)
		return p.walk(together, paths)
	})
	var hashers sync.WaitGroup
	for range f.o.Workers {
		hashers.Add(1)
		g.Go(func() error {
			defer hashers.Done()
			return p.hash(together)
		})
	}
	g.Go(func() error {
		hashers.Wait()
		close(p.done)
		return nil
	})
	report := func(done bool) {
		if all && f.o.Progress != nil {
			f.o.Progress(Progress{Found: p.found.Load(), Files: p.files.Load(), Bytes: p.bytes.Load(), Elapsed: time.Since(begun), Done: done})
		}
	}
	g.Go(func() error { return p.write(together, func() { report(false) }) })
	if err := g.Wait(); err != nil {
		return err
	}
	if err := p.sweep(ctx, all); err != nil {
		return err
	}
	f.looked(paths, all, p)
	report(true)
	return nil
}

// walk visits paths.
func (p *pass) walk(ctx context.Context, paths []string) error {
	// Sort each folder right before everything below it.
	slices.SortFunc(paths, func(a, b string) int {
		return strings.Compare(strings.ReplaceAll(a, "/", "\x00"), strings.ReplaceAll(b, "/", "\x00"))
	})
	visited := "\x00" // no path is below this one
	for _, path := range paths {
		if below(path, visited) {
			continue
		}
		var err error
		if visited, err = p.visit(ctx, path); err != nil {
			return err
		}
	}
	return nil
}

// visit looks at one path and, if it is a folder, at everything below. It returns the path
// that is done, with everything below it.
func (p *pass) visit(ctx context.Context, path string) (visited string, err error) {
	if path == "" {
		return "", p.folder(ctx, "")
	}
	// A folder above it may be something else by now.
	for folder := range foldersAbove(path) {
		if kind, _, err := p.look(folder); kind != isFolder {
			p.missing(folder, err)
			return folder, nil
		}
	}
	kind, seen, err := p.look(path)
	known, indexErr := p.f.x.record(path)
	if indexErr != nil {
		return "", indexErr
	}
	switch kind {
	case isFile:
		return path, p.file(ctx, path, seen, known)
	case isFolder:
		if known != nil {
			p.gone = append(p.gone, lost{path: path, alone: true})
		}
		return path, p.folder(ctx, path)
	}
	p.missing(path, err)
	return path, nil
}

// kind is what a name stands for.
type kind int

const (
	isNothing kind = iota // nothing, or nothing that belongs to the folder
	isFile
	isFolder
	isUnknown // an error hides it
)

// look says what is at a path. It follows no link.
func (p *pass) look(path string) (kind, stat, error) {
	info, err := p.root.Lstat(path)
	p.documents.renew(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return isNothing, stat{}, nil
	case errors.Is(err, syscall.ENOTDIR):
		return isNothing, stat{}, nil
	case err != nil:
		return isUnknown, stat{}, err
	case p.f.ignores(path, info.IsDir()), p.documents.have(path):
		return isNothing, stat{}, nil
	case info.IsDir() && (disk.Marked(p.root.Lstat, path) || p.documents.whole(path)):
		return isNothing, stat{}, nil
	case info.IsDir():
		return isFolder, stat{}, nil
	case info.Mode().IsRegular() && p.f.tooLong(path) == nil:
		return isFile, statOf(info), nil
	}
	return isNothing, stat{}, nil
}

// missing notes that there is no resource at a path or below it; with an error, that it is
// not known whether there is one.
func (p *pass) missing(path string, err error) {
	if err != nil {
		p.problem(path, err)
		return
	}
	p.gone = append(p.gone, lost{path: path, private: p.private(path, true) || disk.Marked(p.root.Lstat, path) || p.documents.whole(path)})
}

// private reports whether a path is left out because of what it may hold, so that it must
// not stay published.
func (p *pass) private(path string, folder bool) bool {
	return p.f.hidden.match(path, folder) || p.documents.have(path)
}

// entry looks at a file in an open folder.
func (p *pass) entry(ctx context.Context, here *os.Root, folder, name string, known *record) error {
	path := join(folder, name)
	info, err := here.Lstat(name)
	switch {
	case err == nil && info.Mode().IsRegular():
		return p.file(ctx, path, statOf(info), known)
	case err == nil || errors.Is(err, fs.ErrNotExist):
		p.missing(path, nil)
		return nil
	}
	p.problem(path, err)
	return nil
}

// file queues a file to be hashed, unless the index has it as it is.
func (p *pass) file(ctx context.Context, path string, seen stat, known *record) error {
	p.found.Add(1)
	if err := p.f.tooLong(path); err != nil {
		p.problem(path, err)
		p.missing(path, nil)
		return nil
	}
	if known == nil {
		if rival, err := p.f.x.rival(path); err != nil {
			return err
		} else if rival != "" {
			p.problem(path, errTaken(rival))
			return nil
		}
	}
	if known != nil && known.stat == seen && !known.racy {
		return p.relink(ctx, known)
	}
	if !p.f.pending.settled(path, seen, time.Now()) {
		return nil
	}
	j := job{path: path, seen: seen}
	if known != nil {
		j.had = known.Links
	}
	select {
	case p.jobs <- j:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// maxPath is the length of the longest path that the index takes, in bytes.
const maxPath = 32_000

// tooLong returns why a path is too long for a resource; nil: it is short enough.
func (f *Folder) tooLong(path string) error {
	if n := len(EscapePath(path)); f.o.MaxURL > 0 && n > f.o.MaxURL {
		return fmt.Errorf("it is left out, as its URL would be too long: %d characters below that of the folder, %d at most", n, f.o.MaxURL)
	}
	if n := len(path); n > maxPath {
		return fmt.Errorf("it is left out, as its path is too long: %d bytes, %d at most", n, maxPath)
	}
	return nil
}

// problem notes what is wrong at a path. The index keeps what it has of it.
func (p *pass) problem(path string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problems[path] = err
}
