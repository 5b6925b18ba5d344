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
	state   *state

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
		n := namedSet{Set: one, way: wayTo(found), name: cmp.Or(one.CapabilityList,
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
	if err := s.foundWorse(found, names); err != nil {
		return nil, err
	}
	s.keep(names...)
	return out, nil
}

// foundWorse returns an error if a Source, which has sets with these names, lacks a set of the copy and was found in a worse way
// than that set. The address, or the well-known place of the host, is broken then, and what is found instead may be a part of the Source.
func (s *source) foundWorse(found *subscriber.Source, names []string) error {
	for name, st := range setsTable.all(s.state) {
		if st.Via == s.address && !slices.Contains(names, name) && wayTo(found) > st.way(name) {
			return fmt.Errorf("the copy has the set %s, and %s does not lead to it now (%w); what the host offers elsewhere does not replace it; if the Source has moved, copy its new address into another folder", name, s.address, found.Elsewhere)
		}
	}
	return nil
}

// way is how the address of the Source leads to a set, the best first.
type way int

const (
	byAddress   way = iota + 1 // what is there is the set, or leads to it
	byWellKnown                // the well-known place of the host does
	byRobots                   // the robots.txt of the host names the sitemap
)

// wayTo returns how a Source was found.
func wayTo(found *subscriber.Source) way {
	switch {
	case found.Robots != "":
		return byRobots
	case found.Elsewhere != nil:
		return byWellKnown
	}
	return byAddress
}

// way returns how the address of the Source led to the set of a name. An earlier version has not recorded that.
func (s setState) way(name string) way {
	switch {
	case s.Way != 0:
		return s.Way
	case name == s.Via:
		return byAddress
	case s.CapabilityList != "":
		return byWellKnown
	}
	return byRobots
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

// isGone reports whether the address of the Source led to a set of the copy before, and does not any more. What that
// set said counts no longer. Until the Source has been read, no set is gone.
func (s *source) isGone(name string) bool {
	s.mu.Lock()
	names := s.names
	s.mu.Unlock()
	return len(names) > 0 && !slices.Contains(names, name) && s.state.set(name).Via == s.address
}

// namedSet is a set of resources of the Source.
type namedSet struct {
	subscriber.Set
	name string // the URL of its Capability List, or of the document that it has instead
	way  way    // that the address of the Source leads to it
}

func (s *namedSet) offers(capabilities ...string) bool {
	return slices.ContainsFunc(capabilities, func(c string) bool { return s.Documents[c] != "" })
}

// pushOnly reports whether changes are pushed but in no Change List. Then missed changes
// come from Change Dumps, or from a baseline.
func (s *namedSet) pushOnly() bool {
	return s.Topic != "" && !s.offers(resourcesync.ChangeList)
}
