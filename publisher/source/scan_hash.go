package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// racyWindow is how coarse the times of a file system may be (FAT: two seconds). A file that
// was changed less than this before it was hashed is hashed once more later, because it
// could have been changed again with all its times the same.
const racyWindow = 2 * time.Second

const (
	hashBuffer = 256 << 10
	// batchSize and batchTime bound how much a transaction of the index gathers.
	batchSize = 1000
	batchTime = 100 * time.Millisecond
)

// errMoved says that a file was changed or replaced while it was hashed.
var errMoved = errors.New("the file changes")

// hash hashes the files that the walker found, until there are no more.
func (p *pass) hash(ctx context.Context) error {
	buf := make([]byte, hashBuffer)
	for {
		var j job
		select {
		case next, ok := <-p.jobs:
			if !ok {
				return nil
			}
			j = next
		case <-ctx.Done():
			return ctx.Err()
		}
		r, err := p.hashFile(ctx, j, buf)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errMoved), errors.Is(err, fs.ErrNotExist):
			p.f.pending.again(j.path, p.f.o.Settle, false, time.Now())
			continue
		case err != nil:
			p.problem(j.path, err)
			continue
		}
		p.files.Add(1)
		select {
		case p.done <- step{key: j.path, now: r}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// hashFile reads a file once, from beginning to end. It returns errMoved if the file, before
// the first byte or after the last, was not as the walker saw it.
func (p *pass) hashFile(ctx context.Context, j job, buf []byte) (*record, error) {
	begun := time.Now()
	file, err := p.f.open(p.root, j.path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	if err := unchanged(j.seen, file.Stat); err != nil {
		return nil, err
	}
	h := resourcesync.NewHasher(resourcesync.MD5, resourcesync.SHA256)
	var first []byte
	for {
		n, err := file.Read(buf)
		_, _ = h.Write(buf[:n]) // never fails
		p.bytes.Add(int64(n))
		if len(first) < sniffed {
			first = append(first, buf[:min(n, sniffed-len(first))]...)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return nil, err
		}
		if h.Length() > j.seen.size {
			return nil, errMoved // it may grow for ever
		}
	}
	if h.Length() != j.seen.size {
		return nil, errMoved
	}
	lstat := func() (fs.FileInfo, error) { return p.root.Lstat(j.path) }
	if err := errors.Join(unchanged(j.seen, file.Stat), unchanged(j.seen, lstat)); err != nil {
		return nil, err
	}
	r := &record{stat: j.seen, racy: begun.Sub(j.seen.changed.time()) < racyWindow}
	r.Resource = Resource{Path: j.path, ModTime: modTime(j.seen.mtime), Length: j.seen.size, MediaType: MediaType(j.path, first), Guessed: true, Links: p.f.vias.of(j.path, j.had)}
	d := h.Digests()
	copy(r.SHA256[:], d.Sum(resourcesync.SHA256))
	copy(r.MD5[:], d.Sum(resourcesync.MD5))
	return r, nil
}

// unchanged returns errMoved unless a file is regular and as it was seen.
func unchanged(seen stat, look func() (fs.FileInfo, error)) error {
	info, err := look()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || statOf(info) != seen {
		return errMoved
	}
	return nil
}

// open opens a regular file below the folder. os.Root lets no link above it lead out of the
// folder.
func (f *Folder) open(root *os.Root, path string) (*os.File, error) {
	// Without O_NONBLOCK, opening a pipe would wait for a writer.
	file, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	link, err := root.Lstat(path)
	if err == nil && !link.Mode().IsRegular() {
		err = fmt.Errorf("%w: %q is no regular file", fs.ErrNotExist, path)
	}
	if err != nil {
		_ = file.Close() // the first error says more
		return nil, err
	}
	return file, nil
}

// write stores what was hashed in the index, in batches, since each transaction waits for
// the disk.
func (p *pass) write(ctx context.Context, report func()) error {
	tick := time.NewTicker(batchTime)
	defer tick.Stop()
	var batch []step
	for {
		full := false
		select {
		case s, ok := <-p.done:
			if !ok {
				return p.apply(batch)
			}
			batch = append(batch, s)
			full = len(batch) == batchSize
		case <-tick.C:
			full = true
			report()
		case <-ctx.Done():
			return ctx.Err()
		}
		if full {
			if err := p.apply(batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
}

// apply writes steps, and notes which of them have the URL of another resource.
func (p *pass) apply(steps []step) error {
	err := p.f.apply(steps)
	for _, s := range steps {
		if err == nil && s.now != nil && s.now.taken != "" {
			p.problem(s.key, errTaken(s.now.taken))
		}
	}
	return err
}

// errTaken says that another resource has the URL of a file.
func errTaken(by string) error {
	return fmt.Errorf("it is left out, as %q has the same URL; rename one of them, or change the section address of the rules", by)
}

// apply writes steps, and plans to hash again what may have changed.
func (f *Folder) apply(steps []step) error {
	if len(steps) == 0 {
		return nil
	}
	now := time.Now()
	n, err := f.x.apply(now, steps)
	if err != nil {
		return err
	}
	if n > 0 {
		f.signal()
	}
	for _, s := range steps {
		if s.now == nil && f.x.near.rivals != nil {
			for _, path := range f.x.near.rivals(s.key) { // the URL is free for them
				f.pending.touch(path, now)
			}
		}
		// A file with a time in the future is left to the next scan.
		if s.now != nil && s.now.racy && !s.now.stat.changed.time().After(now) {
			f.pending.again(s.key, racyWindow-now.Sub(s.now.stat.changed.time()), true, now)
		}
	}
	return nil
}
