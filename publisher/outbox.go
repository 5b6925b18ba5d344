package publisher

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/rshub/rshub/internal/base/atomicfile"
	"github.com/rshub/rshub/internal/base/disk"
)

// The buckets of the database, and the one key of meta.
var (
	bucketMeta      = []byte("meta")
	bucketQueue     = []byte("queue")     // number -> queued
	bucketIntervals = []byte("intervals") // interval.key -> interval
	bucketBodies    = []byte("bodies")    // interval.key -> bytes, where they are no file
	bucketHubs      = []byte("hubs")      // URL -> mark

	keyState = []byte("state")
)

const databaseName = "outbox.db"

// outbox is what is on disk: a database, and the files of large intervals. Its
// writes are durable when they return, and those that come at the same time share
// a transaction. It may be shared between goroutines.
type outbox struct {
	dir    string
	files  files
	commit func(*bbolt.Tx) error // bbolt's; tests have others

	turn chan struct{} // held by who writes

	waitMu  sync.Mutex
	waiting []*write // what the next transaction takes along

	mu     sync.RWMutex // guards what follows; who writes db and now holds turn too
	db     *bbolt.DB    // nil: lost by a failed commit, and opened again by the next write
	now    standing
	fault  error
	closed bool
}

// standing is the state of an outbox, and what can be counted in it.
type standing struct {
	state
	queued      int
	queuedBytes int64
	since       time.Time // when the queue ceased to be empty
	kept        int
	keptBytes   int64
}

func (s *standing) stored() int64 { return s.queuedBytes + s.keptBytes }

// write is one operation. Run may change the standing, which counts once the
// transaction is committed.
type write struct {
	run  func(tx *bbolt.Tx, s *standing) error
	err  error
	done bool
}

// openOutbox opens the outbox in dir, or makes one.
func openOutbox(dir string, fresh state) (x *outbox, err error) {
	defer func() { // bbolt panics over pages that make no sense
		if r := recover(); r != nil {
			x, err = nil, fmt.Errorf("%s: %w (%v)", dir, errDamaged, r)
		}
	}()
	x = &outbox{dir: dir, files: files{filepath.Join(dir, "notifications")}, commit: (*bbolt.Tx).Commit, turn: make(chan struct{}, 1)}
	if err := os.MkdirAll(x.files.dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the outbox: %w", err)
	}
	if err := disk.Mark(dir); err != nil {
		return nil, err
	}
	if err := x.open(&fresh); err != nil {
		return nil, err
	}
	if err := errors.Join(x.removeOrphans(), atomicfile.SyncDir(dir)); err != nil {
		_ = x.db.Close() // the first error says more
		return nil, fmt.Errorf("opening the outbox in %s: %w", dir, err)
	}
	// The folder's own name has to last too. Who may not read the folder around it
	// made it long ago.
	_ = atomicfile.SyncDir(filepath.Dir(filepath.Clean(dir)))
	return x, nil
}

