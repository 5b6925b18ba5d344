package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// buildChangeDumps writes the Change Dump of each closed Change List that has none yet,
// oldest first (DOC-41, DOC-43).
//
// A dump has the last change of each resource in its interval, because the bytes of earlier
// changes are gone. If a resource has changed again since, the dump leaves that change out,
// too. A later dump or list has the newer change, so a client that applies all of them in
// order has everything in the end.
func (s *set) buildChangeDumps(ctx context.Context) error {
	for _, p := range s.shelf.current().History.Periods {
		if p.Dump != "" {
			continue
		}
		err := s.index.read(func(snap *Snapshot) error { return s.buildChangeDump(ctx, snap, p) })
		if err != nil && !errors.Is(err, ErrPruned) {
			return err
		}
	}
	return nil
}

func (s *set) buildChangeDump(ctx context.Context, snap *Snapshot, p period) error {
	items, err := s.composer.lastChanges(snap, p)
	if err != nil {
		return err
	}
	e := s.shelf.edition()
	defer e.discard()
	left, err := s.packager.writeChangeDump(ctx, e, snap, &p, items)
	if err == nil {
		err = s.renew(left)
	}
	if err != nil {
		return err
	}
	return s.show(e, func(c *register) error {
		found := false
		for i := range c.History.Periods {
			if x := &c.History.Periods[i]; x.Path == p.Path {
				x.Dump, x.Packages, found = p.Dump, p.Packages, true
			}
		}
		if !found {
			return fmt.Errorf("the Change List %s was removed while its dump was written", p.Path)
		}
		c.notify(resourcesync.ChangeDump, changeDumpPath, nil, c.has(changeDumpPath))
		return s.archivist.changeDumps(e, c)
	})
}

// lastChanges returns the last change at each URL in a period, in order.
func (s *composer) lastChanges(snap *Snapshot, p period) ([]item, error) {
	last := make(map[string]int)
	var items []item
	for c, err := range snap.Changes(p.After) {
		if err != nil {
			return nil, err
		}
		if c.Seq > p.Last {
			break
		}
		at := s.urlOf(s.addressAt(c.Seq), &c.Resource)
		if i, ok := last[at]; ok {
			items[i].change = nil
		}
		last[at] = len(items)
		items = append(items, item{resource: c.Resource, change: &c})
	}
	return slices.DeleteFunc(items, func(x item) bool { return x.change == nil }), nil
}

// writeChangeDump writes the packages of a period, and the dump that lists them. It returns
// what was left out.
func (s *packager) writeChangeDump(ctx context.Context, e *edition, snap *Snapshot, p *period, items []item) (left []Resource, err error) {
	p.Dump = fmt.Sprintf("archive/changedump-%d.xml", p.After+1)
	d, err := s.writePackages(ctx, e, snap, fmt.Sprintf("changedump-%d", p.After+1), resourcesync.ChangeDumpManifest, packaging{From: p.From, Until: p.Until}, each(items))
	if err != nil {
		return nil, err
	}
	p.Packages = d.packages
	head := resourcesync.Head{Capability: resourcesync.ChangeDump, From: p.From, Until: p.Until, Links: s.composer.links("", "")}
	err = s.composer.writeSplit(e, p.Dump, head, each(d.entries))
	return d.left, err
}

// changeDumps writes the Change Dump, of the closed Change Lists that are beside the open
// one, and the archive, of all of them. A period has no dump if its changes were gone before
// Change Dumps were enabled. The Change Dump begins after such a period, so it has no hole.
func (s *archivist) changeDumps(e *edition, c *register) error {
	var entries, members []resourcesync.Entry
	var from time.Time
	hole := false
	for _, p := range c.History.Periods {
		if p.Dump == "" {
			hole = true
			continue
		}
		members = append(members, resourcesync.Entry{Loc: s.composer.url(p.Dump), From: p.From, Until: p.Until})
		if !p.Indexed {
			continue
		}
		if from.IsZero() || hole {
			from, entries, hole = p.From, nil, false
		}
		for _, x := range p.Packages {
			d, ok := c.Documents[x.Path]
			if !ok {
				return fmt.Errorf("the package %s of the Change Dump is lost", x.Path)
			}
			entries = append(entries, s.composer.packageEntry(x, &d))
		}
	}
	if len(entries) == 0 {
		c.drop(changeDumpPath, changeDumpArchivePath)
		return nil
	}
	head := resourcesync.Head{Capability: resourcesync.ChangeDump, From: from, Links: s.composer.links("", changeDumpArchivePath)}
	if err := s.composer.writeSplit(e, changeDumpPath, head, each(entries)); err != nil {
		return err
	}
	return s.writeArchive(e, c, resourcesync.ChangeDumpArchive, changeDumpArchivePath, members)
}
