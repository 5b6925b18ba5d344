package embedstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/cluster"
	"github.com/rshub/rshub/internal/base/atomicfile"
	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/internal/base/disk"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/seal"
	"github.com/rshub/rshub/subscriptions"
)

// DefaultMinFree is the free space, in bytes, below which the store accepts nothing new.
const DefaultMinFree = disk.DefaultMinFree

// Options are the settings of a Store. The zero value is good.
type Options struct {
	// MinFree is the high water: with less free space, in bytes, Append, Ping, Restore and an
	// Update that grows a record return journal.ErrFull. These bytes remain for cursors, gaps,
	// ends, activations and trims. 0 means DefaultMinFree, a negative value no limit.
	MinFree int64
	// Keys seal the secrets of subscriptions and requests; nil: they are stored as plain text. If
	// secrets are stored in another way, Open reads the whole database once and stores them anew.
	// If a key is missing, it returns an error that wraps a *seal.KeyError and changes no secret.
	Keys *seal.Keys
	// Reads says that only methods that read are called. Then Open leaves secrets as they are stored.
	Reads bool
	// Unreadable is called with each record that List leaves out because it cannot be read: it
	// is damaged, or a newer version wrote it. It must not block. Nil: List fails.
	Unreadable func(id uuid.UUID, why error)
	// UnreadableTopic is called with the id of each topic that Topics, PingRecords or Changes leave
	// out, for the same reasons. It must not block. Nil: they fail.
	UnreadableTopic func(id uuid.UUID, why error)
}

// Errors of a store as such.
var (
	// ErrLocked is wrapped by the error of Open if another process has the folder open.
	ErrLocked = errors.New("the data folder is in use")
	// ErrNewer is wrapped by the error of Open if a newer version of this program wrote the
	// folder.
	ErrNewer = boltfile.ErrNewer
	// ErrClosed is returned by every method after Close.
	ErrClosed = errors.New("the store is closed")
)

const (
	databaseName = "store.db"
	// maxLog is how long the write-ahead log may become, in bytes. A publish takes some 20 KB of it, and one in
	// 800 waits until the file is synced.
	maxLog     = 16 << 20
	pidName    = "store.pid"
	bodiesName = "bodies"
)

// Store is a journal and a store of subscriptions in one folder. It may be
// shared between goroutines.
//
// It consists of parts, one for each task. Each part has its own state. They share only the folder.
type Store struct {
	journal.Journal     // *topics
	journal.Restorer    // *topics
	journal.Notebook    // *notes
	journal.Shelf       // *shelf
	journal.Pings       // *pings
	subscriptions.Store // *records
	// Upgrader finishes an upgrade of the store's format.
	Upgrader cluster.Upgrader

	folder  *folder
	topics  *topics
	records *records
	meta    meta
	secrets seal.Status

	closeOnce sync.Once
	closeErr  error
}

// folder is the folder of a store, with its database.
type folder struct {
	dir     string
	minFree int64
	db      *boltfile.DB
	// plentyAt is when room last found plenty on the disk; nil: it has not, yet.
	plentyAt atomic.Pointer[time.Time]
	// unreadableTopic is that of Options.
	unreadableTopic func(id uuid.UUID, why error)
}

// bodies returns the folder of the large bodies.
func (f *folder) bodies() string { return filepath.Join(f.dir, bodiesName) }

// topics keeps the heads, the entries and the bodies of topics.
type topics struct {
	folder  *folder
	bodies  bodies
	cleanup sync.WaitGroup // removals of bodies that were trimmed
	feeds   [journal.Partitions]feed
	hints   journal.Broadcast
}

// pings keeps the ping records of the topics that were pinged.
type pings struct{ folder *folder }

// records keeps the subscriptions and their requests.
type records struct {
	folder *folder
	keys   *seal.Keys
	reads  bool // Options.Reads
	feeds  [journal.Partitions]feed
	// unreadable is that of Options.
	unreadable func(id uuid.UUID, why error)
}

// Open opens the store in a folder, and creates the folder if it does not exist. Only one process
// can have it open: another gets ErrLocked at once.
func Open(dir string, o Options) (*Store, error) {
	if dir == "" { // to filepath it is the working directory
		return nil, errors.New("there is no data folder; name one")
	}
	f := &folder{dir: dir, minFree: o.MinFree, unreadableTopic: o.UnreadableTopic}
	if f.minFree == 0 {
		f.minFree = DefaultMinFree
	}
	bodies := bodies{dir: f.bodies()}
	if err := os.MkdirAll(bodies.dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the data folder %s: %w", dir, err)
	}
	// An existing store on a full disk works without the marker.
	if err := disk.Mark(dir); err != nil && !boltfile.IsFull(err) {
		return nil, err
	}
	file := fileOptions()
	file.Room = f.room
	var err error
	if f.db, err = boltfile.Open(filepath.Join(dir, databaseName), file); errors.Is(err, boltfile.ErrLocked) {
		return nil, lockedError(dir)
	} else if err != nil {
		return nil, spaceOr(err)
	}
	t, r := &topics{folder: f, bodies: bodies}, &records{folder: f, keys: o.Keys, reads: o.Reads, unreadable: o.Unreadable}
	s := &Store{Journal: t, Restorer: t, Notebook: &notes{f}, Shelf: &shelf{f}, Pings: &pings{f}, Store: r, folder: f, topics: t, records: r}
	if err := s.start(); err != nil {
		_ = f.db.Close() // the first error says more
		return nil, err
	}
	u := &upgrader{folder: f}
	u.pending.Store(s.meta.format == journal.Previous)
	s.Upgrader = u
	return s, nil
}

