package source

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// buildResourceList writes the Resource List where resources have changed since
// (DOC-34, DOC-35), and another one for the archive when it is time for that. It
// holds one part in memory at most, whatever the number of resources.
func (s *set) buildResourceList(ctx context.Context) (next time.Time, err error) {
	if err := s.writeDueLists(ctx); err != nil {
		return next, err
	}
	lists := s.shelf.current().History.Lists
	if n := len(lists); s.composer.schedule.Archive > 0 && n > 0 && lists[n-1].Last != s.index.lastSeq() {
		next = lists[n-1].Written.Add(s.composer.schedule.Archive)
	}
	return earlier(next, s.archivist.nextExpiry(lists)), nil
}

func (s *set) writeDueLists(ctx context.Context) error {
	snap, err := s.index.Snapshot()
	if err != nil {
		return err
	}
	defer snap.Close()
	e := s.shelf.edition()
	var paths []string
	c := s.shelf.current()
	if h := &c.History; !c.has(resourceListPath) || h.List.Last != snap.Last().Seq || h.List.At.After(snap.At) {
		paths = append(paths, resourceListPath)
	}
	if s.archiveDue(&c.History, snap) {
		paths = append(paths, fmt.Sprintf("archive/resourcelist-%d.xml", e.number))
	}
	if len(paths) == 0 {
		return s.expireLists()
	}
	written, err := s.composer.writeResourceLists(ctx, e, snap, paths)
	if err != nil {
		e.discard()
		return err
	}
	return s.show(e, func(c *catalogue) error {
		h := &c.History
		if written[0].Path == resourceListPath {
			existed := s.shelf.current().has(resourceListPath)
			c.drop(time.Now(), h.List.Parts...)
			h.List, written = written[0], written[1:]
			c.notify(resourcesync.ResourceList, resourceListPath, h.List.Parts, existed)
		}
		if len(written) == 0 {
			return nil
		}
		h.Lists = append(h.Lists, written...)
		return s.archivist.resourceListArchive(e, c)
	})
}

// archiveDue reports whether it is time for a Resource List in the archive.
func (s *set) archiveDue(h *history, snap *Snapshot) bool {
	if s.composer.schedule.Archive < 0 {
		return false
	}
	if len(h.Lists) == 0 {
		return true
	}
	last := h.Lists[len(h.Lists)-1]
	return isDue(last.Written, s.composer.schedule.Archive, time.Now()) && last.Last != snap.Last().Seq
}

// writeResourceLists writes the same list at each of the paths.
func (s *composer) writeResourceLists(ctx context.Context, e *edition, snap *Snapshot, paths []string) ([]collection, error) {
	var writers []*resourcesync.Splitter
	var sinks []*parts
	abort := func(err error) error {
		for _, w := range writers {
			w.Abort(err)
		}
		return fmt.Errorf("writing the Resource List: %w", err)
	}
	for _, path := range paths {
		archive := resourceListArchivePath
		if path != resourceListPath {
			archive = ""
		}
		w, p, err := s.split(e, path, resourcesync.Head{Capability: resourcesync.ResourceList, At: snap.At, Links: s.links("", archive)})
		if err != nil {
			return nil, abort(err)
		}
		writers, sinks = append(writers, w), append(sinks, p)
	}
	for r, err := range snap.Resources() {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, abort(err)
		}
		entry, ok := s.entry(&r)
		for _, w := range writers {
			if !ok {
				break
			}
			if err := w.Write(entry); err != nil {
				return nil, abort(err)
			}
		}
	}
	var written []collection
	for i, w := range writers {
		if err := w.Close(); err != nil {
			return nil, abort(err)
		}
		written = append(written, collection{
			At: snap.At, Last: snap.Last().Seq, Written: time.Now().UTC(), Path: paths[i], Parts: slices.Clone(sinks[i].paths),
		})
	}
	return written, nil
}
