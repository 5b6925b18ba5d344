package destination

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber"
)

// Copy is a copy of a Source. Sync, Follow and Audit must not run at the same
// time; Handler may be used by several goroutines.
type Copy struct {
	o     Options
	log   *slog.Logger
	web   *web
	hosts hosts
	root  *os.Root // the copy's folder
	state *state
	folds bool // the file system takes a.txt and A.txt for one

	busy    [256]sync.Mutex // by URL
	placing sync.Mutex
	placed  map[string]string // URLs by the folded paths that they were given and that are not recorded yet

	handlers handlers
}

// Open opens the copy in Options.Dir, or begins one. The error says which option
// is wrong, or what is wrong with the folder.
func Open(o Options) (*Copy, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil { //nolint:gosec // a copy is for others to read
		return nil, fmt.Errorf("destination: %w", err)
	}
	st, err := openState(o.StateDir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(o.Dir)
	if err == nil {
		err = root.MkdirAll(partsDir, 0o700)
	}
	if err != nil {
		_ = st.db.Close()
		return nil, fmt.Errorf("destination: %w", err)
	}
	c := &Copy{o: o, log: o.Log, web: newWeb(&o), root: root, state: st, placed: map[string]string{}}
	c.folds = c.probeFolding()
	return c, nil
}

// probeFolding finds out whether the file system tells upper from lower case.
func (c *Copy) probeFolding() bool {
	const probe = stateName + "/Probe"
	if c.root.WriteFile(probe, nil, 0o600) != nil {
		return false
	}
	defer func() { _ = c.root.Remove(probe) }()
	_, err := c.root.Lstat(strings.ToLower(probe))
	return err == nil
}

// Close ends it.
func (c *Copy) Close() error {
	err := c.state.db.Close()
	_ = c.root.Close()
	return err
}

// sets are those of the Source that can be copied, with the name of each in the
// state.
func (c *Copy) sets(ctx context.Context) ([]namedSet, error) {
	source, err := subscriber.DiscoverSource(ctx, c.web, c.o.Source)
	if err != nil {
		return nil, err
	}
	var out []namedSet
	for _, s := range source.Sets {
		n := namedSet{Set: s, name: s.CapabilityList}
		if n.name == "" {
			n.name = s.Documents[resourcesync.ResourceList]
		}
		if n.name == "" || slices.ContainsFunc(out, func(have namedSet) bool { return have.name == n.name }) {
			continue
		}
		if !n.offers(resourcesync.ResourceList, resourcesync.ResourceDump, resourcesync.ChangeList, resourcesync.ChangeDump) {
			c.log.Warn("a set of the Source offers nothing to copy", "event", "set_empty", "set", n.name)
			continue
		}
		out = append(out, n)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the Source at %s offers no Resource List, dump or Change List", c.o.Source)
	}
	return out, nil
}

// namedSet is a set of resources of the Source.
type namedSet struct {
	subscriber.Set
	name string // the URL of its Capability List, or of what it has instead
}

func (s *namedSet) offers(capabilities ...string) bool {
	return slices.ContainsFunc(capabilities, func(c string) bool { return s.Documents[c] != "" })
}

// subscriberDir is the folder of a set's subscriber.
func (c *Copy) subscriberDir(set string) string {
	return filepath.Join(c.o.StateDir, "set-"+digest(set, 8))
}
