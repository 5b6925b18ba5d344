package publisher

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
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
	bucketBodies    = []byte("bodies")    // interval.key -> bytes, unless they are in a file
	bucketHubs      = []byte("hubs")      // URL -> cursor

	keyState = []byte("state")
)

const databaseName = "outbox.db"

// format is the version of all this. In 1, values had no checksums.
const format = 2

// outbox is a database and the files of large intervals. Its writes are durable when they
// return, and concurrent ones share a transaction. It may be shared between goroutines.
type outbox struct {
	dir   string
	files files
	db    *boltfile.DB
	next  outboxState                 // with the write under way; only the writer uses it
	now   atomic.Pointer[outboxState] // of what is durable
}

// outboxState is the state of an outbox, and the counts of what is in it.
type outboxState struct {
	state
	queued      int
	queuedBytes int64
	since       time.Time // when the first of the queue came
	kept        int
	keptBytes   int64
	newest      int64 // bytes of the newest interval, which is always kept
}

func (s *outboxState) stored() int64 { return s.queuedBytes + s.keptBytes }

// openOutbox opens the outbox in dir, or makes one.
func openOutbox(dir string, fresh state) (*outbox, error) {
	x := &outbox{dir: dir, files: files{filepath.Join(dir, "notifications")}}
	err := disk.Make(dir)
	if err == nil {
		err = os.MkdirAll(x.files.dir, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("creating the outbox: %w", err)
	}
	if x.db, err = boltfile.Open(filepath.Join(dir, databaseName), x.fileOptions()); err != nil {
		return nil, fmt.Errorf("opening the outbox: %w", err)
	}
	err = x.db.Update(func(tx *boltfile.Tx) error { return prepare(tx, fresh) })
	if err == nil && x.now.Load() == nil {
		err = x.db.View(x.reload)
	}
	if err := errors.Join(err, x.removeOrphans(), atomicfile.SyncDir(dir)); err != nil {
		_ = x.db.Close() // the first error says more
		return nil, fmt.Errorf("opening the outbox in %s: %w", dir, err)
	}
	return x, nil
}

// fileOptions are those of the database.
func (x *outbox) fileOptions() boltfile.Options {
	return boltfile.Options{
		Buckets: [][]byte{bucketMeta, bucketQueue, bucketIntervals, bucketBodies, bucketHubs}, Format: format, Closed: ErrClosed,
		Advice: damagedAdvice, Reload: x.reload,
	}
}

// prepare stores the state of a new outbox, and refuses an old one of another topic.
func prepare(tx *boltfile.Tx, fresh state) error {
	meta := tx.Bucket(bucketMeta)
	var old state
	switch {
	case !meta.GetJSON(keyState, &old):
		return meta.PutJSON(keyState, fresh)
	case old.Topic != fresh.Topic || old.Kind != fresh.Kind:
		return fmt.Errorf("it belongs to the %s topic %s, not to the %s topic %s: give each topic its own folder", old.Kind, old.Topic, fresh.Kind, fresh.Topic)
	}
	return nil
}

// reload reads the state and counts what is there, when the file is opened and whenever it
// may have changed under the outbox.
func (x *outbox) reload(tx *boltfile.Tx) error {
	var s outboxState
	if !tx.Bucket(bucketMeta).GetJSON(keyState, &s.state) {
		return nil // prepare makes it
	}
	for _, v := range tx.Bucket(bucketQueue).From(nil) {
		s.queued++
		s.queuedBytes += int64(len(v))
	}
	if s.queued > 0 {
		s.since = time.Now()
	}
	for i := range intervalsFrom(tx, time.Time{}) {
		s.kept++
		s.keptBytes += i.Size
		s.newest = i.Size
	}
	x.next = s
	x.publish()
	return nil
}

// publish shows everybody what is durable now. Only the writer calls it.
func (x *outbox) publish() {
	now := x.next
	x.now.Store(&now)
}

// outboxState returns the state and the counts of what is durable.
func (x *outbox) outboxState() outboxState { return *x.now.Load() }

// closed reports whether the outbox was closed.
func (x *outbox) closed() bool {
	return errors.Is(x.db.View(func(*boltfile.Tx) error { return nil }), ErrClosed)
}

// do runs a write, and returns when it is durable. Run may change the outboxState. If run
// returns an error, nothing that it wrote is stored. If ctx ends before the write has
// begun, it never does; otherwise do waits for it.
func (x *outbox) do(ctx context.Context, run func(tx *boltfile.Tx, s *outboxState) error) error {
	return x.db.Do(ctx, &boltfile.Op{
		Run: func(tx *boltfile.Tx) error {
			s := x.next
			err := run(tx, &s)
			if err == nil && s.state != x.next.state {
				err = tx.Bucket(bucketMeta).PutJSON(keyState, s.state)
			}
			if err == nil {
				x.next = s
			}
			return err
		},
		Finish: func(err error) {
			if err == nil {
				x.publish()
			}
		},
	})
}
