package embedstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/rshub/rshub/internal/base/atomicfile"
	"github.com/rshub/rshub/internal/base/disk"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/seal"
	"github.com/rshub/rshub/subscriptions"
)

// DefaultMinFree is the free space, in bytes, under which the store takes nothing
// new any more.
const DefaultMinFree = disk.DefaultMinFree

// Options are the settings of a Store. The zero value is good.
type Options struct {
	// MinFree is the high water: with less free space, in bytes, Append, Ping,
	// Restore and an Update that subscriptions.Grows return journal.ErrFull. The rest
	// has these bytes as its room: cursors, gaps, ends, activations and trims. 0 means
	// DefaultMinFree, a negative value none.
	MinFree int64
	// Keys seal the secrets of subscriptions and requests; nil: they are stored
	// as they are. All that are stored otherwise are stored anew by Open, which
	// then reads the whole database once. Where a key is missing it returns an
	// error that wraps a *seal.KeyError and changes no secret.
	Keys *seal.Keys
	// Unreadable is told what List and Requests leave out as it cannot be read: it
	// is damaged, or a newer version wrote it. It must not wait. Nil: they fail.
	Unreadable func(id uuid.UUID, why error)
	// UnreadableTopic is told of the topics that Topics and Marks leave out, by
	// their ids, for the same reasons. It must not wait. Nil: they fail.
	UnreadableTopic func(id uuid.UUID, why error)
}

// Errors of a store as such.
var (
	// ErrLocked is wrapped by what Open returns where another process has the
	// folder open.
	ErrLocked = errors.New("the data folder is in use")
	// ErrNewer is wrapped by what Open returns where a newer version of this
	// program wrote the folder.
	ErrNewer = errors.New("the data folder was written by a newer version")
	// ErrClosed is returned by every method after Close.
	ErrClosed = errors.New("the store is closed")
)

const (
	databaseName = "store.db"
	pidName      = "store.pid"
	bodiesName   = "bodies"
)

// Store is a journal and a store of subscriptions in one folder. It may be
// shared between goroutines.
type Store struct {
	dir     string
	minFree int64
	meta    meta
	keys    *seal.Keys
	secrets Secrets
	bodies  bodies
	// unreadable and unreadableTopic are those of Options.
	unreadable, unreadableTopic func(id uuid.UUID, why error)

	// mu guards db and fault: held for reading by every view, and for writing
	// while the file is closed or opened again.
	mu sync.RWMutex
	db *bbolt.DB // nil: closed, or not to be had after a failed write
	// fault is why nothing is written any more, until the next start.
	fault error

	// commit is tx.Commit. Tests have it fail.
	commit func(tx *bbolt.Tx) error

	ops       chan *op
	stop      chan struct{} // closed by Close
	stopped   chan struct{} // closed when the writer is done
	closeOnce sync.Once
	closeErr  error
	cleanup   sync.WaitGroup // removals of bodies that were trimmed

	topics, records [journal.Partitions]feed
	hints           hints
}

var (
	_ journal.Journal     = (*Store)(nil)
	_ journal.Marks       = (*Store)(nil)
	_ journal.Restorer    = (*Store)(nil)
	_ subscriptions.Store = (*Store)(nil)
)

// Open opens the store in a folder, which it creates where there is none. Only
// one process can have it open: another gets ErrLocked at once.
func Open(dir string, o Options) (opened *Store, err error) {
	// Bbolt panics over pages that make no sense.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			opened, err = nil, damaged(filepath.Join(dir, databaseName), fmt.Errorf("%v", p))
		}
	}()
	s := &Store{
		dir: dir, minFree: o.MinFree, keys: o.Keys, unreadable: o.Unreadable, unreadableTopic: o.UnreadableTopic, commit: (*bbolt.Tx).Commit,
		bodies:  bodies{dir: filepath.Join(dir, bodiesName)},
		ops:     make(chan *op),
		stop:    make(chan struct{}),
		stopped: make(chan struct{}),
	}
	if s.minFree == 0 {
		s.minFree = DefaultMinFree
	}
	if err := os.MkdirAll(s.bodies.dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the data folder %s: %w", dir, err)
	}
	// A store that is there already does without it where the disk is full.
	if err := disk.Mark(dir); err != nil && !errors.Is(spaceOr(err), journal.ErrFull) {
		return nil, err
	}
	if s.db, err = openDatabase(dir); err != nil {
		return nil, err
	}
	if err := s.start(); err != nil {
		_ = s.db.Close() // the first error says more
		return nil, err
	}
	go s.write()
	return s, nil
}

