package source

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// buildChangeDumps writes the Change Dump of each closed Change List that has none
// yet, oldest first (DOC-41, DOC-43).
//
// A dump has the last change of each resource in its interval: there are no bytes
// of those before. Where the resource has changed again since, that change is left
// out as well, and a later dump or list has the newer one; whoever applies all of
// them in order ends with what there is.
func (s *set) buildChangeDumps(ctx context.Context) error {
	for _, p := range s.shelf.current().History.Periods {
		if p.Dump != "" {
			continue
		}
		err := s.buildChangeDump(ctx, p)
		if err != nil && !errors.Is(err, ErrPruned) {
			return err
		}
	}
	return nil
}

func (s *set) buildChangeDump(ctx context.Context, p period) error {
	snap, err := s.index.Snapshot()
	if err != nil {
		return err
	}
	defer snap.Close()
	items, err := lastChanges(snap, p)
	if err != nil {
		return err
	}
	e := s.shelf.edition()
	left, err := s.packager.writeChangeDump(ctx, e, &p, items)
	if err == nil {
		err = s.renew(left)
	}
	if err != nil {
		e.discard()
		return err
	}
	return s.show(e, func(c *catalogue) error {
		found := false
		for i := range c.History.Periods {
			if c.History.Periods[i].Path == p.Path {
				c.History.Periods[i].Dump, c.History.Periods[i].Packages, found = p.Dump, p.Packages, true
			}
		}
		if !found {
			return fmt.Errorf("the Change List %s was removed while its dump was written", p.Path)
		}
		existed := c.has(changeDumpPath)
		if err := s.archivist.changeDumps(e, c); err != nil {
			return err
		}
		c.notify(resourcesync.ChangeDump, changeDumpPath, nil, existed)
		return nil
	})
}

// lastChanges returns the last change of each resource in a period, in order.
func lastChanges(snap *Snapshot, p period) ([]item, error) {
	last := make(map[string]int)
	var items []item
	for c, err := range snap.Changes(p.After) {
		if err != nil {
			return nil, err
		}
		if c.Seq > p.Last {
			break
		}
		if i, ok := last[c.Resource.Path]; ok {
			items[i].change = nil
		}
		last[c.Resource.Path] = len(items)
		items = append(items, item{resource: c.Resource, change: &c})
	}
	kept := items[:0]
	for _, x := range items {
		if x.change != nil {
			kept = append(kept, x)
		}
	}
	return kept, nil
}

// writeChangeDump writes the packages of a period, and the dump that lists them. It
// returns what was left out.
func (s *packager) writeChangeDump(ctx context.Context, e *edition, p *period, items []item) (left []Resource, err error) {
	p.Dump, p.Packages = fmt.Sprintf("archive/changedump-%d.xml", p.After+1), nil
	var entries []resourcesync.Entry
	from := p.From
	for rest := items; len(rest) > 0 || len(entries) == 0; {
		n, size := 0, int64(0)
		for n < len(rest) && n < packageEntries && (n == 0 || size+rest[n].resource.Length <= s.composer.schedule.PackageBytes) {
			size += rest[n].resource.Length
			n++
		}
		until := p.Until
		if n < len(rest) {
			until = rest[n].change.At // all changes have times of their own
		}
		x := packaging{Path: fmt.Sprintf("dumps/changedump-%d-%d.zip", p.After+1, len(entries)+1), From: from, Until: until}
		h := resourcesync.Head{Capability: resourcesync.ChangeDumpManifest, From: from, Until: until}
		moved, err := s.writePackage(ctx, e, x.Path, h, rest[:n])
		if err != nil {
			return nil, err
		}
		left = append(left, moved...)
		p.Packages = append(p.Packages, x)
		entries = append(entries, s.composer.packageEntry(x, e.last()))
		rest, from = rest[n:], until
	}
	return left, s.composer.writeSplit(e, p.Dump, resourcesync.Head{
		Capability: resourcesync.ChangeDump, From: p.From, Until: p.Until, Links: s.composer.links("", ""),
	}, entries)
}

// changeDumps writes the Change Dump, of the closed Change Lists that are beside
// the open one, and the archive, of all. Where one in the middle never got a dump,
// since its changes were gone when dumps were asked for, the Change Dump begins
// after it: it has no hole.
func (s *archivist) changeDumps(e *edition, c *catalogue) error {
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
		c.drop(time.Now(), changeDumpPath, changeDumpArchivePath)
		return nil
	}
	h := resourcesync.Head{Capability: resourcesync.ChangeDump, From: from, Links: s.composer.links("", changeDumpArchivePath)}
	if err := s.composer.writeSplit(e, changeDumpPath, h, entries); err != nil {
		return err
	}
	return s.archiveOf(e, c, resourcesync.ChangeDumpArchive, changeDumpArchivePath, members)
}
