package source

import (
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// archivist writes the documents that list others, which are archives and indexes of dumps,
// and removes from a register what is too old. It works on a register that is about to be
// shown.
type archivist struct {
	composer *composer
}

// writeArchive writes an archive into the edition: a document that lists others (DOC-44,
// DOC-45). An archive without entries is dropped.
func (s *archivist) writeArchive(e *edition, c *register, capability, path string, entries []resourcesync.Entry) error {
	if len(entries) == 0 {
		c.drop(path)
	}
	if len(entries) == 0 || s.composer.schedule.Archive < 0 {
		return nil
	}
	c.notify(capability, path, nil, c.has(path))
	return e.write(path, resourcesync.Head{Capability: capability, Links: []resourcesync.Link{s.composer.upLink()}}, 0, each(entries))
}

// resourceListArchive writes the archive of Resource Lists, without those that are too old.
func (s *archivist) resourceListArchive(e *edition, c *register) error {
	s.expire(c, &c.History.Lists, mostKept)
	return s.writeArchive(e, c, resourcesync.ResourceListArchive, resourceListArchivePath, s.composer.snapshotsOf(c.History.Lists))
}

// resourceDumpArchive does the same with Resource Dumps. Without archives it keeps only the
// newest dump.
func (s *archivist) resourceDumpArchive(e *edition, c *register) error {
	keep := s.composer.schedule.KeepDumps
	if s.composer.schedule.Archive < 0 {
		keep = 1
	}
	s.expire(c, &c.History.Dumps, keep)
	return s.writeArchive(e, c, resourcesync.ResourceDumpArchive, resourceDumpArchivePath, s.composer.snapshotsOf(c.History.Dumps))
}

// snapshotsOf returns an entry for each of the collections.
func (s *composer) snapshotsOf(all []collection) []resourcesync.Entry {
	var entries []resourcesync.Entry
	for _, x := range all {
		entries = append(entries, resourcesync.Entry{Loc: s.url(x.Path), At: x.At})
	}
	return entries
}

// changeListArchive lists every closed Change List that is kept, including those that are
// in the index.
func (s *archivist) changeListArchive(e *edition, c *register) error {
	var entries []resourcesync.Entry
	for _, p := range c.History.Periods {
		entries = append(entries, resourcesync.Entry{Loc: s.composer.url(p.Path), From: p.From, Until: p.Until})
	}
	return s.writeArchive(e, c, resourcesync.ChangeListArchive, changeListArchivePath, entries)
}

// expire drops collections that have been in the archive for long enough, and the oldest of
// more than most. The newest stays.
func (s *archivist) expire(c *register, all *[]collection, most int) {
	for len(*all) > 1 && (len(*all) > most || isPast(s.nextExpiry(*all))) {
		c.drop((*all)[0].paths()...)
		*all = (*all)[1:]
	}
}

// nextExpiry is when the oldest collection leaves the archive; zero: never.
func (s *archivist) nextExpiry(all []collection) time.Time {
	if len(all) < 2 {
		return time.Time{}
	}
	return keptUntil(all[0].Written, s.composer.schedule.KeepArchive)
}

// expireArchive writes an archive anew if the oldest of its collections has to leave it.
func (s *set) expireArchive(all []collection, write func(e *edition, c *register) error) error {
	if !isPast(s.archivist.nextExpiry(all)) {
		return nil
	}
	e := s.shelf.edition()
	return s.show(e, func(c *register) error { return write(e, c) })
}

// keptUntil is how long something is kept from an instant on; zero: for ever.
func keptUntil(from time.Time, keep time.Duration) time.Time {
	if keep <= 0 {
		return time.Time{}
	}
	return from.Add(keep)
}

// isPast reports whether an instant has come; zero never does.
func isPast(at time.Time) bool { return !at.IsZero() && !time.Now().Before(at) }
