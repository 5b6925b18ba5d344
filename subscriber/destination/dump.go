package destination

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/internal/biglist"
)

// fromDump takes a baseline from a Resource Dump.
func (s *syncer) fromDump(ctx context.Context, set namedSet, address string, st setState, t *tally) (setState, error) {
	docs, err := s.lists.download(ctx, address, resourcesync.ResourceDump, setState{})
	if err != nil {
		return st, err
	}
	defer docs.remove()
	if docs.at.Before(st.Due) {
		return st, fmt.Errorf("%s is as of %s: %w", address, resourcesync.FormatDatetime(docs.at), ErrBehind)
	}
	newer, err := s.leftToChanges(ctx, set, docs.at, st)
	if err != nil {
		return st, err
	}
	t.baseline(address)
	listed := map[key]struct{}{}
	for url := range newer {
		listed[keyOf(url)] = struct{}{}
	}
	for e, err := range docs.entries() {
		if err != nil {
			return st, fmt.Errorf("reading %s: %w", address, err)
		}
		err = s.lists.withPackage(ctx, &e, resourcesync.ResourceDumpManifest, func(d *resourcesync.DumpReader) error {
			return s.unpack(ctx, set, d, t, func(e *resourcesync.Entry) bool {
				listed[keyOf(e.Loc)] = struct{}{}
				_, ok := newer[e.Loc]
				return !ok
			})
		})
		if err != nil {
			return st, err
		}
	}
	if err := s.reconciler.carryOut(ctx, t, "baseline", len(newer), marks(newer)); err != nil {
		return st, err
	}
	if err := s.reconciler.deleteUnlisted(ctx, set, listed, docs.at, t); err != nil {
		return st, err
	}
	return setState{CapabilityList: set.CapabilityList, BaselineAt: docs.at, From: address, DumpsUntil: docs.at}, nil
}

// errHole says that something is missing before a package.
var errHole = errors.New("no package of the Change Dump has what happened")

// changeDumps goes over the packages of a Change Dump that end after since. With each it
// calls use, for what it says and has, and then reached with how far that is.
func (l *lists) changeDumps(ctx context.Context, set namedSet, since time.Time, use func([]desired) error, reached func(time.Time) error) error {
	address := set.Documents[resourcesync.ChangeDump]
	docs, err := l.download(ctx, address, resourcesync.ChangeDump, setState{})
	if err != nil {
		return err
	}
	defer docs.remove()
	until := since
	for e, err := range docs.entries() {
		switch {
		case err != nil:
			return fmt.Errorf("reading %s: %w", address, err)
		case !e.Until.IsZero() && !e.Until.After(since):
			continue
		case e.From.After(until):
			return &holeError{address, until, e.From}
		}
		err = l.withPackage(ctx, &e, resourcesync.ChangeDumpManifest, func(d *resourcesync.DumpReader) error {
			wants, last, err := changesOf(set, d, since)
			if err != nil {
				return err
			}
			for _, t := range []time.Time{last, e.Until} {
				if t.After(until) {
					until = t
				}
			}
			return use(wants)
		})
		if err != nil {
			return err
		}
		if err := reached(until); err != nil {
			return err
		}
	}
	return nil
}

// changesOf are the changes of a package from since on, and when the last was.
func changesOf(set namedSet, d *resourcesync.DumpReader, since time.Time) (wants []desired, last time.Time, err error) {
	for e, err := range d.Entries() {
		if err != nil {
			return nil, last, err
		}
		if e.Datetime.After(last) {
			last = e.Datetime
		}
		if e.Datetime.IsZero() || !e.Datetime.Before(since) {
			wants = append(wants, packed(set.name, d, &e))
		}
	}
	return wants, last, nil
}

// holeError says what a Change Dump lacks.
type holeError struct {
	dump        string
	from, until time.Time
}

func (e *holeError) Error() string {
	return fmt.Sprintf("%s: %v between %s and %s", e.dump, errHole, resourcesync.FormatDatetime(e.from), resourcesync.FormatDatetime(e.until))
}

func (e *holeError) Unwrap() error { return errHole }

// withPackage fetches a package, verifies it and opens it.
func (l *lists) withPackage(ctx context.Context, e *resourcesync.Entry, capability string, use func(*resourcesync.DumpReader) error) error {
	w := desiredFrom("", e)
	name := partsDir + "/" + digest(w.url, 16) + whole
	var err error
	if _, there := l.fetcher.adopt(ctx, w, name); !there {
		_, err = l.fetcher.fetchFrom(ctx, w, w.url, name)
	}
	if err == nil {
		err = l.openPackage(name, capability, use)
	}
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("the package %s: %w", e.Loc, err)
	}
	if ctx.Err() == nil { // what was fetched whole need not be fetched again
		_ = l.fetcher.tree.root.Remove(name)
	}
	return err
}

func (l *lists) openPackage(name, capability string, use func(*resourcesync.DumpReader) error) error {
	f, err := l.fetcher.tree.root.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	d, err := resourcesync.NewDumpReader(f, info.Size(), resourcesync.DumpReadOptions{Limits: biglist.DumpLimits(l.most), AnyLoc: true})
	if err != nil {
		return biglist.Explain(err, l.most)
	}
	if head := d.Head(); head.Capability != capability {
		return fmt.Errorf("its manifest is a %q, and a %q is wanted", head.Capability, capability)
	}
	return use(d)
}

// unpack takes the resources of a package into the copy that take says.
func (s *syncer) unpack(ctx context.Context, set namedSet, d *resourcesync.DumpReader, t *tally, take func(*resourcesync.Entry) bool) error {
	var failed error
	err := s.reconciler.carryOut(ctx, t, "dump", 0, func(yield func(desired) bool) {
		for e, err := range d.Entries() {
			if err != nil {
				failed = biglist.Explain(err, s.o.MaxEntries)
				return
			}
			if take(&e) && !yield(asListed(packed(set.name, d, &e))) {
				return
			}
		}
	})
	return errors.Join(err, failed)
}

// packed is what an entry of a package says, with its content. What the package lacks
// is fetched by itself.
func packed(set string, d *resourcesync.DumpReader, e *resourcesync.Entry) desired {
	w := desiredFrom(set, e)
	if e.Path != "" {
		in := *e // the next one takes its place
		w.open = func() (io.ReadCloser, error) { return d.Open(in) }
	}
	return w
}
