package source

import (
	"fmt"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// archiveOf writes an archive into the edition: a document that lists others
// (DOC-44, DOC-45).
func (s *set) archiveOf(e *edition, c *catalogue, capability, path string, entries []resourcesync.Entry) error {
	if s.schedule.Archive < 0 {
		return nil
	}
	existed := c.has(path)
	if err := e.write(path, resourcesync.Head{Capability: capability, Links: []resourcesync.Link{s.upLink()}}, entries); err != nil {
		return fmt.Errorf("writing an archive: %w", err)
	}
	c.History.tell(notice{At: time.Now().UTC(), Path: path, Capability: capability, Change: written(existed)})
	c.put(*e.last())
	return nil
}

func (s *set) resourceListArchive(e *edition, c *catalogue) error {
	s.expireCollections(c, &c.History.Lists, mostKept)
	return s.archiveOf(e, c, resourcesync.ResourceListArchive, resourceListArchivePath, s.snapshotsOf(c.History.Lists))
}

func (s *set) resourceDumpArchive(e *edition, c *catalogue) error {
	return s.archiveOf(e, c, resourcesync.ResourceDumpArchive, resourceDumpArchivePath, s.snapshotsOf(c.History.Dumps))
}

// snapshotsOf lists what has the state of one instant.
func (s *set) snapshotsOf(all []collection) []resourcesync.Entry {
	var entries []resourcesync.Entry
	for _, x := range all {
		entries = append(entries, resourcesync.Entry{Loc: s.url(x.Path), At: x.At, Completed: x.Completed})
	}
	return entries
}

// changeListArchive lists every closed Change List that is kept, those that the
// index has among them.
func (s *set) changeListArchive(e *edition, c *catalogue) error {
	var entries []resourcesync.Entry
	for _, p := range c.History.Periods {
		entries = append(entries, resourcesync.Entry{Loc: s.url(p.Path), From: p.From, Until: p.Until})
	}
	if len(entries) == 0 {
		c.drop(time.Now(), changeListArchivePath)
		return nil
	}
	return s.archiveOf(e, c, resourcesync.ChangeListArchive, changeListArchivePath, entries)
}

// expireCollections takes collections out of the archive that have been in it for
// long enough, or are more than most. The newest stays.
func (s *set) expireCollections(c *catalogue, all *[]collection, most int) {
	now := time.Now()
	for len(*all) > 1 {
		old := (*all)[0]
		if len(*all) <= most && (s.schedule.KeepArchive < 0 || now.Sub(old.Written) < s.schedule.KeepArchive) {
			break
		}
		c.drop(now, old.Path)
		c.drop(now, old.Parts...)
		c.drop(now, pathsOf(old.Packages)...)
		*all = (*all)[1:]
	}
}

// nextExpiry is when the oldest collection leaves the archive; zero: never.
func (s *set) nextExpiry(all []collection) time.Time {
	if len(all) < 2 || s.schedule.KeepArchive < 0 {
		return time.Time{}
	}
	return all[0].Written.Add(s.schedule.KeepArchive)
}

// expires reports whether it is time for that.
func (s *set) expires(all []collection) bool {
	at := s.nextExpiry(all)
	return !at.IsZero() && !time.Now().Before(at)
}

// expireLists takes Resource Lists out of the archive for which it is time.
func (s *set) expireLists() error {
	if !s.expires(s.shelf.current().History.Lists) {
		return nil
	}
	e := s.shelf.edition()
	return s.show(e, func(c *catalogue) error { return s.resourceListArchive(e, c) })
}

// expireDumps does so with Resource Dumps, however few there are to keep.
func (s *set) expireDumps() error {
	if s.schedule.Archive < 0 || !s.expires(s.shelf.current().History.Dumps) {
		return nil
	}
	e := s.shelf.edition()
	return s.show(e, func(c *catalogue) error {
		s.expireCollections(c, &c.History.Dumps, s.schedule.KeepDumps)
		return s.resourceDumpArchive(e, c)
	})
}
