package source

import (
	"fmt"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// archivist writes the documents that list others, archives and indexes of dumps, and removes from a
// catalogue what is too old. It works on a catalogue that is about to be shown.
type archivist struct {
	composer *composer
}

// archiveOf writes an archive into the edition: a document that lists others
// (DOC-44, DOC-45).
func (s *archivist) archiveOf(e *edition, c *catalogue, capability, path string, entries []resourcesync.Entry) error {
	if s.composer.schedule.Archive < 0 {
		return nil
	}
	existed := c.has(path)
	if err := e.write(path, resourcesync.Head{Capability: capability, Links: []resourcesync.Link{s.composer.upLink()}}, entries); err != nil {
		return fmt.Errorf("writing an archive: %w", err)
	}
	c.History.notify(notice{At: time.Now().UTC(), Path: path, Capability: capability, Change: written(existed)})
	c.put(*e.last())
	return nil
}

func (s *archivist) resourceListArchive(e *edition, c *catalogue) error {
	s.expireCollections(c, &c.History.Lists, mostKept)
	return s.archiveOf(e, c, resourcesync.ResourceListArchive, resourceListArchivePath, s.composer.snapshotsOf(c.History.Lists))
}

func (s *archivist) resourceDumpArchive(e *edition, c *catalogue) error {
	return s.archiveOf(e, c, resourcesync.ResourceDumpArchive, resourceDumpArchivePath, s.composer.snapshotsOf(c.History.Dumps))
}

// snapshotsOf lists what has the state of one instant.
func (s *composer) snapshotsOf(all []collection) []resourcesync.Entry {
	var entries []resourcesync.Entry
	for _, x := range all {
		entries = append(entries, resourcesync.Entry{Loc: s.url(x.Path), At: x.At, Completed: x.Completed})
	}
	return entries
}

// changeListArchive lists every closed Change List that is kept, those that the
// index has among them.
func (s *archivist) changeListArchive(e *edition, c *catalogue) error {
	var entries []resourcesync.Entry
	for _, p := range c.History.Periods {
		entries = append(entries, resourcesync.Entry{Loc: s.composer.url(p.Path), From: p.From, Until: p.Until})
	}
	if len(entries) == 0 {
		c.drop(time.Now(), changeListArchivePath)
		return nil
	}
	return s.archiveOf(e, c, resourcesync.ChangeListArchive, changeListArchivePath, entries)
}

// expireCollections takes collections out of the archive that have been in it for
// long enough, or are more than most. The newest stays.
func (s *archivist) expireCollections(c *catalogue, all *[]collection, most int) {
	now := time.Now()
	for len(*all) > 1 {
		old := (*all)[0]
		if len(*all) <= most && (s.composer.schedule.KeepArchive < 0 || now.Sub(old.Written) < s.composer.schedule.KeepArchive) {
			break
		}
		c.drop(now, old.Path)
		c.drop(now, old.Parts...)
		c.drop(now, pathsOf(old.Packages)...)
		*all = (*all)[1:]
	}
}

// nextExpiry is when the oldest collection leaves the archive; zero: never.
func (s *archivist) nextExpiry(all []collection) time.Time {
	if len(all) < 2 || s.composer.schedule.KeepArchive < 0 {
		return time.Time{}
	}
	return all[0].Written.Add(s.composer.schedule.KeepArchive)
}

// expires reports whether it is time for that.
func (s *archivist) expires(all []collection) bool {
	at := s.nextExpiry(all)
	return !at.IsZero() && !time.Now().Before(at)
}

// expireLists takes Resource Lists out of the archive for which it is time.
func (s *set) expireLists() error {
	if !s.archivist.expires(s.shelf.current().History.Lists) {
		return nil
	}
	e := s.shelf.edition()
	return s.show(e, func(c *catalogue) error { return s.archivist.resourceListArchive(e, c) })
}

// expireDumps does so with Resource Dumps, however few there are to keep.
func (s *set) expireDumps() error {
	if s.composer.schedule.Archive < 0 || !s.archivist.expires(s.shelf.current().History.Dumps) {
		return nil
	}
	e := s.shelf.edition()
	return s.show(e, func(c *catalogue) error {
		s.archivist.expireCollections(c, &c.History.Dumps, s.composer.schedule.KeepDumps)
		return s.archivist.resourceDumpArchive(e, c)
	})
}
