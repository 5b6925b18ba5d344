package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/rshub/rshub/internal/base/disk"
)

// folder compares a folder with what the index has in it. Both are read in the
// same order.
func (p *pass) folder(ctx context.Context, path string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p.f.watch.add(path) // before it is listed, so that no later change is missed
	here, err := p.root.OpenRoot(rooted(path))
	if err != nil {
		return p.unlisted(path, err)
	}
	if state := disk.Marked(here.Lstat, ""); state || p.documents.whole(path) {
		_ = here.Close() // it was only read
		return p.leaveOut(path, state)
	}
	names, err := p.list(here, path)
	if err != nil {
		_ = here.Close() // it was only read
		return p.unlisted(path, err)
	}
	err = p.merge(ctx, here, path, names)
	_ = here.Close() // it was only read
	if err != nil {
		return err
	}
	for _, name := range names {
		if sub, ok := strings.CutSuffix(name, "/"); ok {
			if err := p.folder(ctx, join(path, sub)); err != nil {
				return err
			}
		}
	}
	return nil
}

func rooted(path string) string {
	if path == "" {
		return "."
	}
	return path
}

func join(folder, name string) string {
	if folder == "" {
		return name
	}
	return folder + "/" + name
}

// leaveOut leaves out a folder of state, or of documents.
func (p *pass) leaveOut(path string, state bool) error {
	if path == "" {
		return errState(p.f.dir)
	}
	if state {
		p.hidden++
	}
	p.f.watch.forget(path) // changes in it concern nobody
	p.missing(path, nil)
	return nil
}

// stateAbove reports whether a folder on the way to a path, the top included, is one of
// state.
func stateAbove(root *os.Root, path string) bool {
	for folder := range foldersAbove(path) {
		if disk.Marked(root.Lstat, folder) {
			return true
		}
	}
	return disk.Marked(root.Lstat, "")
}

// unlisted handles a folder that can't be listed.
func (p *pass) unlisted(path string, err error) error {
	if path == "" {
		return fmt.Errorf("%w, or can't be read: %w", ErrFolder, err)
	}
	if errors.Is(err, fs.ErrNotExist) {
		p.missing(path, nil)
		return nil
	}
	p.problem(path, err) // what was in it stays in the index
	return nil
}

// list returns the names in a folder that may be resources or folders, in the order of their
// bytes. Folders have a "/" at the end.
func (p *pass) list(here *os.Root, path string) (names []string, err error) {
	d, err := here.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close() //nolint:errcheck // it was only read
	for {
		entries, err := d.ReadDir(pageSize)
		p.documents.renew(path)
		for _, e := range entries {
			switch name := e.Name(); {
			case p.documents.have(join(path, name)):
			case p.f.hidden.match(join(path, name), e.IsDir()), p.f.excluded[join(path, name)] && disk.Marked(here.Lstat, name):
				p.hidden++
			case p.f.ignores(join(path, name), e.IsDir()):
			case e.IsDir():
				names = append(names, name+"/")
			case e.Type().IsRegular():
				names = append(names, name)
			default:
				p.skipped++
			}
		}
		if len(entries) == 0 || err != nil {
			slices.Sort(names)
			if err != nil && !errors.Is(err, io.EOF) {
				return nil, err
			}
			return names, nil
		}
	}
}

// merge goes through the names in a folder and the index together.
func (p *pass) merge(ctx context.Context, here *os.Root, path string, names []string) error {
	next, stop := iter.Pull2(p.f.x.children(path))
	defer stop()
	c, err, ok := next()
	for _, name := range names {
		for ok && err == nil && c.name < name {
			p.absent(path, c)
			c, err, ok = next()
		}
		if err != nil {
			return err
		}
		var known *record
		if ok && c.name == name {
			known = c.record
			c, err, ok = next()
		}
		if strings.HasSuffix(name, "/") {
			continue
		}
		if err := p.entry(ctx, here, path, name, known); err != nil {
			return err
		}
	}
	for ; ok && err == nil; c, err, ok = next() {
		p.absent(path, c)
	}
	return err
}

// absent notes that the index has something in a folder that is not there.
func (p *pass) absent(folder string, c child) {
	if c.record != nil {
		p.gone = append(p.gone, lost{path: c.record.Path, alone: true, private: p.private(c.record.Path, false)})
		return
	}
	p.missing(join(folder, strings.TrimSuffix(c.name, "/")), nil)
}
