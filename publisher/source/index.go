package source

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

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
	ErrLocked = errors.New("the state folder is in use")
	// ErrNewer is wrapped by what OpenIndex returns where a newer version of this
	// program wrote the index.
	ErrNewer = errors.New("the index was written by a newer version")
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
	db *bbolt.DB

	// mu is held by whoever writes. It guards head, which is that of the last
	// commit, and the snapshots that are open.
	mu   sync.Mutex
	head head
	open map[*Snapshot]struct{}
}

// OpenIndex opens the index in a folder of its own, which it creates where there
// is none. Only one process can have it open: another gets ErrLocked at once.
func OpenIndex(dir string) (x *Index, err error) {
	path := filepath.Join(dir, indexName)
	damaged := func(why any) error {
		return fmt.Errorf("%s can't be read and seems damaged (%v): put a backup in its place; without one, move it away, and the folder is scanned as a new one", path, why)
	}
	// Bbolt panics over pages that make no sense.
	defer func() {
		if p := recover(); p != nil {
			x, err = nil, damaged(p)
		}
	}()
	if err := os.MkdirAll(dir, 0o700); err != nil { //nolint:gosec // the operator names the folder
		return nil, fmt.Errorf("creating the state folder %s: %w", dir, err)
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout:      time.Nanosecond, // one try: who holds the lock keeps it
		FreelistType: bbolt.FreelistMapType,
		// Else each commit writes the list of all free pages. Close writes it once.
		NoFreelistSync: true,
		NoStatistics:   true,
	})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return nil, fmt.Errorf("%w: another process has %s open; stop it, or choose another folder", ErrLocked, path)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOSPC):
		return nil, fmt.Errorf("opening %s: %w", path, err)
	case err != nil:
		return nil, damaged(err)
	}
	x = &Index{db: db, open: map[*Snapshot]struct{}{}}
	if err := x.prepare(); err != nil {
		_ = db.Close() // the first error says more
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	return x, nil
}

// prepare creates what is missing and reads the head.
func (x *Index) prepare() error {
	return x.db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{bucketMeta, bucketResources, bucketLog} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		v := tx.Bucket(bucketMeta).Get(keyHead)
		if v == nil {
			return putHead(tx, head{})
		}
		var err error
		x.head, err = unpackHead(v)
		return err
	})
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
	err = x.view(func(tx *bbolt.Tx) error {
		r, err = getRecord(tx, path)
		return err
	})
	return r, err
}

// view runs fn in a transaction that reads. It has to be a short one: bbolt can
// reuse no page, nor let its file grow past what is mapped, while it lasts.
func (x *Index) view(fn func(tx *bbolt.Tx) error) error { return closedOr(x.db.View(fn)) }

func closedOr(err error) error {
	if errors.Is(err, berrors.ErrDatabaseNotOpen) {
		return ErrClosed
	}
	return err
}

// Close gives the index free. It waits for what is read and written at the time.
func (x *Index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	// With the free pages written, the next open need not look for them. Where
	// this fails, it does.
	x.db.NoFreelistSync = false
	_ = x.db.Update(func(*bbolt.Tx) error { return nil })
	return x.db.Close()
}
