package source

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rshub/rshub/publisher"
)

// Status is the state of a Source.
type Status struct {
	Sets []SetStatus // in the order of Options
}

// SetStatus is the state of one set.
type SetStatus struct {
	Name string
	// Folder is how the origin of the set is doing: its folder, or what is in its place.
	Folder FolderStatus
	// CapabilityList is the URL of the Capability List. Documents are the URLs of all
	// documents that others name, in order.
	CapabilityList string
	Documents      []string
	// Changed is when the last change of a resource was recorded; zero: none was.
	Changed time.Time
	// Changes and Framework say how far the hubs are; nil without hubs.
	Changes, Framework *publisher.Status
	// Err is why documents of the set cannot be written now, or its changes cannot be
	// published; nil: they can.
	Err error
}

// Status returns the state of the Source.
func (s *Source) Status() Status {
	var all Status
	for _, x := range s.sets {
		st := SetStatus{Name: x.name, Folder: x.packager.origin.Status(), CapabilityList: x.composer.url(capabilityListPath), Err: x.failure()}
		if last := x.index.state().last; last.seq > 0 {
			st.Changed = time.UnixMicro(last.at).UTC()
		}
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

// named yields the sets with some names or, without names, all.
func (s *Source) named(names []string) iter.Seq[*set] {
	return func(yield func(*set) bool) {
		for _, x := range s.sets {
			if (len(names) == 0 || slices.Contains(names, x.name)) && !yield(x) {
				return
			}
		}
	}
}

// Resume makes a stopped hub go on with one of Topics, as publisher.Publisher.Resume does. Run
// has to be running.
func (s *Source) Resume(ctx context.Context, topic, hub string, from time.Time) error {
	for _, x := range s.sets {
		for _, t := range x.topics {
			if t.url == topic {
				return t.publisher.Resume(ctx, hub, from)
			}
		}
	}
	return fmt.Errorf("%s is not a topic of this Source; its topics are %v", topic, s.Topics())
}

// AcceptDeletions publishes as deleted, once, the resources that are gone from folders but
// withheld because they are so many: those of the sets with these names or, without a name, of
// all. It returns how many that are.
func (s *Source) AcceptDeletions(sets ...string) int {
	held := 0
	for x := range s.named(sets) {
		if n := x.packager.origin.Status().Held; n > 0 {
			held += n
			x.packager.origin.AcceptDeletions()
		}
	}
	return held
}

// DescriptionURL is the URL of the Source Description, where subscribers begin.
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
		for _, t := range x.topics {
			all = append(all, t.url)
		}
	}
	return all
}

// Hubs are the URLs of the hubs of a topic.
func (s *Source) Hubs(topic string) []string {
	for _, x := range s.sets {
		for _, t := range x.topics {
			if t.url == topic {
				return slices.Clone(x.hubs)
			}
		}
	}
	return nil
}

// Resources returns the number of resources in all sets.
func (s *Source) Resources() int {
	n := 0
	for _, x := range s.sets {
		n += x.index.Len()
	}
	return n
}
