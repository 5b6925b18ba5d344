package destination

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/rshub/rshub/internal/base/quantity"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber"
)

// Changes is where the bytes of changed resources come from, if the Source has both Change Lists
// and Change Dumps. The lists say what has changed in any case.
type Changes string

// The kinds of Changes.
const (
	ChangesAuto Changes = ""     // a package of a dump, if it costs less than the resources one by one
	ChangesList Changes = "list" // each resource by itself
	ChangesDump Changes = "dump" // the packages, whatever they cost; else each resource by itself
)

// requestCost is how many bytes a request costs as much as.
const requestCost = 32 << 10

// mostCost bounds the bytes of a cost.
const mostCost = 1 << 60

// cost is what it costs to fetch something.
type cost struct {
	requests int
	bytes    int64
}

// add returns the sum. Lengths are what a Source says, so they may be of any size.
func (c cost) add(d cost) cost {
	return cost{c.requests + d.requests, min(c.bytes, mostCost) + min(d.bytes, mostCost)}
}
func (c cost) total() int64         { return int64(c.requests)*requestCost + c.bytes }
func (c cost) lessThan(d cost) bool { return c.total() < d.total() }
func (c cost) String() string {
	s := ""
	if c.requests != 1 {
		s = "s"
	}
	return fmt.Sprintf("%d request%s, %s", c.requests, s, quantity.BytesText(c.bytes))
}

// ofResource returns the cost of a resource by itself. An unknown length counts as 0.
func ofResource(w *desired) cost { return cost{1, max(0, w.length)} }

// ofPackages returns the cost of packages; false: the dump does not give the length of each.
func ofPackages(entries []resourcesync.Entry) (c cost, known bool) {
	known = true
	for i := range entries {
		c = c.add(cost{1, max(0, entries[i].Length)})
		known = known && entries[i].HasLength
	}
	return c, known
}

// cheaperDump reports whether a set's Resource Dump costs less than the resources of its list that
// the copy lacks, and why.
func (s *syncer) cheaperDump(ctx context.Context, set namedSet, list *documents) (cheaper bool, why string) {
	var single cost
	for e, err := range list.entries() {
		if err != nil {
			return false, "the Resource List cannot be read" // its use reports the error
		}
		listed := asListed(desiredFrom(set.name, &e))
		w := s.reconciler.fetcher.prefer.apply(listed)
		if _, there := s.reconciler.isInStep(w); !there && s.reconciler.selector.wants(&listed) {
			single = single.add(ofResource(&w))
		}
	}
	if single.requests < 2 {
		return false, "the copy lacks " + quantity.Count(single.requests, "resource", "resources")
	}
	dump, err := s.lists.download(ctx, set.Documents[resourcesync.ResourceDump], resourcesync.ResourceDump, setState{})
	if err != nil {
		return false, fmt.Sprintf("the Resource Dump cannot be used: %v", err)
	}
	defer dump.remove()
	var packages []resourcesync.Entry
	for e, err := range dump.entries() {
		if err != nil {
			return false, fmt.Sprintf("the Resource Dump cannot be used: %v", err)
		}
		packages = append(packages, e)
	}
	all, known := ofPackages(packages)
	if !known {
		return false, "the Resource Dump does not give the lengths of its packages"
	}
	if all.lessThan(single) {
		return true, fmt.Sprintf("the packages cost less: %v, and the resources one by one %v", all, single)
	}
	return false, fmt.Sprintf("the resources cost less one by one: %v, and the packages %v", single, all)
}

// parcels are the packages of a Change Dump, from which changed resources get their bytes. A nil
// *parcels has none.
type parcels struct {
	s      *syncer
	set    namedSet
	groups []*parcel // by when they begin
	at     time.Time // when they were read
}

// parcelsFresh is how long packages are used for what follows: later there may be more of them.
const parcelsFresh = time.Minute

// parcel is the packages of one interval.
type parcel struct {
	from, until time.Time // until is zero if it is open
	packages    []resourcesync.Entry
	single      cost // of the changes in the interval, one by one
	chosen      bool
	done        bool // closed; they are not opened again
	opened      []*openedPackage
	has         map[key][]packedEntry // once it is open
}

// packedEntry is an entry of a manifest that has bytes.
type packedEntry struct {
	digests resourcesync.Digests
	at      time.Time
	open    func() (io.ReadCloser, error)
}

