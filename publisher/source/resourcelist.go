package source

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// buildResourceList writes the Resource List if resources have changed since (DOC-34,
// DOC-35), and another one for the archive when it is due. It keeps at most one part in
// memory, whatever the number of resources.
func (s *set) buildResourceList(ctx context.Context) (next time.Time, err error) {
	if err := s.index.read(func(snap *Snapshot) error { return s.writeDueLists(ctx, snap) }); err != nil {
		return next, err
	}
	lists := s.shelf.current().History.Lists
	if n := len(lists); s.composer.schedule.Archive > 0 && n > 0 && lists[n-1].Last != s.index.state().last.seq {
		next = lists[n-1].Written.Add(s.composer.schedule.Archive)
	}
	return earlier(next, s.archivist.nextExpiry(lists)), nil
}

func (s *set) writeDueLists(ctx context.Context, snap *Snapshot) error {
	c, e := s.shelf.current(), s.shelf.edition()
	defer e.discard()
	var list, archived collection
	var err error
	if h := &c.History; !c.has(resourceListPath) || h.List.Last != snap.Last().Seq || h.List.At.After(snap.At) {
		list, err = s.composer.writeResourceList(ctx, e, snap, resourceListPath, resourceListArchivePath)
	}
	if err == nil && s.archiveDue(&c.History, snap) {
		archived, err = s.composer.writeResourceList(ctx, e, snap, fmt.Sprintf("archive/resourcelist-%d.xml", e.number), "")
	}
	switch {
	case err != nil:
		return err
	case list.Path == "" && archived.Path == "":
		return s.expireArchive(c.History.Lists, s.archivist.resourceListArchive)
	}
	existed := c.has(resourceListPath)
	return s.show(e, func(c *register) error {
		h := &c.History
		if list.Path != "" {
			c.drop(h.List.Parts...)
			h.List = list
			c.notify(resourcesync.ResourceList, resourceListPath, list.Parts, existed)
		}
		if archived.Path == "" {
			return nil
		}
		h.Lists = append(h.Lists, archived)
		return s.archivist.resourceListArchive(e, c)
	})
}

// archiveDue reports whether it is time for a Resource List in the archive.
func (s *set) archiveDue(h *history, snap *Snapshot) bool {
	if n := len(h.Lists); n > 0 {
		return s.composer.schedule.Archive > 0 && isDue(h.Lists[n-1].Written, s.composer.schedule.Archive, time.Now()) && h.Lists[n-1].Last != snap.Last().Seq
	}
	return s.composer.schedule.Archive > 0
}

// writeResourceList writes a Resource List at a path, with a link to its archive if there is
// one.
func (s *composer) writeResourceList(ctx context.Context, e *edition, snap *Snapshot, path, archive string) (collection, error) {
	head := resourcesync.Head{Capability: resourcesync.ResourceList, At: snap.At, Links: s.links("", archive)}
	parts, err := s.writeSplit(e, path, head, func(yield func(resourcesync.Entry, error) bool) {
		for r, err := range snap.Resources() {
			entry, ok, failed := s.entry(snap, &r)
			if err = errors.Join(err, failed, ctx.Err()); (ok || err != nil) && !yield(entry, err) {
				return
			}
		}
	})
	return collection{At: snap.At, Last: snap.Last().Seq, Written: time.Now().UTC(), Path: path, Parts: parts}, err
}
