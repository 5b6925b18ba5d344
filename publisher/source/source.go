package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/internal/base/disk"
	"github.com/rshub/rshub/publisher"
)

// Source is a whole ResourceSync Source over one or more folders: what Handler
// serves, and what Run pushes to the hubs. It may be shared between goroutines.
type Source struct {
	o    Options
	site *shelf // the documents of the Source as a whole
	sets []*set
	lock *os.File // of the state folder

	ruling  sync.Mutex // locked by SetRules
	closing sync.Once
}

// Open opens the Source and its state, which it creates if there is none. Nothing is
// scanned, written or sent before Run, but the documents of the last run are served. The
// error says which option is wrong, or what is wrong with the state.
func Open(o Options) (*Source, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Source{o: o}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Source) open() (err error) {
	if s.o.StateDir, err = filepath.Abs(s.o.StateDir); err != nil {
		return err
	}
	for _, o := range s.o.Sets { // before it is marked as a folder of state
		if SameFolder(o.Folder.Dir, s.o.StateDir) {
			return fmt.Errorf("%s is the folder to publish itself; choose another one for state", s.o.StateDir)
		}
	}
	if s.lock, err = lockFolder(s.o.StateDir); err != nil {
		return err
	}
	for _, o := range s.o.Sets {
		x, err := s.openSet(o)
		if x != nil {
			s.sets = append(s.sets, x)
		}
		if err != nil {
			return err
		}
	}
	if s.site, err = openShelf(filepath.Join(s.o.StateDir, "site"), s.o.Schedule.Linger); err != nil {
		return err
	}
	return s.describe()
}

// SameFolder reports whether two paths lead to one folder that is there.
func SameFolder(a, b string) bool { return sameFile(os.Stat, a, b) }

// sameFile reports whether two names are those of one file, as stat sees it.
func sameFile(stat func(name string) (fs.FileInfo, error), a, b string) bool {
	one, err := stat(a)
	if err != nil {
		return false
	}
	other, err := stat(b)
	return err == nil && os.SameFile(one, other)
}

// openSet returns what was opened even with an error.
func (s *Source) openSet(o Set) (x *set, err error) {
	state, base := s.o.StateDir, s.o.PublicURL
	if o.Name != "" {
		state, base = filepath.Join(state, "sets", o.Name), base+o.Name+"/"
	}
	x = &set{
		composer: composer{base: base, schedule: s.o.Schedule, log: s.o.Log},
		name:     o.Name, site: s.o.PublicURL, above: s.o.PublicURL + descriptionPath,
		hooks: &s.o.Hooks, reach: reach{recentAge, recentChanges},
	}
	x.rulesFile, x.composer.address = rulesPath(state), o.Rules.address(o.ResourceURL)
	x.archivist.composer, x.packager.composer = &x.composer, &x.composer
	if o.Name != "" {
		x.composer.log = x.composer.log.With("set", o.Name)
	}
	hubs := s.o.Hubs
	if o.Hubs != nil {
		hubs = o.Hubs
	}
	for _, h := range hubs {
		x.hubs = append(x.hubs, h.URL)
	}
	if x.index, err = OpenIndex(filepath.Join(state, "index")); err != nil {
		return x, err
	}
	x.index.warnOfClock(x.composer.log, time.Now())
	if recorded := s.o.Hooks.Recorded; recorded != nil {
		x.index.recorded = func(changes []Change) { recorded(x.name, changes) }
	}
	if err = x.openOrigin(&o, &s.o, state); err != nil {
		return x, err
	}
	if err = x.openShelf(filepath.Join(state, "documents")); err != nil {
		return x, err
	}
	if err = x.openPublishers(state, hubs, &s.o); err != nil {
		return x, err
	}
	if err = openNeighbours(x, o.Rules); err != nil {
		return x, err
	}
	if err = x.fillShelf(x.composer.address); err != nil {
		return x, err
	}
	return x, ruler{x}.open(o.Rules)
}

// openOrigin opens the folder or the catalogue of the set. The state is left out of it, because it
// changes with each document.
func (s *set) openOrigin(set *Set, all *Options, state string) error {
	if set.Announced {
		return openAnnounced(s)
	}
	if err := s.index.isAnnounced(); err != nil {
		return err
	}
	o := set.Folder
	o.Exclude = append(slices.Clone(o.Exclude), all.StateDir)
	o.MaxURL = longestURL - len(s.composer.top(&s.composer.address))
	if o.Log == nil {
		o.Log = s.composer.log
	}
	if set.Catalogue.given() {
		if all.Client == nil && o.Dir == "" {
			s.composer.schedule.Dump = -1 // no bytes can be read
		}
		c, err := newCatalogue(s.index, o, set.Catalogue, s.composer.base, s.composer.address, state, all.Client)
		if err == nil {
			s.packager.origin = c
		}
		return err
	}
	f, err := NewFolder(s.index, o)
	if err == nil {
		s.packager.origin = f
	}
	return err
}

