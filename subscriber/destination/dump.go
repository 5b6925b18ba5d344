package destination

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// fromDump takes a baseline from a Resource Dump.
func (c *Copy) fromDump(ctx context.Context, set namedSet, address string, t *tally) (time.Time, error) {
	began := time.Now()
	docs, err := c.download(ctx, address)
	if err != nil {
		return time.Time{}, err
	}
	defer docs.remove()
	listed := map[key]struct{}{}
	for e, err := range docs.entries() {
		if err != nil {
			return time.Time{}, err
		}
		err = c.withPackage(ctx, &e, func(d *resourcesync.DumpReader) error {
			return c.unpack(ctx, set, d, t, func(e *resourcesync.Entry) { listed[keyOf(e.Loc)] = struct{}{} })
		})
		if err != nil {
			return time.Time{}, err
		}
	}
	if err := c.deleteUnlisted(ctx, set, listed, t); err != nil {
		return time.Time{}, err
	}
	if docs.at.IsZero() {
		return began, nil
	}
	return docs.at, nil
}

// fromChangeDumps applies the packages of a Change Dump that end after since, and
// returns how far they reach.
func (c *Copy) fromChangeDumps(ctx context.Context, set namedSet, since time.Time, t *tally) (time.Time, error) {
	address := set.Documents[resourcesync.ChangeDump]
	docs, err := c.download(ctx, address)
	if err != nil {
		return since, err
	}
	defer docs.remove()
	until := since
	for e, err := range docs.entries() {
		switch {
		case err != nil:
			return until, err
		case !e.Until.IsZero() && !e.Until.After(since):
			continue
		case e.From.After(until):
			return until, fmt.Errorf("%s: %w between %s and %s", address, errHole, resourcesync.FormatDatetime(until), resourcesync.FormatDatetime(e.From))
		}
		last := until
		err = c.withPackage(ctx, &e, func(d *resourcesync.DumpReader) error {
			return c.unpack(ctx, set, d, t, func(e *resourcesync.Entry) {
				if e.Datetime.After(last) {
					last = e.Datetime
				}
			})
		})
		if err != nil {
			return until, err
		}
		if until = last; e.Until.After(until) {
			until = e.Until
		}
	}
	return until, nil
}

// errHole says that something is missing before a package.
var errHole = errors.New("no package of the Change Dump has what happened")

// withPackage fetches a package, verifies it and opens it.
func (c *Copy) withPackage(ctx context.Context, e *resourcesync.Entry, use func(*resourcesync.DumpReader) error) error {
	w := wanted("", e)
	w.mirrors = nil
	part, err := c.fetchPart(ctx, w)
	if err != nil {
		return fmt.Errorf("the package %s: %w", e.Loc, err)
	}
	defer func() { _ = c.root.Remove(part) }()
	f, err := c.root.Open(part)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	d, err := resourcesync.NewDumpReader(f, info.Size(), resourcesync.DumpReadOptions{})
	if err == nil {
		err = use(d)
	}
	if err != nil {
		return fmt.Errorf("the package %s: %w", e.Loc, err)
	}
	return nil
}

// fetchPart fetches something into a part of its own, verified, and returns the
// name of it.
func (c *Copy) fetchPart(ctx context.Context, w want) (string, error) {
	name := partsDir + "/" + digest(w.url, 16) + ".whole"
	_, err := c.fetchFrom(ctx, w, w.url, name)
	return name, err
}

// unpack takes the resources of a package into the copy.
func (c *Copy) unpack(ctx context.Context, set namedSet, d *resourcesync.DumpReader, t *tally, seen func(*resourcesync.Entry)) error {
	var failed error
	deleted := map[string]want{} // by the last change of each
	results := func(yield func(result) bool) {
		for e, err := range d.Entries() {
			if err != nil {
				failed = err
				return
			}
			seen(&e)
			w := wanted(set.name, &e)
			if e.Change == resourcesync.Deleted {
				deleted[w.url] = w
				continue
			}
			delete(deleted, w.url)
			res := result{want: w, what: Copied}
			if f, ok := c.has(w); ok {
				res.what, res.file = Unchanged, f
			} else if res.file, res.err = c.unpackOne(w, d, e); res.err != nil {
				res.what = Failed
			}
			if ctx.Err() != nil || !yield(res) {
				return
			}
		}
	}
	if err := c.recordAll(t, "dump", results); err != nil {
		return err
	}
	if err := errors.Join(failed, ctx.Err()); err != nil {
		return err
	}
	return c.deleteAll(ctx, slices.Collect(maps.Values(deleted)), t, "the Source deleted it")
}

// recordAll stores results that are there already.
func (c *Copy) recordAll(t *tally, what string, results iter.Seq[result]) error {
	r := &run{c: c, tally: t, what: what, began: time.Now(), results: make(chan result, storeSome)}
	stored := make(chan error, 1)
	go func() { stored <- r.record() }()
	for res := range results {
		if res.what == Unchanged {
			t.event(res.event())
			continue
		}
		r.results <- res
	}
	close(r.results)
	return <-stored
}

// unpackOne writes one resource of a package into the copy.
func (c *Copy) unpackOne(w want, d *resourcesync.DumpReader, e resourcesync.Entry) (file, error) {
	mu := &c.busy[keyOf(w.url)[0]]
	mu.Lock()
	defer mu.Unlock()
	p, err := c.place(w.url)
	if err != nil {
		return file{}, &refusedError{err}
	}
	in, err := d.Open(e)
	if err != nil {
		return file{}, err
	}
	defer func() { _ = in.Close() }()
	part, err := c.openPart(w, w.url)
	if err != nil {
		return file{}, err
	}
	defer part.close()
	part.hash, part.have = resourcesync.NewHasher(part.of...), 0
	if err := part.f.Truncate(0); err != nil {
		return file{}, err
	}
	if err := part.take(in, c.limit(w)); err != nil {
		return file{}, err
	}
	got := part.hash.Digests()
	if err := part.verify(w, got); err != nil {
		return file{}, err
	}
	if err := c.moveIn(part, p, w.lastMod); err != nil {
		return file{}, err
	}
	return file{
		Path: p, Set: w.set, Length: part.hash.Length(), Hash: got.String(), Said: got.Compare(w.digests) == resourcesync.Equal, LastMod: w.lastMod,
	}, nil
}
