package publisher

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rshub/rshub/internal/base/atomicfile"
	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/internal/base/disk"
)

// The buckets of the database, and the one key of meta.
var (
	bucketMeta      = []byte("meta")
	bucketQueue     = []byte("queue")     // number -> queued
	bucketIntervals = []byte("intervals") // interval.key -> interval
	bucketBodies    = []byte("bodies")    // interval.key -> bytes, where they are no file
	bucketHubs      = []byte("hubs")      // URL -> cursor

	keyState = []byte("state")
)

const databaseName = "outbox.db"

// format is the version of all this. In 1, values had no checksums.
const format = 2

// outbox is what is on disk: a database, and the files of large intervals. Its
// writes are durable when they return, and those that come at the same time share
// a transaction. It may be shared between goroutines.
type outbox struct {
	dir   string
	files files
	db    *boltfile.DB
	next  outboxState // with what is being written; the writer's

	mu  sync.RWMutex // guards now
	now outboxState  // of what is durable
}

// outboxState is the state of an outbox, and what can be counted in it.
type outboxState struct {
	state
	queued      int
	queuedBytes int64
	since       time.Time // when the queue ceased to be empty
	kept        int
	keptBytes   int64
}

func (s *outboxState) stored() int64 { return s.queuedBytes + s.keptBytes }

// openOutbox opens the outbox in dir, or makes one.
func openOutbox(dir string, fresh state) (*outbox, error) {
	x := &outbox{dir: dir, files: files{filepath.Join(dir, "notifications")}}
	if err := os.MkdirAll(x.files.dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the outbox: %w", err)
	}
	if err := disk.Mark(dir); err != nil {
		return nil, err
	}
	var err error
	if x.db, err = boltfile.Open(filepath.Join(dir, databaseName), x.fileOptions()); err != nil {
		return nil, fmt.Errorf("opening the outbox: %w", err)
	}
	err = x.db.Update(func(tx *boltfile.Tx) error { return prepare(tx, fresh) })
	if err == nil && x.now.Topic == "" {
		err = x.db.View(x.reload)
	}
	if err := errors.Join(err, x.removeOrphans(), atomicfile.SyncDir(dir)); err != nil {
		_ = x.db.Close() // the first error says more
		return nil, fmt.Errorf("opening the outbox in %s: %w", dir, err)
	}
	// The folder's own name has to last too. Who may not read the folder around it
	// made it long ago.
	_ = atomicfile.SyncDir(filepath.Dir(filepath.Clean(dir)))
	return x, nil
}

// fileOptions are those of the database.
func (x *outbox) fileOptions() boltfile.Options {
	return boltfile.Options{
		Buckets: [][]byte{bucketMeta, bucketQueue, bucketIntervals, bucketBodies, bucketHubs}, Format: format, Closed: ErrClosed,
		Advice: damagedAdvice, Reload: x.reload,
	}
}

// prepare makes the state of a new outbox, and makes sure that an old one is for the
// same topic.
func prepare(tx *boltfile.Tx, fresh state) error {
	meta := tx.Bucket(bucketMeta)
	b := meta.Get(keyState)
	if b == nil {
		return meta.Put(keyState, pack(fresh))
	}
	old, err := unpackState(b)
	switch {
	case err != nil:
		return err
	case old.Topic != fresh.Topic || old.Kind != fresh.Kind:
		return fmt.Errorf("it is that of the %s topic %s, not of the %s topic %s: give each topic a folder of its own", old.Kind, old.Topic, fresh.Kind, fresh.Topic)
	}
	return nil
}

// reload counts what is there, where it may be another than it was.
func (x *outbox) reload(tx *boltfile.Tx) error {
	if tx.Bucket(bucketMeta).Get(keyState) == nil {
		return nil // it is being made
	}
	s, err := count(tx)
	if err != nil {
		return err
	}
	x.next = s
	x.publish()
	return nil
}

// publish shows everybody what is durable by now. It is the writer's.
func (x *outbox) publish() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.now = x.next
}

// count reads the state, and counts what there is.
func count(tx *boltfile.Tx) (s outboxState, err error) {
	if s.state, err = unpackState(tx.Bucket(bucketMeta).Get(keyState)); err != nil {
		return s, err
	}
	err = tx.Bucket(bucketQueue).ForEach(func(_, v []byte) error {
		s.queued++
		s.queuedBytes += int64(len(v))
		return nil
	})
	if s.queued > 0 {
		s.since = time.Now()
	}
	return s, errors.Join(err, tx.Bucket(bucketIntervals).ForEach(func(k, v []byte) error {
		i, err := unpackInterval(k, v)
		s.kept++
		s.keptBytes += i.Size
		return err
	}))
}

// outboxState returns how things stand.
func (x *outbox) outboxState() outboxState {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.now
}

// view runs fn on what is committed. What it keeps it has to copy.
func (x *outbox) view(fn func(tx *boltfile.Tx) error) error { return x.db.View(fn) }

// do runs a write, and returns when it is durable. Run may change the outboxState, which
// counts once the transaction is committed. If run returns an error, nothing that it
// wrote is stored. When ctx ends before the write has begun, it never does; one that
// has is waited for.
func (x *outbox) do(ctx context.Context, run func(tx *boltfile.Tx, s *outboxState) error) error {
	return x.db.Do(ctx, &boltfile.Op{
		Run: func(tx *boltfile.Tx) error {
			s := x.next
			if err := run(tx, &s); err != nil {
				return err
			}
			if s.state != x.next.state {
				if err := tx.Bucket(bucketMeta).Put(keyState, pack(s.state)); err != nil {
					return err
				}
			}
			x.next = s
			return nil
		},
		Finish: func(err error) {
			if err == nil {
				x.publish()
			}
		},
	})
}
