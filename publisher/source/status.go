package source

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rshub/rshub/publisher"
)

// Status is how a Source is doing.
type Status struct {
	Sets []SetStatus // in the order of Options
}

// SetStatus is how one set is doing.
type SetStatus struct {
	Name   string
	Folder FolderStatus
	// CapabilityList is its URL, and Documents are the URLs of those that others
	// name, in order.
	CapabilityList string
	Documents      []string
	// Changes and Framework tell how far the hubs are; nil without hubs.
	Changes, Framework *publisher.Status
	// Err is why documents of the set can't be written, or its changes be published, at this
	// time; nil: they can.
	Err error
}

// Status tells how the Source is doing.
func (s *Source) Status() Status {
	var all Status
	for _, x := range s.sets {
		st := SetStatus{Name: x.name, Folder: x.packager.folder.Status(), CapabilityList: x.composer.url(capabilityListPath), Err: x.failure()}
		for _, path := range x.shelf.current().paths() {
			st.Documents = append(st.Documents, x.composer.url(path))
		}
		if x.changes != nil {
			changes, framework := x.changes.Status(), x.framework.Status()
			st.Changes, st.Framework = &changes, &framework
		}
		all.Sets = append(all.Sets, st)
	}
	return all
}

// Resume has a hub go on that has stopped, as publisher.Publisher.Resume does for
// one of Topics. It takes Run to be running.
func (s *Source) Resume(ctx context.Context, topic, hub string, from time.Time) error {
	for _, x := range s.sets {
		if x.changes == nil {
			continue
		}
		switch topic {
		case x.composer.url(changesPath):
			return x.changes.Resume(ctx, hub, from)
		case x.composer.url(frameworkPath):
			return x.framework.Resume(ctx, hub, from)
		}
	}
	return fmt.Errorf("%s is none of the topics %v", topic, s.Topics())
}

// AcceptDeletions lets go what is gone from folders and not published as deleted
// because it is so much, and returns how many resources that is.
func (s *Source) AcceptDeletions() int {
	held := 0
	for _, x := range s.sets {
		if n := x.packager.folder.Status().Held; n > 0 {
			held += n
			x.packager.folder.AcceptDeletions()
		}
	}
	return held
}

// DescriptionURL is that of the Source Description, where subscribers begin.
func (s *Source) DescriptionURL() string { return s.o.PublicURL + descriptionPath }

// Description is the text of the Source Description, as Handler serves it.
func (s *Source) Description() ([]byte, error) {
	d := s.site.current().Documents[descriptionPath]
	return os.ReadFile(filepath.Join(s.site.dir, d.File))
}

// Topics are the URIs of the topics, of changes and of the framework.
func (s *Source) Topics() []string {
	var all []string
	for _, x := range s.sets {
		if x.changes != nil {
			all = append(all, x.composer.url(changesPath), x.composer.url(frameworkPath))
		}
	}
	return all
}

// Resources is how many there are, in all sets.
func (s *Source) Resources() int {
	n := 0
	for _, x := range s.sets {
		n += x.index.Len()
	}
	return n
}
