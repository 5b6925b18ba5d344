package source

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/resourcesync"
)

// Change is one entry of the log.
type Change struct {
	// Seq counts the changes of the index: 1, 2, 3 and so on. In a Source it goes on where an index that was lost
	// had been.
	Seq uint64
	// At is when it was detected, in UTC and whole microseconds. It is later than the At of
	// every earlier change and of every earlier Snapshot.
	At time.Time
	// Change is resourcesync.Created, Updated or Deleted.
	Change resourcesync.ChangeType
	// Resource is the resource after the change. If it was deleted, only what Key returns is
	// set.
	Resource Resource
}

// Errors of an Index.
var (
	// ErrLocked: OpenIndex wraps it if another process has the index open.
	ErrLocked = boltfile.ErrLocked
	// ErrNewer: OpenIndex wraps it if a newer version of this program wrote the index.
	ErrNewer = boltfile.ErrNewer
	// ErrDamaged: OpenIndex and Open wrap it if a file of the state cannot be read. The error names it, and what to do.
	ErrDamaged = boltfile.ErrDamaged
	// ErrNoBaseline: Snapshot returns it before the first scan is finished.
	ErrNoBaseline = errors.New("the first scan of the folder is not finished")
	// ErrPruned: Snapshot.Changes wraps it if the log no longer has the changes.
	ErrPruned = errors.New("the log of changes begins later")
	// ErrClosed: the index was closed.
	ErrClosed = errors.New("the index is closed")
)

const indexName = "index.db"

// Index is the record of a set on disk: its resources by Resource.Key, and the log of their
// changes. One transaction writes both, so the resources are always those of the first scan
// with the whole log applied. It may be shared between goroutines.
type Index struct {
	db   *boltfile.DB
	near neighbourhood // set before anything is written

	// mu guards the head of the last commit, and the open snapshots.
	mu   sync.Mutex
	head head
	open map[*Snapshot]struct{}

	mostNames uint64 // of requests, that are remembered

	// recorded, if it is not nil, gets the changes that were logged, once they are on disk and in their
	// order. Set it before anything is written.
	recorded  func([]Change)
	reporting sync.Mutex // locked while recorded is called
	fresh     []Change   // for recorded; guarded by mu
}

// OpenIndex opens the index in a folder of its own, which it creates if it is missing. Only
// one process can have it open: another gets ErrLocked at once.
func OpenIndex(dir string) (*Index, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil { //nolint:gosec // the operator names the folder
		return nil, fmt.Errorf("creating the state folder %s: %w", dir, err)
	}
	db, err := boltfile.Open(filepath.Join(dir, indexName), fileOptions())
	if err != nil {
		return nil, err
	}
	x := &Index{db: db, open: map[*Snapshot]struct{}{}, mostNames: defaultNames}
	if err := x.update(func(*boltfile.Tx, *head) error { return nil }); err != nil {
		_ = db.Close() // the first error says more
		return nil, err
	}
	return x, nil
}

// fileOptions are the options of the database.
func fileOptions() boltfile.Options {
	return boltfile.Options{
		Buckets: [][]byte{bucketMeta, bucketResources, bucketLog}, Format: format, Oldest: formatPlain, Closed: ErrClosed,
		Advice: "move it away, and everything is scanned as new; a backup of this file alone would lack what was published since",
	}
}

// Len returns the number of resources.
func (x *Index) Len() int { return x.state().count }

// Ready reports whether the first scan is finished.
func (x *Index) Ready() bool { return x.state().ready }

// state returns the head of the last commit.
func (x *Index) state() head {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.head
}

// Get returns the resource with a Resource.Key, and false if there is none.
func (x *Index) Get(key string) (Resource, bool, error) {
	r, err := x.record(key)
	if err != nil || r == nil {
		return Resource{}, false, err
	}
	return r.Resource, true, nil
}

// record returns the record with a key; nil: there is none.
func (x *Index) record(key string) (r *record, err error) {
	err = x.view(func(tx *boltfile.Tx) error {
		r, err = getRecord(tx, key)
		return err
	})
	return r, err
}

// report hands over the changes that are on disk by now.
func (x *Index) report() {
	if x.recorded == nil {
		return
	}
	x.reporting.Lock()
	defer x.reporting.Unlock()
	x.mu.Lock()
	fresh := x.fresh
	x.fresh = nil
	x.mu.Unlock()
	if len(fresh) > 0 {
		x.recorded(fresh)
	}
}

// view runs fn in a transaction that reads. Fn has to be short: while it runs, bbolt cannot
// reuse pages, nor let its file grow past what is mapped.
func (x *Index) view(fn func(tx *boltfile.Tx) error) error { return x.db.View(fn) }

// Close releases the index. It waits for reads and writes that are under way.
func (x *Index) Close() error { return x.db.Close() }
