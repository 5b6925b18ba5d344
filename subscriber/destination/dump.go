package destination

import (
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/internal/biglist"
)

// applyDump puts the resources of a Resource Dump into the copy, and returns the resources
// that it lists.
func (s *syncer) applyDump(ctx context.Context, set namedSet, docs *documents, newer map[string]desired, c *picked) (map[key]struct{}, error) {
	listed, err := s.applyPackages(ctx, set, docs, newer, c)
	if err != nil {
		return nil, err
	}
	return listed, s.reconciler.carryOut(ctx, c.tally, "baseline", len(newer), c.from(remaining(newer)))
}

// applyPackages is applyDump without the resources that are in newer.
func (s *syncer) applyPackages(ctx context.Context, set namedSet, docs *documents, newer map[string]desired, c *picked) (map[key]struct{}, error) {
	listed := map[key]struct{}{}
	for e, err := range docs.entries() {
		if err != nil {
			return nil, err
		}
		err = s.lists.withPackage(ctx, &e, resourcesync.ResourceDumpManifest, func(d *resourcesync.DumpReader) error {
			return s.reconciler.carryOut(ctx, c.tally, "dump", 0, c.from(func(yield func(desired, error) bool) {
				for w, err := range packed(set, d, s.o.MaxEntries) {
					listed[keyOf(w.url)] = struct{}{}
					if _, left := newer[w.url]; (err != nil || !left) && !yield(asListed(w), err) {
						return
					}
				}
			}))
		})
		if err != nil {
			return nil, err
		}
	}
	return listed, nil
}

// changeDumps reads the packages of a Change Dump that end after since. For each package
// it calls use with the changes in it, and with the time up to which they are complete. If since
// is firstInstant, it reads all packages, whenever they begin. That time is never in the future: what a package says of
// the future keeps no later package from being read.
func (l *lists) changeDumps(ctx context.Context, set namedSet, address string, since time.Time, use func(wants []desired, until time.Time) error) error {
	docs, err := l.download(ctx, address, resourcesync.ChangeDump, setState{})
	if err != nil {
		return err
	}
	defer docs.remove()
	until, now := since, time.Now()
	reach := func(to time.Time) { until = later(until, earlier(to, now)) }
	for e, err := range docs.entries() {
		switch {
		case err != nil:
			return err
		case !e.Until.IsZero() && !e.Until.After(since):
			continue
		case e.From.After(until) && until.After(firstInstant): // before the first package is nothing
			return &holeError{address, until, e.From}
		}
		reach(e.Until)
		err = l.withPackage(ctx, &e, resourcesync.ChangeDumpManifest, func(d *resourcesync.DumpReader) error {
			var wants []desired
			for w, err := range packed(set, d, l.most) {
				if err != nil {
					return err
				}
				reach(w.changedAt)
				if w.changedAt.IsZero() || !w.changedAt.Before(since) {
					wants = append(wants, w)
				}
			}
			return use(wants, until)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// holeError says that a Change Dump does not have the changes of an interval.
type holeError struct {
	dump        string
	from, until time.Time
}

func (e *holeError) Error() string {
	return fmt.Sprintf("%s: no package of the Change Dump has the changes between %s and %s",
		e.dump, resourcesync.FormatDatetime(e.from), resourcesync.FormatDatetime(e.until))
}

// withPackage fetches a package, verifies it and opens it.
func (l *lists) withPackage(ctx context.Context, e *resourcesync.Entry, capability string, use func(*resourcesync.DumpReader) error) error {
	o, err := l.openPackage(ctx, e, capability)
	if err != nil {
		return err
	}
	defer o.close(ctx)
	if err = use(o.DumpReader); err != nil && ctx.Err() == nil {
		err = fmt.Errorf("the package %s: %w", e.Loc, err)
	}
	return err
}

// openedPackage is a package on disk.
type openedPackage struct {
	*resourcesync.DumpReader
	f      *os.File
	remove func(context.Context)
}

// close closes the package, and removes it. If ctx ended, it stays: the next run does not fetch it
// again.
func (o *openedPackage) close(ctx context.Context) {
	_ = o.f.Close() // only read
	o.remove(ctx)
}

// openPackage fetches a package, verifies it and opens it. The caller closes it.
func (l *lists) openPackage(ctx context.Context, e *resourcesync.Entry, capability string) (*openedPackage, error) {
	w := desiredFrom("", e)
	name := partsDir + "/" + digest(w.url, 16) + whole
	o := &openedPackage{remove: func(ctx context.Context) {
		if ctx.Err() == nil {
			_ = l.fetcher.tree.root.Remove(name)
		}
	}}
	var err error
	if _, there := l.fetcher.adopt(ctx, w, name); !there {
		_, err = l.fetcher.fetchFrom(ctx, w, w.url, name)
	}
	if err == nil {
		o.f, err = l.fetcher.tree.root.Open(name)
	}
	if err == nil {
		o.DumpReader, err = l.readPackage(o.f, capability)
	}
	if err == nil {
		return o, nil
	}
	if o.f != nil {
		_ = o.f.Close() // the first error says more
	}
	o.remove(ctx)
	if ctx.Err() == nil {
		err = fmt.Errorf("the package %s: %w", e.Loc, err)
	}
	return nil, err
}

// readPackage reads the head of a package.
func (l *lists) readPackage(f *os.File, capability string) (*resourcesync.DumpReader, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	d, err := resourcesync.NewDumpReader(f, info.Size(), resourcesync.DumpReadOptions{Limits: biglist.DumpLimits(l.most), AnyLoc: true})
	if err != nil {
		return nil, biglist.Explain(err, l.most)
	}
	if head := d.Head(); head.Capability != capability {
		return nil, fmt.Errorf("its manifest is a %q, not a %q", head.Capability, capability)
	}
	return d, nil
}

// packed yields the entries of a package, with their content. Content that the package
// lacks is fetched from the address of the resource.
func packed(set namedSet, d *resourcesync.DumpReader, most int) iter.Seq2[desired, error] {
	return func(yield func(desired, error) bool) {
		for e, err := range d.Entries() {
			w := desiredFrom(set.name, &e)
			if e.Path != "" {
				w.open = func() (io.ReadCloser, error) { return d.Open(e) }
			}
			if !yield(w, biglist.Explain(err, most)) {
				return
			}
		}
	}
}
