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
	var due []*listed
	list, archived := &listed{archive: resourceListArchivePath}, &listed{}
	if h := &c.History; !c.has(resourceListPath) || h.List.Last != snap.Last().Seq || h.List.At.After(snap.At) {
		list.Path = resourceListPath
		due = append(due, list)
	}
	if s.archiveDue(&c.History, snap) {
		archived.Path = fmt.Sprintf("archive/resourcelist-%d.xml", e.number)
		due = append(due, archived)
	}
	err := s.composer.writeResourceLists(ctx, e, snap, due)
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
			h.List = list.collection
			c.notify(resourcesync.ResourceList, resourceListPath, list.Parts, existed)
		}
		if archived.Path == "" {
			return nil
		}
		h.Lists = append(h.Lists, archived.collection)
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

// listed is a Resource List that is to be written, with a link to its archive if there is one.
type listed struct {
	collection
	archive string
}

// writeResourceLists writes Resource Lists of a snapshot, each at its path, while it reads the snapshot once.
func (s *composer) writeResourceLists(ctx context.Context, e *edition, snap *Snapshot, lists []*listed) error {
	if len(lists) == 0 {
		return nil
	}
	all := make([]splitting, len(lists))
	for i, l := range lists {
		all[i] = splitting{path: l.Path, head: resourcesync.Head{Capability: resourcesync.ResourceList, At: snap.At, Links: s.links("", l.archive)}}
	}
	some := false
	err := s.writeSplits(e, all, func(yield func(resourcesync.Entry, error) bool) {
		for r, err := range snap.Resources() {
			entry, ok, failed := s.entry(snap, &r)
			some = true
			if err = errors.Join(err, failed, ctx.Err()); (ok || err != nil) && !yield(entry, err) {
				return
			}
		}
	})
	for i, l := range lists {
		l.At, l.Last, l.Written, l.Parts = snap.At, snap.Last().Seq, time.Now().UTC(), all[i].parts
	}
	if some && err == nil {
		s.logUnused()
	}
	return err
}