// dumpsFor returns the packages to use for changes that are waiting, and reports the choice. It
// is nil if there are none to use.
func (s *syncer) dumpsFor(ctx context.Context, set namedSet, changes func(func(*desired)), t *tally) *parcels {
	address := set.Documents[resourcesync.ChangeDump]
	if address == "" || s.o.Changes == ChangesList {
		return nil
	}
	wants, single := s.lacking(changes)
	if len(wants) == 0 || len(wants) < 4 && s.o.Changes == ChangesAuto {
		return nil
	}
	p := &parcels{s: s, set: set, at: time.Now()}
	if err := p.read(ctx, address); err != nil {
		s.log.Warn("the Change Dump could not be used; the changes are fetched one by one", "event", "dump_failed", "dump", address, "error", err)
		t.choose(Choice{"changes", string(ChangesList), fmt.Sprintf("the Change Dump cannot be used: %v", err)})
		return nil
	}
	used, spared := p.choose(wants, s.o.Changes == ChangesDump)
	switch {
	case used.requests == 0:
		t.choose(Choice{"changes", string(ChangesList), fmt.Sprintf("no package costs less than its changes; one by one they cost %v", single)})
		return nil
	case s.o.Changes == ChangesDump:
		t.choose(Choice{"changes", string(ChangesDump), fmt.Sprintf("they were asked for: %v for packages, in place of %v", used, spared)})
	default:
		t.choose(Choice{"changes", string(ChangesDump), fmt.Sprintf("%v for packages cost less than %v one by one; %d other changes are fetched one by one", used, spared, len(wants)-spared.requests)})
	}
	return p
}

// lackingChange is a change whose bytes the copy lacks.
type lackingChange struct {
	at     time.Time
	length int64
}

// lacking returns the last changes of the resources whose bytes the copy lacks, and what they cost.
func (s *syncer) lacking(changes func(func(*desired))) (map[key]lackingChange, cost) {
	wants := map[key]lackingChange{}
	changes(func(w *desired) {
		as := s.reconciler.fetcher.prefer.apply(*w)
		_, there := s.reconciler.isInStep(as)
		if there || !s.reconciler.selector.wants(w) || w.change.Removes() || w.changedAt.IsZero() || as.alternate {
			delete(wants, keyOf(w.url))
			return
		}
		wants[keyOf(w.url)] = lackingChange{w.changedAt, max(0, w.length)}
	})
	var single cost
	for _, w := range wants {
		single = single.add(cost{1, w.length})
	}
	return wants, single
}

// read reads which packages the Change Dump has. Packages without an interval are left out.
func (p *parcels) read(ctx context.Context, address string) error {
	docs, err := p.s.lists.download(ctx, address, resourcesync.ChangeDump, setState{})
	if err != nil {
		return err
	}
	defer docs.remove()
	type interval struct{ from, until time.Time }
	groups := map[interval]*parcel{}
	for e, err := range docs.entries() {
		if err != nil {
			return err
		}
		if e.From.IsZero() {
			continue
		}
		at := interval{e.From.UTC(), e.Until.UTC()}
		g := groups[at]
		if g == nil {
			g = &parcel{from: e.From, until: e.Until}
			groups[at], p.groups = g, append(p.groups, g)
		}
		g.packages = append(g.packages, e)
	}
	slices.SortStableFunc(p.groups, func(a, b *parcel) int { return a.from.Compare(b.from) })
	return nil
}

// choose chooses the packages that cost less than their changes, or any that have one, besides
// those that are chosen. It returns what they cost, and what they spare.
func (p *parcels) choose(wants map[key]lackingChange, whatever bool) (used, spared cost) {
	for _, g := range p.groups {
		g.single = cost{}
	}
	for _, w := range wants {
		i, found := slices.BinarySearchFunc(p.groups, w.at, func(g *parcel, at time.Time) int { return g.from.Compare(at) })
		if !found {
			i--
		}
		if i >= 0 && p.groups[i].spans(w.at) {
			p.groups[i].single = p.groups[i].single.add(cost{1, w.length})
		}
	}
	for _, g := range p.groups {
		c, known := ofPackages(g.packages)
		if !g.chosen && !g.done && g.single.requests > 0 && (whatever || known && c.lessThan(g.single)) {
			g.chosen = true
			used, spared = used.add(c), spared.add(g.single)
		}
	}
	return used, spared
}