// start makes a store of the open database.
func (s *Store) start() error {
	var err error
	if s.meta, err = prepare(s.db, time.Now()); err != nil {
		return fmt.Errorf("opening the data folder %s: %w", s.dir, err)
	}
	if err := s.settleSecrets(); err != nil {
		return fmt.Errorf("the secrets in the data folder %s: %w", s.dir, spaceOr(err))
	}
	// The pid is for people, who do without it where the disk is full; the lock is
	// bbolt's, on its file.
	pid := filepath.Join(s.dir, pidName)
	if err := os.WriteFile(pid, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		if !errors.Is(spaceOr(err), journal.ErrFull) {
			return fmt.Errorf("opening the data folder %s: %w", s.dir, err)
		}
		_ = os.Remove(pid) // a part of it would mislead
	}
	if err := atomicfile.SyncDir(s.dir); err != nil {
		return fmt.Errorf("opening the data folder %s: %w", s.dir, err)
	}
	if s.meta.isNew {
		// The folder's own name has to last too. Who may not read the folder
		// around it made it long ago.
		_ = atomicfile.SyncDir(filepath.Dir(filepath.Clean(s.dir)))
	}
	if err := s.markBodies(); err != nil {
		return fmt.Errorf("opening the data folder %s: %w", s.dir, spaceOr(err))
	}
	if err := s.bodies.removeOrphans(s.db); err != nil {
		return fmt.Errorf("cleaning up the data folder %s: %w", s.dir, err)
	}
	for i := range journal.Partitions {
		s.topics[i].start(s.meta.epoch)
		s.records[i].start(s.meta.epoch)
	}
	return nil
}

// markBodies marks the folder of the bodies once. One that has lost its marker since
// is another folder, and one with the marker of another store keeps that.
func (s *Store) markBodies() error {
	s.bodies.id = s.meta.id
	if err := s.bodies.there(); s.meta.marked || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil // Ready says what is wrong
	}
	if err := s.bodies.mark(); err != nil {
		return err
	}
	return s.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketMeta).Put(keyBodies, []byte{1}) })
}

// openDatabase opens and locks the file of the database.
func openDatabase(dir string) (*bbolt.DB, error) {
	path := filepath.Join(dir, databaseName)
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout:      time.Nanosecond, // one try: who holds the lock keeps it
		FreelistType: bbolt.FreelistMapType,
		// Else each commit writes the list of all free pages, which is long
		// after a large trim. Close writes it once.
		NoFreelistSync: true,
		NoStatistics:   true,
	})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		holder := "another process"
		if pid, err := os.ReadFile(filepath.Join(dir, pidName)); err == nil { //nolint:gosec // the operator names the folder
			holder = "process " + strings.TrimSpace(string(pid))
		}
		return nil, fmt.Errorf("%w: %s has %s open; stop it, or choose another folder", ErrLocked, holder, dir)
	case errors.As(err, new(syscall.Errno)): // the system's, which says nothing about what is stored
		return nil, fmt.Errorf("opening %s: %w", path, err)
	case err != nil:
		return nil, damaged(path, err)
	}
	return db, nil
}

// damaged is what is said of a database that makes no sense.
func damaged(path string, why error) error {
	return fmt.Errorf("%s can't be read and seems damaged (%w): put a backup of the folder in its place, or move it away to begin with an empty one", path, why)
}

// ID is the id of this installation, drawn at random when the folder was
// created.
func (s *Store) ID() string { return s.meta.id }

// Ready returns nil when the store can take a notification, else why not: it is
// closed, a write failed, the folder of the large bodies is not there, or the disk is at its high water (journal.ErrFull).
func (s *Store) Ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.RLock()
	db, fault := s.db, s.fault
	s.mu.RUnlock()
	switch {
	case s.closing():
		return ErrClosed
	case fault != nil:
		return fault
	case db == nil:
		return errUnopened
	}
	if err := s.bodies.there(); err != nil {
		return err
	}
	return s.room(0)
}

func (s *Store) closing() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// Close ends the store after the operations that were begun, and gives the
// folder free. It may be called more than once.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		close(s.stop)
		<-s.stopped
		s.cleanup.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.db == nil {
			return
		}
		if s.fault == nil {
			// With the free pages written, the next Open need not look for
			// them. Where this fails, it does.
			s.db.NoFreelistSync = false
			_ = s.db.Update(func(*bbolt.Tx) error { return nil })
		}
		_ = os.Remove(filepath.Join(s.dir, pidName)) // a stale one does no harm
		s.closeErr = s.db.Close()
		s.db = nil
	})
	return s.closeErr
}

// view runs fn in a transaction that reads. What fn keeps it has to copy. It is
// not for the writer.
func (s *Store) view(ctx context.Context, fn func(tx *bbolt.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := s.tryView(fn)
	if !errors.Is(err, errUnopened) {
		return err
	}
	// The writer opens it before it looks at an operation.
	nothing := &op{run: func(*bbolt.Tx) error { return errUnchanged }}
	if err := s.do(ctx, nothing); err != nil {
		return err
	}
	return s.tryView(fn)
}

// tryView is view, and errUnopened where the database is not open. A page that
// cannot be read fails this transaction and no other.
func (s *Store) tryView(fn func(tx *bbolt.Tx) error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		p := recover()
		if fault := pageFault(p); fault != nil {
			err = fault
		} else if p != nil {
			panic(p)
		}
	}()
	s.mu.RLock()
	defer s.mu.RUnlock()
	switch {
	case s.db != nil:
		return s.db.View(fn)
	case s.closing():
		return ErrClosed
	case s.fault != nil:
		return s.fault
	default:
		return errUnopened
	}
}
