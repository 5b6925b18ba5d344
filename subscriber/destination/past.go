package destination

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// pastOf returns a set as a state has it, from the first of the kinds of snapshots that there is.
func (s *pinner) pastOf(ctx context.Context, set namedSet, of Pinned, kinds ...string) (*past, error) {
	if of.Document != "" {
		return s.named(ctx, set)
	}
	return s.asOf(ctx, set, of.AsOf, kinds)
}

// baseKinds are the kinds of snapshots that a past state may begin with, the best first. A Resource
// Dump has the bytes of then.
func (s *pinner) baseKinds() []string {
	switch {
	case s.o.Baseline == BaselineList || s.o.DryRun:
		return []string{resourcesync.ResourceList}
	case s.o.Baseline == BaselineDump:
		return []string{resourcesync.ResourceDump}
	}
	return []string{resourcesync.ResourceDump, resourcesync.ResourceList}
}

// syncPast brings a set to a state that does not change, and returns the time of the state.
func (s *pinner) syncPast(ctx context.Context, set namedSet, of Pinned, t *tally) (time.Time, error) {
	st := s.state.set(set.name)
	if !of.AsOf.IsZero() && of.AsOf.Equal(st.BaselineAt) && s.isWhole(set, st) {
		return st.BaselineAt, nil
	}
	p, err := s.pastOf(ctx, set, of, s.baseKinds()...)
	if err != nil {
		return st.BaselineAt, err
	}
	defer p.remove()
	if p.base.address != "" && st.From == p.base.address && st.BaselineAt.Equal(p.at) && s.isWhole(set, st) {
		return p.at, nil
	}
	if p.base.address != "" {
		t.baseline(p.base.address)
	}
	s.reconciler.fetcher.past.Store(&p.at)
	c := &picked{selector: s.reconciler.selector, tally: t}
	listed, err := s.applyPast(ctx, set, p, c)
	if err != nil {
		return st.BaselineAt, err
	}
	if err := s.reconciler.deleteUnlisted(ctx, set, listed, len(listed) == 0, time.Now(), t); err != nil {
		return st.BaselineAt, err
	}
	if err := s.syncer.dropUnselected(ctx, set, c, len(listed), t); err != nil || s.o.DryRun {
		return p.at, err
	}
	return p.at, s.state.putSet(set.name, setState{
		Selected: s.reconciler.selector.digest, CapabilityList: set.CapabilityList, BaselineAt: p.at, From: cmp.Or(p.base.address, set.name), Via: s.o.Source,
	})
}

// isWhole reports whether all was done about a set when it was copied.
func (s *pinner) isWhole(set namedSet, st setState) bool {
	for range s.state.failures() {
		return false
	}
	return !s.reconciler.selector.isNew(set, st)
}

// applyPast copies a past state, and returns the resources that it has.
func (s *pinner) applyPast(ctx context.Context, set namedSet, p *past, c *picked) (listed map[key]struct{}, err error) {
	switch p.base.capability {
	case resourcesync.ResourceList:
		if listed, err = p.docs.resources(); err == nil {
			err = s.reconciler.carryOut(ctx, c.tally, "baseline", len(listed), c.from(p.docs.others(set, p.newer)))
		}
	case resourcesync.ResourceDump:
		if s.o.DryRun {
			return nil, fmt.Errorf("a dry run does not fetch dumps, and no Resource List says what is in %s", p.base.address)
		}
		listed, err = s.syncer.applyPackages(ctx, set, p.docs, p.newer, c)
	default:
		listed = map[key]struct{}{}
	}
	if err != nil {
		return nil, err
	}
	note := func(w *desired) {
		if listed[keyOf(w.url)] = struct{}{}; w.change.Removes() {
			delete(listed, keyOf(w.url))
		}
	}
	if !p.lists {
		return listed, s.applyDumpsUntil(ctx, set, p, note, c.tally)
	}
	wants := slices.SortedFunc(maps.Values(p.newer), func(a, b desired) int { return cmp.Or(a.changedAt.Compare(b.changedAt), cmp.Compare(a.url, b.url)) })
	for i := range wants {
		note(&wants[i])
	}
	wants = slices.DeleteFunc(wants, func(w desired) bool { return w.change.Removes() })
	from := s.pastDumps(ctx, set, p, wants)
	defer from.close(ctx)
	for batch := range slices.Chunk(wants, together) {
		from.fill(ctx, batch)
		if err := s.reconciler.carryOut(ctx, c.tally, "changes", len(batch), c.from(each(batch))); err != nil {
			return nil, err
		}
	}
	return listed, nil
}

// pastDumps returns the packages of Change Dumps that may have the bytes of changes: the resources
// may have others by now.
func (s *pinner) pastDumps(ctx context.Context, set namedSet, p *past, wants []desired) *parcels {
	if len(p.dumps) == 0 || len(wants) == 0 || s.o.Changes == ChangesList || s.o.DryRun {
		return nil
	}
	from := &parcels{s: s.syncer, set: set}
	for _, address := range p.dumps {
		if err := from.read(ctx, address); err != nil {
			s.log.Warn("a Change Dump could not be used; its changes are fetched one by one", "event", "dump_failed", "dump", address, "error", err)
		}
	}
	lacking, _ := s.syncer.lacking(func(use func(*desired)) {
		for i := range wants {
			use(&wants[i])
		}
	})
	from.choose(lacking, true)
	return from
}

// applyDumpsUntil carries out the changes of Change Dumps, one package after the other.
func (s *pinner) applyDumpsUntil(ctx context.Context, set namedSet, p *past, note func(*desired), t *tally) error {
	if s.o.DryRun {
		return errors.New("a dry run does not fetch dumps, and no Change List says what has changed")
	}
	since, to := p.since, p.at
	for _, address := range p.dumps {
		err := s.lists.changeDumps(ctx, set, address, since, func(wants []desired, until time.Time) error {
			wants = slices.DeleteFunc(wants, func(w desired) bool { return !to.IsZero() && w.changedAt.After(to) })
			for i := range wants {
				note(&wants[i])
			}
			since = later(since, until)
			if to.IsZero() {
				p.at = since
			}
			return s.reconciler.change(ctx, t, wants)
		})
		hole := (*holeError)(nil)
		switch {
		case !errors.As(err, &hole):
		case !to.IsZero() && !hole.from.Before(to):
			err = nil // what is missing was later
		default:
			err = fmt.Errorf("%w: %w", ErrNoState, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
