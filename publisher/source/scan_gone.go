package source

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"
)

// leastHeld is how many resources must be gone at once for their deletion to be withheld.
const leastHeld = 10

// sweep logs as deleted what is gone, unless so much of the folder is gone that more likely
// a disk is not mounted. What is private is deleted in any case, because it must not stay
// published.
func (p *pass) sweep(ctx context.Context, all bool) error {
	f, count, private := p.f, 0, 0
	for _, l := range p.gone {
		n, err := f.x.count(l)
		if err != nil {
			return err
		}
		if l.private {
			private += n
		} else {
			count += n
		}
	}
	if count+private == 0 {
		if all {
			f.withhold(0, 0)
		}
		return nil
	}
	if err := p.same(); err != nil {
		return err
	}
	total := f.x.Len() - private
	held := count >= leastHeld && float64(count) > f.o.MaxDeleted*float64(total) && f.x.Ready() && !f.accept.Swap(false)
	if held {
		f.withhold(count, total)
		p.gone = slices.DeleteFunc(p.gone, func(l lost) bool { return !l.private })
	}
	if err := p.removeGone(ctx); err != nil {
		return err
	}
	if all && !held {
		f.withhold(0, 0)
	}
	return nil
}

// count returns how many of the lost resources the index still has. The walker can't count
// them, because a file may have displaced a whole folder since.
func (x *Index) count(l lost) (n int, err error) {
	if l.alone {
		r, err := x.record(l.path)
		if r != nil {
			n = 1
		}
		return n, err
	}
	for page, err := range x.under(l.path) {
		if err != nil {
			return 0, err
		}
		n += len(page)
	}
	return n, nil
}

// removeGone logs everything that is gone as deleted.
func (p *pass) removeGone(ctx context.Context) error {
	f := p.f
	var paths []string
	for _, l := range p.gone {
		if l.alone {
			paths = append(paths, l.path)
			continue
		}
		for page, err := range f.x.under(l.path) {
			if err != nil {
				return err
			}
			if err := p.remove(ctx, page); err != nil {
				return err
			}
		}
	}
	for page := range slices.Chunk(paths, batchSize) {
		if err := p.remove(ctx, page); err != nil {
			return err
		}
	}
	return nil
}

// same returns an error if the folder is no longer the one that was walked.
func (p *pass) same() error {
	was, err := p.root.Stat(".")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFolder, err)
	}
	is, err := os.Stat(p.f.dir)
	if err != nil {
		return fmt.Errorf("%w any more: %w", ErrFolder, err)
	}
	if !os.SameFile(was, is) {
		return fmt.Errorf("%w any more: another is in its place", ErrFolder)
	}
	return nil
}

// remove logs as deleted those of the paths that are still gone: much may have happened
// since the walker was there.
func (p *pass) remove(ctx context.Context, paths []string) error {
	steps := make([]step, 0, len(paths))
	for _, path := range paths {
		if err := ctx.Err(); err != nil {
			return err
		}
		switch kind, err := p.reach(path); {
		case kind == isUnknown:
			p.problem(path, err)
		case kind == isFile && !p.f.ignoresAbove(path):
			p.f.pending.touch(path, time.Now())
		default:
			steps = append(steps, step{key: path})
		}
	}
	return p.f.apply(steps)
}

// reach is look for a path that was not walked to. It looks at each folder above it first,
// because the system would follow a link there.
func (p *pass) reach(path string) (kind, error) {
	for folder := range foldersAbove(path) {
		switch above, _, err := p.look(folder); above {
		case isUnknown:
			return isUnknown, err
		case isNothing, isFile:
			return isNothing, nil
		}
	}
	is, _, err := p.look(path)
	return is, err
}
