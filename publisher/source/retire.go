package source

import (
	"slices"
	"time"
)

// retire takes away what an earlier run wrote and this one is told not to write:
// nobody would keep it in step, and who begins with an old dump finds no changes
// since.
func (s *archivist) retire(e *edition, c *catalogue) error {
	now := time.Now()
	if s.composer.schedule.ResourceList < 0 {
		c.drop(now, append(slices.Clone(c.History.List.Parts), resourceListPath)...)
		c.History.List = collection{}
	}
	if s.composer.schedule.Dump < 0 {
		s.retireDumps(c, now)
	}
	if s.composer.schedule.Archive < 0 {
		return s.retireArchives(e, c, now)
	}
	return nil
}

func (s *archivist) retireDumps(c *catalogue, now time.Time) {
	h := &c.History
	c.drop(now, changeDumpPath, changeDumpArchivePath)
	s.dropResourceDumps(c, now)
	for i := range h.Periods {
		p := &h.Periods[i]
		c.drop(now, append(pathsOf(p.Packages), p.Dump)...)
		p.Dump, p.Packages = "", nil
	}
}

func (s *archivist) dropResourceDumps(c *catalogue, now time.Time) {
	c.drop(now, resourceDumpPath, resourceDumpArchivePath)
	for _, d := range c.History.Dumps {
		c.drop(now, append(pathsOf(d.Packages), d.Path)...)
	}
	c.History.Dumps = nil
}

// retireArchives also sees to it that the Resource List and the dumps, which have
// links to their archives, are written anew without.
func (s *archivist) retireArchives(e *edition, c *catalogue, now time.Time) error {
	h := &c.History
	if !c.has(resourceListArchivePath) && !c.has(resourceDumpArchivePath) && !c.has(changeListArchivePath) {
		return nil
	}
	c.drop(now, resourceListPath, resourceListArchivePath, changeListArchivePath, changeDumpArchivePath)
	for _, l := range h.Lists {
		c.drop(now, append(slices.Clone(l.Parts), l.Path)...)
	}
	h.Lists = nil
	s.dropResourceDumps(c, now)
	h.Periods = slices.DeleteFunc(h.Periods, func(p period) bool {
		if p.Indexed {
			return false
		}
		c.drop(now, append(pathsOf(p.Packages), p.Path, p.Dump)...)
		return true
	})
	return s.changeDumps(e, c)
}
