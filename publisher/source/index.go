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

// Resource is a regular file of the folder as it was when it was hashed.
type Resource struct {
	// Path is where it is below the folder: the bytes of its name as the file
	// system has them, with "/" between, no "/" in front. It need not be UTF-8.
	// See EscapePath.
	Path string
	// ModTime is the time of its last modification, in UTC. It is zero where the
	// file system has one that no document can hold (before year 1, after 9999).
	ModTime time.Time
	// Length is its size in bytes.
	Length int64
	// SHA256 and MD5 are digests of its bytes.
	SHA256 [32]byte
	MD5    [16]byte
	// MediaType is what MediaType said of it. It has no parameters.
	MediaType string
}

// Hash is what documents say in the attribute hash: "md5:... sha-256:..." (DOC-55).
func (r *Resource) Hash() string { return fmt.Sprintf("md5:%x sha-256:%x", r.MD5, r.SHA256) }

// sameBytes reports whether r and o are the same to whoever fetches them.
func (r *Resource) sameBytes(o *Resource) bool {
	return r.Length == o.Length && r.SHA256 == o.SHA256 && r.MediaType == o.MediaType
}

// Change is one entry of the log.
type Change struct {
	// Seq counts the changes of the index: 1, 2, 3 and so on.
	Seq uint64
	// At is when it was detected, in UTC and whole microseconds. It is later than
	// that of every change before, and than the At of every Snapshot taken before.
	At time.Time
	// Change is resourcesync.Created, Updated or Deleted.
	Change resourcesync.ChangeType
	// Resource is what it was changed to. Of a deleted one there is only the Path.
	Resource Resource
}

// Errors of an Index.
var (
	// ErrLocked is wrapped by what OpenIndex returns where another process has
	// the index open.
	ErrLocked = boltfile.ErrLocked
	// ErrNewer is wrapped by what OpenIndex returns where a newer version of this
	// program wrote the index.
	ErrNewer = boltfile.ErrNewer
	// ErrNoBaseline is returned by Snapshot before the first scan is finished.
	ErrNoBaseline = errors.New("the first scan of the folder is not finished")
	// ErrPruned is wrapped by what Snapshot.Changes yields where changes that were
	// asked for are not in the log any more.
	ErrPruned = errors.New("the log of changes begins later")
	// ErrClosed is returned by an index that was closed.
	ErrClosed = errors.New("the index is closed")
)

const indexName = "index.db"

// Index is what is known of a folder, on disk: its resources by path, and the log
// of their changes. Both are written in one transaction, so that the resources
// are always those of the first scan with the whole log applied. It may be
// shared between goroutines.
type Index struct {
	db *boltfile.DB

	// mu is held by whoever writes. It guards head, which is that of the last
	// commit, and the snapshots that are open.
	mu   sync.Mutex
	head head
	open map[*Snapshot]struct{}
}

// OpenIndex opens the index in a folder of its own, which it creates where there
// is none. Only one process can have it open: another gets ErrLocked at once.
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

// fileOptions are those of the index.
func fileOptions() boltfile.Options {
	return boltfile.Options{
		Buckets: [][]byte{bucketMeta, bucketResources, bucketLog}, Format: format, Closed: ErrClosed,
		Advice: "put a backup in its place; without one, move it away, and the folder is scanned as a new one",
	}
}

// Len returns the number of resources.
func (x *Index) Len() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.head.count
}

// lastSeq is the number of the newest change; 0: there is none.
func (x *Index) lastSeq() uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.head.last.seq
}

// Ready reports whether the first scan is finished.
func (x *Index) Ready() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.head.ready
}

// Get returns the resource at a path, and false where there is none.
func (x *Index) Get(path string) (Resource, bool, error) {
	r, err := x.record(path)
	if err != nil || r == nil {
		return Resource{}, false, err
	}
	return r.Resource, true, nil
}

// record returns what is stored of a path, nil: nothing.
func (x *Index) record(path string) (r *record, err error) {
	err = x.view(func(tx *boltfile.Tx) error {
		r, err = getRecord(tx, path)
		return err
	})
	return r, err
}

// view runs fn in a transaction that reads. It has to be a short one: bbolt can
// reuse no page, nor let its file grow past what is mapped, while it lasts.
func (x *Index) view(fn func(tx *boltfile.Tx) error) error { return x.db.View(fn) }

// Close releases the index. It waits for what is read and written at the time.
func (x *Index) Close() error { return x.db.Close() }
