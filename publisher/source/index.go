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

// Resource is a regular file of the folder, as it was when it was hashed.
type Resource struct {
	// Path is its path below the folder, such as "a/b.txt". The names in it are the bytes
	// that the file system has, which need not be UTF-8. See EscapePath.
	Path string
	// ModTime is the time of its last modification, in UTC. It is zero if no document can
	// have that time, which is before year 1 or after 9999.
	ModTime time.Time
	// Length is its size in bytes.
	Length int64
	// SHA256 and MD5 are digests of its bytes.
	SHA256 [32]byte
	MD5    [16]byte
	// MediaType is what the function MediaType returned. It has no parameters.
	MediaType string
}

// Hash is the attribute hash in documents: "md5:... sha-256:..." (DOC-55).
func (r *Resource) Hash() string { return fmt.Sprintf("md5:%x sha-256:%x", r.MD5, r.SHA256) }

// equal reports whether a client that fetches r and o gets the same.
func (r *Resource) equal(o *Resource) bool {
	return r.Length == o.Length && r.SHA256 == o.SHA256 && r.MediaType == o.MediaType
}

// Change is one entry of the log.
type Change struct {
	// Seq counts the changes of the index: 1, 2, 3 and so on.
	Seq uint64
	// At is when it was detected, in UTC and whole microseconds. It is later than the At of
	// every earlier change and of every earlier Snapshot.
	At time.Time
	// Change is resourcesync.Created, Updated or Deleted.
	Change resourcesync.ChangeType
	// Resource is the resource after the change. If it was deleted, only Path is set.
	Resource Resource
}

// Errors of an Index.
var (
	// ErrLocked: OpenIndex wraps it if another process has the index open.
	ErrLocked = boltfile.ErrLocked
	// ErrNewer: OpenIndex wraps it if a newer version of this program wrote the index.
	ErrNewer = boltfile.ErrNewer
	// ErrNoBaseline: Snapshot returns it before the first scan is finished.
	ErrNoBaseline = errors.New("the first scan of the folder is not finished")
	// ErrPruned: Snapshot.Changes wraps it if the log no longer has the changes.
	ErrPruned = errors.New("the log of changes begins later")
	// ErrClosed: the index was closed.
	ErrClosed = errors.New("the index is closed")
)

const indexName = "index.db"

// Index is the record of a folder on disk: its resources by path, and the log of their
// changes. One transaction writes both, so the resources are always those of the first scan
// with the whole log applied. It may be shared between goroutines.
type Index struct {
	db *boltfile.DB

	// mu is locked to write. It guards the head of the last commit, and the open snapshots.
	mu   sync.Mutex
	head head
	open map[*Snapshot]struct{}
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
	x := &Index{db: db, open: map[*Snapshot]struct{}{}}
	if err := x.update(func(*boltfile.Tx, *head) error { return nil }); err != nil {
		_ = db.Close() // the first error says more
		return nil, err
	}
	return x, nil
}

// fileOptions are the options of the database.
func fileOptions() boltfile.Options {
	return boltfile.Options{
		Buckets: [][]byte{bucketMeta, bucketResources, bucketLog}, Format: format, Closed: ErrClosed,
		Advice: "put a backup in its place; without one, move it away, and the folder is scanned as a new one",
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

// Get returns the resource at a path, and false if there is none.
func (x *Index) Get(path string) (Resource, bool, error) {
	r, err := x.record(path)
	if err != nil || r == nil {
		return Resource{}, false, err
	}
	return r.Resource, true, nil
}

// record returns the record of a path; nil: there is none.
func (x *Index) record(path string) (r *record, err error) {
	err = x.view(func(tx *boltfile.Tx) error {
		r, err = getRecord(tx, path)
		return err
	})
	return r, err
}

// view runs fn in a transaction that reads. Fn has to be short: while it runs, bbolt cannot
// reuse pages, nor let its file grow past what is mapped.
func (x *Index) view(fn func(tx *boltfile.Tx) error) error { return x.db.View(fn) }

// Close releases the index. It waits for reads and writes that are under way.
func (x *Index) Close() error { return x.db.Close() }