// spans reports whether a change may be in the packages.
func (g *parcel) spans(at time.Time) bool {
	return !at.Before(g.from) && (g.until.IsZero() || !at.After(g.until))
}

// hasAny reports whether a change may be in a chosen package.
func (p *parcels) hasAny(changes []subscriber.Change) bool {
	return p != nil && time.Since(p.at) < parcelsFresh && slices.ContainsFunc(p.groups, func(g *parcel) bool {
		return g.chosen && slices.ContainsFunc(changes, func(c subscriber.Change) bool { return g.spans(c.Datetime) })
	})
}

// fill gives changes their bytes, as far as chosen packages have them: with the hash that the
// list gives or, if one of both gives none, with the time of the change. Earlier packages are
// closed.
func (p *parcels) fill(ctx context.Context, wants []desired) {
	if p == nil {
		return
	}
	var first time.Time
	for i := range wants {
		if at := wants[i].changedAt; !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	for _, g := range p.groups {
		if !g.until.IsZero() && g.until.Before(first) {
			p.closeOne(ctx, g)
		}
		for i := range wants {
			w := &wants[i]
			if !g.chosen || w.open != nil || w.change.Removes() || !g.spans(w.changedAt) {
				continue
			}
			if err := p.open(ctx, g); err != nil {
				p.s.log.Warn("a package of the Change Dump could not be used; its changes are fetched one by one", "event", "dump_failed", "error", err)
				break
			}
			w.open = g.find(w)
		}
	}
}

// find returns what opens the bytes of a change; nil: the packages lack them.
func (g *parcel) find(w *desired) func() (io.ReadCloser, error) {
	for _, e := range g.has[keyOf(w.url)] {
		c := e.digests.Compare(w.digests)
		if c == resourcesync.Equal || c != resourcesync.Different && e.at.Equal(w.changedAt) {
			return e.open
		}
	}
	return nil
}

// open fetches and opens packages, unless they are open.
func (p *parcels) open(ctx context.Context, g *parcel) error {
	if g.has != nil {
		return nil
	}
	g.has = map[key][]packedEntry{}
	for i := range g.packages {
		o, err := p.s.lists.openPackage(ctx, &g.packages[i], resourcesync.ChangeDumpManifest)
		if err != nil {
			p.closeOne(ctx, g)
			return err
		}
		g.opened = append(g.opened, o)
		for w, err := range packed(p.set, o.DumpReader, p.s.o.MaxEntries) {
			if err != nil {
				p.closeOne(ctx, g)
				return err
			}
			if w.open != nil && !w.change.Removes() {
				g.has[keyOf(w.url)] = append(g.has[keyOf(w.url)], packedEntry{w.digests, w.changedAt, w.open})
			}
		}
	}
	return nil
}

// closeOne closes packages. They are not opened again.
func (p *parcels) closeOne(ctx context.Context, g *parcel) {
	for _, o := range g.opened {
		o.close(ctx)
	}
	g.opened, g.has, g.chosen, g.done = nil, nil, false, true
}

// close closes all packages.
func (p *parcels) close(ctx context.Context) {
	if p == nil {
		return
	}
	for _, g := range p.groups {
		p.closeOne(ctx, g)
	}
}

// Choice is which of the Source's documents a run used for something, where there were two, and
// why.
type Choice struct {
	For  string `json:"for"`  // "baseline" or "changes"
	Used string `json:"used"` // "list" or "dump"
	Why  string `json:"why"`
}

// choose records a choice for the set that was started last; a later one replaces it.
func (t *tally) choose(c Choice) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.Sets) == 0 {
		return // a follower has no report
	}
	set := &t.Sets[len(t.Sets)-1]
	set.Choices = append(slices.DeleteFunc(set.Choices, func(was Choice) bool { return was.For == c.For }), c)
	slices.SortFunc(set.Choices, func(a, b Choice) int { return cmp.Compare(a.For, b.For) })
}

// chooseBaseline records the choice of a baseline; why is empty if there was none.
func (t *tally) chooseBaseline(used, why string) {
	if why != "" {
		t.choose(Choice{"baseline", used, why})
	}
}