func (s *set) openPublishers(state string, hubs []publisher.Hub, o *Options) (err error) {
	if len(hubs) == 0 {
		return nil
	}
	options := publisher.Options{
		Hubs: hubs, CapabilityList: s.composer.url(capabilityListPath), SourceDescription: s.above,
		Every: o.Every, MaxStored: o.MaxStored, Client: o.Client, Log: s.composer.log,
	}
	if posted := o.Hooks.Posted; posted != nil {
		options.Posted = func(p publisher.Posted) { posted(s.name, p) }
	}
	if options.From, err = s.logBegins(); err != nil {
		return err
	}
	if s.changes, err = s.openPublisher(changesPath, state, publisher.Changes, options); err != nil {
		return err
	}
	if s.framework, err = s.openPublisher(frameworkPath, state, publisher.Framework, options); err != nil {
		return err
	}
	offset := s.shelf.current().History.Offset
	return goOn(s, max(s.changes.Recorded(), offset)-offset, s.changes.RecordedAt())
}

func (s *set) openPublisher(path, state string, kind publisher.Kind, o publisher.Options) (*publisher.Publisher, error) {
	o.Topic, o.Kind = s.composer.url(path), kind
	o.Dir = outboxDir(state, o.Topic)
	p, err := publisher.Open(o)
	if err == nil {
		s.topics = append(s.topics, topic{path, o.Topic, kind, p, p.Handler()})
	}
	return p, err
}

// outboxDir is the folder for the outbox of a topic. With another public URL it is another
// topic, and its intervals begin anew.
func outboxDir(state, topic string) string {
	sum := sha256.Sum256([]byte(topic))
	return filepath.Join(state, "outbox", hex.EncodeToString(sum[:8]))
}

// logBegins is when the log of changes begins, and with it the first interval of a new
// outbox; zero if the folder has not been scanned yet.
func (s *set) logBegins() (at time.Time, err error) {
	err = s.index.read(func(snap *Snapshot) error {
		_, at = snap.Begin()
		return nil
	})
	if errors.Is(err, ErrNoBaseline) {
		err = nil
	}
	return at, err
}

// openShelf opens the documents. If they were written for another public URL, it deletes
// them, and all are written anew.
func (s *set) openShelf(dir string) (err error) {
	if s.shelf, err = openShelf(dir, s.composer.schedule.Linger); err != nil {
		return err
	}
	if site := s.shelf.current().History.Site; site != "" && site != s.composer.base {
		s.composer.log.Warn("the public URL is another than before: all documents are written anew, and the Change Lists begin with what the log still has", "event", "site_moved", "before", site, "now", s.composer.base)
		s.shelf = nil
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		if s.shelf, err = openShelf(dir, s.composer.schedule.Linger); err != nil {
			return err
		}
	}
	h := s.shelf.current().History
	return goOn(s, h.Last, h.LastAt)
}

// fillShelf gives the resources their address, and writes the documents that need nothing else.
func (s *set) fillShelf(now address) error {
	if err := (mover{s}).readdress(now); err != nil {
		return err
	}
	if s.framework != nil {
		// The shelf may be new. Notices are numbered on from the last one in the outbox.
		recorded := s.framework.Recorded()
		err := s.shelf.swap(func(c *register) error {
			c.History.Noticed = max(c.History.Noticed, recorded)
			return nil
		})
		if err != nil {
			return err
		}
	}
	e := s.shelf.edition()
	return s.show(e, func(c *register) error {
		c.History.Site = s.composer.base
		return s.archivist.retire(e, c)
	})
}

// Run scans, watches, writes documents and pushes changes until ctx ends, and then
// returns nil. Any error that it returns is one of the disk. Call it once.
func (s *Source) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, x := range s.sets {
		x.run(ctx, g)
	}
	g.Go(func() error { return s.sweep(ctx) })
	return g.Wait()
}

// run starts all that a set does.
func (s *set) run(ctx context.Context, g *errgroup.Group) {
	g.Go(func() error { return s.packager.origin.Run(ctx) })
	g.Go(func() error { s.relay(ctx); return nil })
	s.writeDocuments(ctx, g)
	if len(s.topics) == 0 {
		return
	}
	for _, t := range s.topics {
		g.Go(func() error { return t.publisher.Run(ctx) })
	}
	s.begin(ctx, g, "recording changes", always(0), s.moved.Wait, onRing(s.feed))
	s.begin(ctx, g, "recording framework notifications", always(0), s.noticed.Wait, onRing(s.feedFramework))
}