// fileOptions are those of the database.
func fileOptions() boltfile.Options {
	return boltfile.Options{
		Buckets: buckets, Format: schema, Oldest: previous, Closed: ErrClosed, PassDamage: true, MaxLog: maxLog,
		Advice: "put a backup of the folder in its place, or move it away to begin with an empty one",
	}
}

// lockedError names the process that has a folder open.
func lockedError(dir string) error {
	holder := "another process"
	if pid, err := os.ReadFile(filepath.Join(dir, pidName)); err == nil { //nolint:gosec // the operator names the folder
		holder = "process " + strings.TrimSpace(string(pid))
	}
	return fmt.Errorf("%w: %s has %s open; stop it, or choose another folder", ErrLocked, holder, dir)
}

// start prepares the store after its database was opened.
func (s *Store) start() error {
	var err error
	if s.meta, err = prepare(s.folder.db, time.Now()); err != nil {
		return fmt.Errorf("opening the data folder %s: %w", s.folder.dir, err)
	}
	if s.secrets, err = s.records.resealAll(s.meta.isNew); err != nil {
		return fmt.Errorf("the secrets in the data folder %s: %w", s.folder.dir, spaceOr(err))
	}
	// The pid is for operators. A store on a full disk works without it. The lock is that of
	// bbolt, on its file.
	pid := filepath.Join(s.folder.dir, pidName)
	if err := os.WriteFile(pid, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		if !errors.Is(spaceOr(err), journal.ErrFull) {
			return fmt.Errorf("opening the data folder %s: %w", s.folder.dir, err)
		}
		_ = os.Remove(pid) // an incomplete pid would mislead
	}
	if err := atomicfile.SyncDir(s.folder.dir); err != nil {
		return fmt.Errorf("opening the data folder %s: %w", s.folder.dir, err)
	}
	if s.meta.isNew {
		// The name of the folder has to be durable too. Without the right to read the folder
		// around it, this process did not create it.
		_ = atomicfile.SyncDir(filepath.Dir(filepath.Clean(s.folder.dir)))
	}
	if err := s.markBodies(); err != nil {
		return fmt.Errorf("opening the data folder %s: %w", s.folder.dir, spaceOr(err))
	}
	if err := s.topics.bodies.removeOrphans(s.folder.db); err != nil {
		return fmt.Errorf("cleaning up the data folder %s: %w", s.folder.dir, err)
	}
	for i := range journal.Partitions {
		s.topics.feeds[i].start(s.meta.epoch)
		s.records.feeds[i].start(s.meta.epoch)
	}
	return nil
}

// markBodies marks the folder of the bodies once. A folder that has lost its marker since is another
// folder. The marker of another store stays.
func (s *Store) markBodies() error {
	s.topics.bodies.id = s.meta.id
	if err := s.topics.bodies.there(); s.meta.marked || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil // Ready says what is wrong
	}
	if err := s.topics.bodies.mark(); err != nil {
		return err
	}
	return s.folder.db.Update(func(tx *boltfile.Tx) error { return tx.Bucket(bucketMeta).Put(keyBodies, []byte{1}) })
}

// Secrets says how the store keeps secrets.
func (s *Store) Secrets() seal.Status { return s.secrets }

// ID is the id of this installation, drawn at random when the folder was
// created.
func (s *Store) ID() string { return s.meta.id }

// Ready returns nil if the store can accept a notification, otherwise why not: it is closed, a write
// failed, the folder of the large bodies is not there or not for writing, or the disk is at its high water
// (journal.ErrFull).
func (s *Store) Ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.folder.db.Ready(); err != nil {
		return err
	}
	if err := s.topics.bodies.ready(); err != nil {
		return err
	}
	return s.folder.room(0)
}

// Close ends the store after the operations that were begun, and releases the folder.
// It may be called more than once.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		_ = os.Remove(filepath.Join(s.folder.dir, pidName)) // a stale one does no harm
		s.closeErr = s.folder.db.Close()
		s.topics.cleanup.Wait()
	})
	return s.closeErr
}

// read returns what fn read in a transaction; after an error, the zero value. Fn has to copy the bytes
// that it returns. The writer must not call it.
func read[V any](ctx context.Context, f *folder, fn func(tx *boltfile.Tx) (V, error)) (V, error) {
	var v V
	err := f.view(ctx, func(tx *boltfile.Tx) (err error) {
		v, err = fn(tx)
		return err
	})
	if err != nil {
		v = *new(V)
	}
	return v, err
}

// list returns up to limit values of a bucket, of the topics of a partition after an id. It leaves
// out and reports those that cannot be opened.
func list[V any](ctx context.Context, f *folder, bucket []byte, partition int, after uuid.UUID, limit int, open func(k, v []byte) (V, error)) ([]V, error) {
	if err := journal.CheckPartition(partition); err != nil {
		return nil, err
	}
	if limit <= 0 {
		return nil, ctx.Err()
	}
	return read(ctx, f, func(tx *boltfile.Tx) (all []V, err error) {
		err = scan(tx.Bucket(bucket), prefixOf(partition), afterKey(partition, after), func(k, v []byte) (bool, error) {
			one, err := open(k, v)
			if err != nil {
				return true, leaveOut(f.unreadableTopic, k, err)
			}
			all = append(all, one)
			return len(all) < limit, nil
		})
		return all, err
	})
}

// view runs fn in a transaction that reads, like read.
func (f *folder) view(ctx context.Context, fn func(tx *boltfile.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return f.db.View(fn)
}