// open opens the database, makes what it shows durable, and counts.
func (x *outbox) open(fresh *state) error {
	db, err := bbolt.Open(filepath.Join(x.dir, databaseName), 0o600, &bbolt.Options{
		Timeout: time.Nanosecond, FreelistType: bbolt.FreelistMapType, NoFreelistSync: true, NoStatistics: true,
	})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return fmt.Errorf("the outbox in %s is open in another process: stop it, or choose another folder", x.dir)
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum), errors.Is(err, berrors.ErrVersionMismatch):
		return fmt.Errorf("%s: %w (%w)", x.dir, errDamaged, err)
	case err != nil:
		return fmt.Errorf("opening the outbox in %s: %w", x.dir, err)
	}
	var s standing
	err = db.Update(func(tx *bbolt.Tx) (err error) {
		if fresh != nil {
			err = prepare(tx, *fresh)
		}
		if err == nil {
			s, err = count(tx)
		}
		return err
	})
	if err != nil {
		_ = db.Close() // the first error says more
		return fmt.Errorf("opening the outbox in %s: %w", x.dir, err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.db, x.now, x.fault = db, s, nil
	return nil
}

// prepare makes the buckets and the state of a new outbox, and makes sure that an
// old one is for the same topic.
func prepare(tx *bbolt.Tx, fresh state) error {
	for _, name := range [][]byte{bucketMeta, bucketQueue, bucketIntervals, bucketBodies, bucketHubs} {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
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

// count reads the state, and counts what there is.
func count(tx *bbolt.Tx) (s standing, err error) {
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

// standing returns how things stand.
func (x *outbox) standing() standing {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.now
}

// view runs fn on what is committed. What it keeps it has to copy.
func (x *outbox) view(fn func(tx *bbolt.Tx) error) error {
	x.mu.RLock()
	defer x.mu.RUnlock()
	switch {
	case x.closed:
		return ErrClosed
	case x.db == nil:
		return x.fault
	}
	return x.db.View(fn)
}

// do runs a write, and returns when it is durable. Run refuses before it writes
// anything, by a *refusal; any other error takes the transaction with it. When ctx
// ends before the write has begun, it never does; one that has is waited for.
func (x *outbox) do(ctx context.Context, run func(tx *bbolt.Tx, s *standing) error) error {
	w := &write{run: run}
	x.waitMu.Lock()
	x.waiting = append(x.waiting, w)
	x.waitMu.Unlock()
	select {
	case x.turn <- struct{}{}:
	case <-ctx.Done():
		if x.withdraw(w) {
			return ctx.Err()
		}
		x.turn <- struct{}{}
	}
	defer func() { <-x.turn }()
	if w.done { // by whoever had the turn before
		return w.err
	}
	x.waitMu.Lock()
	batch := x.waiting
	x.waiting = nil
	x.waitMu.Unlock()
	err := x.transact(batch)
	for _, o := range batch {
		if o.done = true; err != nil {
			o.err = err
		}
	}
	return w.err
}

// withdraw takes back a write that nobody has begun.
func (x *outbox) withdraw(w *write) bool {
	x.waitMu.Lock()
	defer x.waitMu.Unlock()
	i := slices.Index(x.waiting, w)
	if i >= 0 {
		x.waiting = slices.Delete(x.waiting, i, i+1)
	}
	return i >= 0
}

// refusal is the error of a write that has written nothing.
type refusal struct{ error }

// errUnchanged is the refusal of a write that had nothing to do.
var errUnchanged = &refusal{errors.New("nothing changed")}

func (r *refusal) Unwrap() error { return r.error }

// transact runs writes in one transaction. It is for who has the turn.
func (x *outbox) transact(batch []*write) error {
	x.mu.RLock()
	db, s, closed := x.db, x.now, x.closed
	x.mu.RUnlock()
	if closed {
		return ErrClosed
	}
	if db == nil {
		if err := x.open(nil); err != nil {
			return err
		}
		db, s = x.db, x.standing()
	}
	tx, err := db.Begin(true)
	if err != nil {
		return fmt.Errorf("writing to the outbox: %w", err)
	}
	before, wrote := s.state, false
	for _, w := range batch {
		var refused *refusal
		if w.err = w.run(tx, &s); w.err != nil && !errors.As(w.err, &refused) {
			_ = tx.Rollback() // nothing was committed, so it always can be
			return fmt.Errorf("writing to the outbox: %w", w.err)
		}
		wrote = wrote || w.err == nil
	}
	if !wrote {
		return tx.Rollback()
	}
	if s.state != before {
		if err := tx.Bucket(bucketMeta).Put(keyState, pack(s.state)); err != nil {
			_ = tx.Rollback() // as above
			return fmt.Errorf("writing to the outbox: %w", err)
		}
	}
	if err := x.commit(tx); err != nil {
		return x.lose(err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.now = s
	return nil
}

// lose gives the database up after a commit that failed, which may be on disk or
// not: it is opened again by the next write, and shows then which.
func (x *outbox) lose(cause error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	_ = x.db.Close() // the cause says more
	x.db = nil
	x.fault = fmt.Errorf("writing to the outbox in %s failed; what was written may be there or not, and the next write tells: %w", x.dir, cause)
	return x.fault
}

// trouble is why nothing could be written last; nil: it could.
func (x *outbox) trouble() error {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.fault
}

// close gives the folder free.
func (x *outbox) close() error {
	x.turn <- struct{}{}
	defer func() { <-x.turn }()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed || x.db == nil {
		x.closed = true
		return nil
	}
	x.closed = true
	x.db.NoFreelistSync = false // the next open need not look for the free pages
	_ = x.db.Update(func(*bbolt.Tx) error { return nil })
	return x.db.Close()
}
