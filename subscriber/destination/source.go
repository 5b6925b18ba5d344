package destination

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber"
)

// source is the Source as discovery describes it. It may be shared between goroutines.
type source struct {
	address string
	web     *hosts
	log     *slog.Logger

	mu    sync.Mutex
	names []string // of its sets
}

// sets returns the sets of the Source that can be copied, with the name of each in the
// state.
func (s *source) sets(ctx context.Context) ([]namedSet, error) {
	found, err := s.find(ctx)
	if err != nil {
		return nil, err
	}
	return s.named(&found)
}

// find finds what the Source offers.
func (s *source) find(ctx context.Context) (subscriber.Source, error) {
	return subscriber.DiscoverSource(ctx, s.web, s.address)
}

// named returns the sets of a Source that can be copied.
func (s *source) named(found *subscriber.Source) ([]namedSet, error) {
	var out []namedSet
	var names []string
	for _, one := range found.Sets {
		docs := one.Documents
		n := namedSet{Set: one, name: cmp.Or(one.CapabilityList,
			docs[resourcesync.ResourceList], docs[resourcesync.ResourceDump], docs[resourcesync.ChangeList], docs[resourcesync.ChangeDump])}
		switch {
		case !n.offers(resourcesync.ResourceList, resourcesync.ResourceDump, resourcesync.ChangeList, resourcesync.ChangeDump):
			s.log.Warn("a set of the Source offers nothing to copy", "event", "set_empty", "set", n.name)
		case !slices.Contains(names, n.name):
			out, names = append(out, n), append(names, n.name)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: %s", errNothing, s.address)
	}
	s.keep(names...)
	return out, nil
}

// keep remembers the names of the sets.
func (s *source) keep(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names = names
}

// errNothing says that the Source exists, but offers nothing yet.
var errNothing = errors.New("the Source offers no Resource List, dump or Change List")

// isSet reports whether the Source has a set of that name.
func (s *source) isSet(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.names, name)
}

// namedSet is a set of resources of the Source.
type namedSet struct {
	subscriber.Set
	name string // the URL of its Capability List, or of the document that it has instead
}

func (s *namedSet) offers(capabilities ...string) bool {
	return slices.ContainsFunc(capabilities, func(c string) bool { return s.Documents[c] != "" })
}

// pushOnly reports whether changes are pushed but in no Change List. Then missed changes
// come from Change Dumps, or from a baseline.
func (s *namedSet) pushOnly() bool {
	return s.Topic != "" && !s.offers(resourcesync.ChangeList)
}
