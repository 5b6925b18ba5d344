package destination

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/rshub/rshub/internal/base/disk"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber"
	"github.com/rshub/rshub/subscriber/internal/biglist"
)

// Copy is a copy of a Source. Sync, Follow and Audit must not run at the same
// time; Handler may be used by several goroutines.
type Copy struct {
	o     Options
	log   *slog.Logger
	web   *web
	large func(list string, entries int) // warns of a list, once
	root  *os.Root                       // the copy's folder
	state *state
	space *space
	names naming
	folds bool   // the file system takes a.txt and A.txt for one, or two forms of a name
	temp  string // what a dry run uses in place of folders that are not there yet, or the folder of a snapshot
	live  string // the folder of the state that a snapshot is of; empty: it is the state itself

	claims  claims
	placing sync.Mutex
	placed  map[string]string // URLs by the folded paths that they were given and that are not recorded yet
	above   map[string]int    // how many of them are below a folder

	deleting sync.Mutex // held by the one who uses up the share of deletions

	known    sync.Mutex
	setNames []string // of the sets that the Source has
	handlers handlers
}

// Open opens the copy in Options.Dir, or begins one. With Options.DryRun it writes
// nothing there. The error says which option is wrong (*OptionsError), or what is wrong
// with the folder.
func Open(o Options) (*Copy, error) {
	if err := o.setDefaults(); err != nil {
		return nil, &OptionsError{err}
	}
	c := &Copy{log: o.Log, large: biglist.Warner(o.Log), names: naming{o.HiddenAllow}, placed: map[string]string{}, above: map[string]int{}, claims: claims{of: map[string]chan struct{}{}}}
	if o.DryRun {
		if err := c.standIn(&o); err != nil {
			return nil, fmt.Errorf("destination: %w", err)
		}
	}
	c.o, c.web, c.space = o, newWeb(&o), newSpace(&o)
	if err := os.MkdirAll(o.Dir, 0o755); err != nil { //nolint:gosec // a copy is for others to read
		return nil, fmt.Errorf("destination: %w", err)
	}
	var err error
	c.state, err = openState(o.StateDir, c.space)
	if o.Beside && errors.Is(err, ErrInUse) {
		o.DryRun = true
		err = c.openBeside(&o)
	}
	if err != nil {
		_ = os.RemoveAll(c.temp) // nothing, where it is empty
		return nil, err
	}
	c.root, err = os.OpenRoot(o.Dir)
	if err == nil && !o.DryRun {
		if err = c.root.MkdirAll(partsDir, 0o700); err == nil {
			err = errors.Join(disk.Mark(filepath.Join(o.Dir, stateName)), c.cleanUp(), c.countParts())
		}
	}
	if err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("destination: %w", err)
	}
	c.state.moved.Store(true) // whatever the last run came to write
	c.folds = !o.DryRun && c.probeFolding() || c.live != "" && c.foldsState()
	if err := c.rename(); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("destination: %w", err)
	}
	return c, nil
}

// standIn gives a dry run folders of its own for those that are not there yet.
func (c *Copy) standIn(o *Options) error {
	missing := func(name string) bool {
		_, err := os.Stat(name)
		return errors.Is(err, fs.ErrNotExist)
	}
	if !missing(o.Dir) && !missing(filepath.Join(o.StateDir, stateFile)) {
		return nil
	}
	var err error
	if c.temp, err = os.MkdirTemp("", "rssub-dry-run-"); err != nil {
		return err
	}
	if missing(filepath.Join(o.StateDir, stateFile)) {
		o.StateDir = filepath.Join(c.temp, "state")
	}
	if missing(o.Dir) {
		o.Dir = filepath.Join(c.temp, "copy")
	}
	return nil
}

// cleanUp removes what a run that was killed left.
func (c *Copy) cleanUp() error {
	lists, err := filepath.Glob(filepath.Join(c.o.StateDir, "list-*.xml"))
	if err != nil {
		return err
	}
	for _, l := range lists {
		if err := os.Remove(l); err != nil {
			return err
		}
	}
	c.cleanSnapshots()
	return c.cleanParts()
}

// probeFolding finds out whether the file system takes one of two names for the other
// that differ in case, in their normal form, or in what is not shown.
func (c *Copy) probeFolding() bool {
	const probe = stateName + "/Prob\u00e9"
	if c.root.WriteFile(probe, nil, 0o600) != nil {
		return false
	}
	defer func() { _ = c.root.Remove(probe) }()
	return slices.ContainsFunc([]string{"prob\u00e9", "Probe\u0301", "Pro\u200cb\u00e9"}, func(other string) bool {
		_, err := c.root.Lstat(stateName + "/" + other)
		return err == nil
	})
}

// Close ends it.
func (c *Copy) Close() error {
	err := errors.Join(c.writeStatus(), c.state.db.Close())
	if c.root != nil {
		_ = c.root.Close()
	}
	if c.o.end != nil {
		c.o.end()
	}
	if c.temp != "" {
		err = errors.Join(err, os.RemoveAll(c.temp))
	}
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
	var names []string
	for _, s := range source.Sets {
		n := namedSet{Set: s, name: s.CapabilityList}
		for _, d := range copyable {
			if n.name == "" {
				n.name = s.Documents[d]
			}
		}
		switch {
		case !n.offers(copyable...):
			c.log.Warn("a set of the Source offers nothing to copy", "event", "set_empty", "set", n.name)
		case !slices.Contains(names, n.name):
			out, names = append(out, n), append(names, n.name)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: %s", errNothing, c.o.Source)
	}
	c.known.Lock()
	defer c.known.Unlock()
	c.setNames = names
	return out, nil
}

// errNothing says that a Source is there, and does not offer anything yet.
var errNothing = errors.New("the Source offers no Resource List, dump or Change List")

// copyable are the documents that a copy can be made from.
var copyable = []string{resourcesync.ResourceList, resourcesync.ResourceDump, resourcesync.ChangeList, resourcesync.ChangeDump}

// isSet reports whether the Source has a set of that name.
func (c *Copy) isSet(name string) bool {
	c.known.Lock()
	defer c.known.Unlock()
	return slices.Contains(c.setNames, name)
}

// namedSet is a set of resources of the Source.
type namedSet struct {
	subscriber.Set
	name string // the URL of its Capability List, or of what it has instead
}

func (s *namedSet) offers(capabilities ...string) bool {
	return slices.ContainsFunc(capabilities, func(c string) bool { return s.Documents[c] != "" })
}

// pushOnly reports whether changes are pushed and in no Change List, so that what was
// missed has to be had by other means: from Change Dumps, or a baseline.
func (s *namedSet) pushOnly() bool {
	return s.Topic != "" && !s.offers(resourcesync.ChangeList)
}

// subscriberDir is the folder of a set's subscriber.
func (c *Copy) subscriberDir(set string) string {
	return filepath.Join(c.o.StateDir, "set-"+digest(set, 8))
}

// listLimit is how large a list of the Source may be.
func (c *Copy) listLimit() subscriber.ListLimit {
	return subscriber.ListLimit{Entries: c.o.MaxEntries, Large: c.large}
}
