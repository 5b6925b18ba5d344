package source

import "slices"

// retire drops what an earlier run wrote and this one does not. Nothing would keep those
// documents in step with the folder, and a client that begins with an old dump would find no
// changes since.
func (s *archivist) retire(e *edition, c *register) error {
	if s.composer.schedule.ResourceList < 0 {
		c.drop(c.History.List.paths()...)
		c.History.List = collection{}
	}
	if s.composer.schedule.Dump < 0 {
		s.retireDumps(c)
	}
	if s.composer.schedule.Archive < 0 {
		return s.retireArchives(e, c)
	}
	return nil
}

func (s *archivist) retireDumps(c *register) {
	c.drop(changeDumpPath, changeDumpArchivePath)
	s.dropResourceDumps(c)
	for i := range c.History.Periods {
		p := &c.History.Periods[i]
		c.drop(p.dumpPaths()...)
		p.Dump, p.Packages = "", nil
	}
}

func (s *archivist) dropResourceDumps(c *register) {
	c.drop(resourceDumpPath, resourceDumpArchivePath)
	for _, d := range c.History.Dumps {
		c.drop(d.paths()...)
	}
	c.History.Dumps = nil
}

// retireArchives also drops the Resource List and the dumps, so that they are written anew
// without the links to their archives.
func (s *archivist) retireArchives(e *edition, c *register) error {
	h := &c.History
	if !c.has(resourceListArchivePath) && !c.has(resourceDumpArchivePath) && !c.has(changeListArchivePath) {
		return nil
	}
	c.drop(resourceListPath, resourceListArchivePath, changeListArchivePath, changeDumpArchivePath)
	for _, l := range h.Lists {
		c.drop(l.paths()...)
	}
	h.Lists = nil
	s.dropResourceDumps(c)
	h.Periods = slices.DeleteFunc(h.Periods, func(p period) bool {
		if !p.Indexed {
			c.drop(append(p.dumpPaths(), p.Path)...)
		}
		return !p.Indexed
	})
	return s.changeDumps(e, c)
}