// writeDocuments starts what writes documents.
func (s *set) writeDocuments(ctx context.Context, g *errgroup.Group) {
	if s.composer.schedule.ChangeList > 0 {
		s.begin(ctx, g, "writing the Change Lists", s.changeListRest, s.moved.Wait, s.buildChangeLists)
		s.begin(ctx, g, "writing the Change List of recent changes", s.recentRest, s.moved.Wait, onRing(s.buildRecent))
	}
	if s.composer.schedule.ResourceList > 0 {
		s.begin(ctx, g, "writing the Resource List", always(s.composer.schedule.ResourceList), s.moved.Wait, s.buildResourceList)
	}
	s.begin(ctx, g, "writing the dumps", always(time.Second), s.moved.Wait, s.buildDumps)
}

func always(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

// begin starts a loop.
func (s *set) begin(ctx context.Context, g *errgroup.Group, what string, every func() time.Duration, wake func() <-chan struct{}, do work) {
	g.Go(func() error { s.loop(ctx, what, every, wake, do); return nil })
}

// relay rings for the folder.
func (s *set) relay(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.packager.origin.Changed():
			s.moved.Broadcast()
		}
	}
}

// buildDumps writes the dumps that are due, and removes from the log the changes that the
// documents have.
func (s *set) buildDumps(ctx context.Context) (next time.Time, err error) {
	if s.composer.schedule.Dump > 0 && s.inStep() {
		err = errors.Join(s.buildResourceDump(ctx), s.buildChangeDumps(ctx), s.expireArchive(s.shelf.current().History.Dumps, s.archivist.resourceDumpArchive))
	}
	err = errors.Join(err, s.prune()) // even if a dump failed, or the log would grow for ever
	return s.nextDump(), err
}

// nextDump is when the next Resource Dump is due, or one leaves the archive. If the folder
// is away, the bell rings when it is back.
func (s *set) nextDump() (next time.Time) {
	dumps := s.shelf.current().History.Dumps
	if s.composer.schedule.Dump < 0 || len(dumps) == 0 || !s.inStep() {
		return next
	}
	if last := dumps[len(dumps)-1]; last.Last != s.index.state().last.seq {
		next = last.Written.Add(s.composer.schedule.Dump)
	}
	return earlier(next, s.archivist.nextExpiry(dumps))
}

// sweep removes what only older documents name, once they are too old for anybody to read.
func (s *Source) sweep(ctx context.Context) error {
	for clock.Sleep(ctx, tick) {
		for _, x := range s.sets {
			if err := x.shelf.sweep(); err != nil {
				x.composer.log.Error("removing older documents failed, and is tried again", "event", "document_failed", "error", err)
			}
		}
	}
	return nil
}

// Close releases the state. Call it after Run has returned. It may be called again.
func (s *Source) Close() (err error) {
	s.closing.Do(func() { err = s.close() })
	return err
}

func (s *Source) close() error {
	var errs []error
	for _, x := range s.sets {
		for _, t := range x.topics {
			errs = append(errs, t.publisher.Close())
		}
		if x.index != nil {
			errs = append(errs, x.index.Close())
		}
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close()) // which unlocks it
	}
	return errors.Join(errs...)
}

// RemoveState removes a folder of state of this user that has the marker of state and that
// nothing has open. Otherwise it returns an error; if a process has it open, the error wraps
// ErrLocked.
func RemoveState(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if _, err := os.Lstat(filepath.Join(dir, lockName)); err != nil || !ok || !info.IsDir() || int(owner.Uid) != os.Geteuid() || !disk.Marked(os.Lstat, dir) {
		return fmt.Errorf("%s is no folder of state of this user", dir)
	}
	lock, err := lockFolder(dir)
	if err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(dir), lock.Close())
}

const lockName = "lock"

// lockFolder creates a folder if there is none, and locks it for one process. There is one
// lock for all sets, since they share the documents of the site. ErrLocked: another process
// has the folder open.
func lockFolder(dir string) (*os.File, error) {
	if err := disk.Make(dir); err != nil {
		return nil, err
	}
	name := filepath.Join(dir, lockName)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the operator names the folder
	if err != nil {
		return nil, err
	}
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return nil, errors.Join(fmt.Errorf("%s %w; stop that one, or choose another folder", dir, ErrLocked), f.Close())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("locking %s: %w", name, err), f.Close())
	}
	return f, nil
}
