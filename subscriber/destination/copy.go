package destination

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/rshub/rshub/internal/base/disk"
	"github.com/rshub/rshub/subscriber/internal/biglist"
)

// Copy is a copy of a Source. Sync, Follow and Audit must not run at the same
// time; Handler may be used by several goroutines.
//
// It has these parts, and each knows only those above it:
//
//	state       what is remembered on disk of each resource and set
//	web         requests: which hosts, how many at once, redirects, retries
//	source      which sets the Source has
//	tree        the files: where each resource goes, deletion, renaming
//	fetcher     brings one resource into the tree, verified
//	lists       reads lists and dumps of the Source
//	reconciler  brings files in sync with what is known of the Source
//	syncer      decides which lists and changes are read, and how far they count
//	pinner      decides which state of the Source the copy has, and copies past states
//	follower    waits for pushes, the next poll and the next try
type Copy struct {
	o         Options
	log       *slog.Logger
	state     *state
	space     *space
	selection *selection

	web        *hosts
	source     *source
	tree       *tree
	fetcher    *fetcher
	lists      *lists
	reconciler *reconciler
	syncer     *syncer
	follower   *follower
	audited    atomic.Int64                // resources that audits have looked at
	counted    atomic.Pointer[[]SetStatus] // by writeStatus; nil: not yet

	closing sync.Once

	temp string // the folder that a dry run uses instead of missing ones, or the folder of a snapshot
	live string // the folder of the state that a snapshot is of; empty: it is the state itself
	home string // the folder of the state itself, also where another one is used in its place
}

// ErrNoCopy says that a folder has no copy, or none whose state is there.
var ErrNoCopy = errors.New("there is no copy here")

// Open opens the copy in Options.Dir, or begins one. With Options.DryRun it writes
// nothing there. The error says which option is wrong (it wraps an *OptionsError), or what
// is wrong with the folder.
func Open(o Options) (*Copy, error) {
	c := &Copy{o: o}
	if err := c.open(); err != nil {
		_ = c.Close() // the first error says more
		return nil, fmt.Errorf("destination: %w", err)
	}
	return c, nil
}

func (c *Copy) open() error {
	if err := c.o.setDefaults(); err != nil {
		return &OptionsError{err}
	}
	if c.home = c.o.StateDir; c.o.DryRun {
		if err := c.standIn(&c.o); err != nil {
			return err
		}
	}
	c.log, c.space = c.o.Log, newSpace(&c.o)
	if _, none := os.Stat(filepath.Join(c.o.StateDir, stateFile)); c.o.Existing && errors.Is(none, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrNoCopy, none)
	}
	err := os.MkdirAll(c.o.Dir, 0o755) //nolint:gosec // others read a copy
	if err != nil {
		return err
	}
	c.state, err = openState(c.o.StateDir, c.space)
	switch {
	case c.o.Beside && errors.Is(err, ErrInUse):
		err = c.openBeside()
	case c.o.Beside && isReadOnly(err):
		err = c.openReadOnly()
	}
	if err != nil {
		return err
	}
	if err := c.selects(); err != nil {
		return err
	}
	return c.assemble()
}

// assemble makes the parts, and prepares the folder of the copy.
func (c *Copy) assemble() error {
	root, err := os.OpenRoot(c.o.Dir)
	if err != nil {
		return err
	}
	c.web = newHosts(&c.o)
	c.source = &source{address: c.o.Source, web: c.web, log: c.log, state: c.state}
	c.tree = newTree(&c.o, root, c.state)
	c.fetcher = &fetcher{
		maxFile: c.o.MaxFile, prefer: newPreference(&c.o), patchers: patchers(&c.o),
		log: c.log, web: c.web, tree: c.tree, state: c.state, space: c.space,
	}
	if c.fetcher.dir, err = filepath.Abs(c.o.Dir); err != nil {
		return err
	}
	c.lists = &lists{dir: &c.o.StateDir, most: c.o.MaxEntries, large: biglist.Warner(c.log), web: c.web, fetcher: c.fetcher}
	c.reconciler = newReconciler(&c.o, c.source, c.fetcher)
	c.reconciler.selector = &selector{selection: c.selection, state: c.state, delete: c.o.Reselect}
	if c.reconciler.handover, err = openHandover(&c.o); err != nil {
		return err
	}
	c.syncer = &syncer{o: &c.o, log: c.log, source: c.source, lists: c.lists, state: c.state, reconciler: c.reconciler}
	c.syncer.pinner = &pinner{o: &c.o, log: c.log, source: c.source, lists: c.lists, state: c.state, reconciler: c.reconciler, syncer: c.syncer, lost: c.lostPinned()}
	audits := &auditor{every: c.o.AuditEvery, ready: c.Ready, last: c.lastAudit, audit: c.auditFollowed}
	c.follower = &follower{audits: audits, o: &c.o, log: c.log, syncer: c.syncer, handlers: handlers{by: map[string]*stream{}}, again: make(chan struct{}, 1)}
	if !c.o.DryRun {
		if err := c.prepare(); c.o.Beside && isReadOnly(err) {
			c.o.DryRun = true
		} else if err != nil {
			return err
		}
	}
	if c.o.DryRun {
		c.tree.folds = c.o.Beside && c.tree.foldsState()
		return nil
	}
	c.tree.folds = c.tree.probeFolding()
	return errors.Join(c.tree.rename(), c.reconciler.forgetUnselected())
}

// prepare makes what belongs to the copy in its folder, and removes what a killed run left behind.
func (c *Copy) prepare() error {
	own := filepath.Join(c.o.Dir, stateName)
	if err := c.tree.root.MkdirAll(partsDir, 0o700); err != nil { // the others would fail as well
		return fmt.Errorf("the folder of the copy, %s, cannot be written to: %w", c.fetcher.dir, err)
	}
	if err := errors.Join(disk.Mark(own), c.cleanUp()); err != nil {
		return err
	}
	return c.state.openOrigins(own)
}

// standIn gives a dry run temporary folders in place of those that do not exist yet.
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

// cleanUp removes what a killed run left behind.
func (c *Copy) cleanUp() error {
	var err error
	for _, l := range disk.Match(c.o.StateDir, "list-*.xml") {
		err = errors.Join(err, os.Remove(l))
	}
	c.cleanSnapshots()
	return errors.Join(err, c.fetcher.cleanPartials())
}

// Close releases the folder. The Copy must not be in use. It may be called again.
func (c *Copy) Close() (err error) {
	c.closing.Do(func() { err = c.close() })
	return err
}

func (c *Copy) close() error {
	var err error
	if c.state != nil {
		err = errors.Join(c.writeStatus(), c.state.origins.log.Close(), c.state.db.Close())
	}
	if c.reconciler != nil {
		err = errors.Join(err, c.reconciler.handover.close())
	}
	if c.tree != nil {
		_ = c.tree.root.Close()
	}
	if c.o.end != nil {
		c.o.end()
	}
	return errors.Join(err, os.RemoveAll(c.temp)) // nothing, if it is empty
}
