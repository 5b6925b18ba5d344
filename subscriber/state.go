package subscriber

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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

// The state is one bbolt file:
//
//	meta   tail, cursor, counts, ... as JSON
//	subs   subscriptions, as JSON, by the token in their callback
//	inbox  batches that wait for the application, by number
//	held   notifications that came early, by from, until and number
//	gaps   the latest gaps, as JSON, by number
//	ids    Webhook-Ids of content that came, by number
//
// A batch is the length of its description in four bytes, the description as
// JSON, and the payload.
var (
	metaBucket  = []byte("meta")
	subsBucket  = []byte("subs")
	inboxBucket = []byte("inbox")
	heldBucket  = []byte("held")
	gapsBucket  = []byte("gaps")
	idsBucket   = []byte("ids")

	tailKey   = []byte("tail")
	cursorKey = []byte("cursor")
	countsKey = []byte("counts")
	formatKey = []byte("format")
)

// format is the version of all this.
const format = 1

// state is what is on disk. One goroutine changes it.
type state struct {
	db     *bbolt.DB
	undone func(*bbolt.Tx) error // puts what is in memory right after changes were undone
	ops    chan *op
	done   chan struct{}
	ended  chan struct{} // the goroutine has
	stop   sync.Once
	unsure bool // of write: a commit failed, and what it wrote can be seen without being on disk
}

// op is a change of the state that waits for its group.
type op struct {
	change func(*bbolt.Tx) error
	err    chan error
}

// groupMax is how many changes share one fsync.
const groupMax = 256

var (
	errClosed = errors.New("the subscriber is closed")
	// errUnchanged is what a change returns that found nothing to do. It is no
	// failure, and costs no fsync where nobody else has anything to write.
	errUnchanged = errors.New("nothing was to be changed")
)

// openState opens the state in a folder, or begins a new one. Undone is called
// at once, and whenever changes that had been made were taken back.
func openState(dir string, undone func(*bbolt.Tx) error) (*state, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("subscriber: %w", err)
	}
	if err := disk.Mark(dir); err != nil {
		return nil, fmt.Errorf("subscriber: %w", err)
	}
	path := filepath.Join(dir, "subscriber.db")
	err := checkWhole(path)
	var db *bbolt.DB
	if err == nil {
		db, err = bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, FreelistType: bbolt.FreelistMapType})
	}
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, fmt.Errorf("subscriber: %s is in use by another process; end that one, or name another folder", path)
	}
	if err != nil {
		return nil, fmt.Errorf("subscriber: opening %s: %w", path, err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{metaBucket, subsBucket, inboxBucket, heldBucket, gapsBucket, idsBucket} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		var have int
		switch found, err := getJSON(tx.Bucket(metaBucket), formatKey, &have); {
		case err != nil:
			return err
		case !found:
			return errors.Join(putJSON(tx.Bucket(metaBucket), formatKey, format), undone(tx))
		case have != format:
			return fmt.Errorf("it has the format %d, and this program knows format %d only; use the newer one", have, format)
		}
		return undone(tx)
	})
	if err == nil {
		err = atomicfile.SyncDir(dir)
	}
	// The folder's own name has to last too. Who may not read the folder around it
	// made it long ago.
	_ = atomicfile.SyncDir(filepath.Dir(filepath.Clean(dir)))
	if err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("subscriber: opening %s: %w", path, err)
	}
	s := &state{db: db, undone: undone, ops: make(chan *op), done: make(chan struct{}), ended: make(chan struct{})}
	go s.write()
	return s, nil
}

// checkWhole refuses a file that is cut off, since bbolt, which maps it into memory,
// would end the process when it comes to where the file ends.
func checkWhole(path string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, ReadOnly: true})
	if err != nil {
		return err
	}
	err = db.View(func(tx *bbolt.Tx) error {
		if info, err := os.Stat(path); err != nil || info.Size() < tx.Size() {
			return fmt.Errorf("%w (the file is cut off)", errDamaged)
		}
		return nil
	})
	return errors.Join(err, db.Close())
}

// errDamaged says what to do with a state that can't be read.
var errDamaged = errors.New("the state is damaged; restore the folder, or begin with an empty one and a new baseline")

// update changes the state; what it did is on disk when nil comes back. A change
// that returns an error leaves nothing behind. It may be called more than once,
// the last time being what counts.
func (s *state) update(change func(*bbolt.Tx) error) error {
	o := &op{change: change, err: make(chan error, 1)}
	select {
	case s.ops <- o:
		return <-o.err
	case <-s.done:
		return errClosed
	}
}

// write makes changes, as many as there are under one fsync.
func (s *state) write() {
	defer close(s.ended)
	for {
		var group []*op
		select {
		case o := <-s.ops:
			group = append(group, o)
		case <-s.done:
			return
		}
		for more := true; more && len(group) < groupMax; {
			select {
			case o := <-s.ops:
				group = append(group, o)
			default:
				more = false
			}
		}
		for len(group) > 0 {
			group = s.commit(group)
		}
	}
}

// commit makes a group of changes and returns those that are to be made again,
// because one among them failed and all were taken back with it.
func (s *state) commit(group []*op) (again []*op) {
	failed, idle := -1, 0
	err := s.db.Update(func(tx *bbolt.Tx) error {
		for i, o := range group {
			err := o.change(tx)
			if errors.Is(err, errUnchanged) {
				idle++
			} else if err != nil {
				failed = i
				return err
			}
		}
		if idle == len(group) && !s.unsure {
			return errUnchanged // saves the fsync
		}
		return nil
	})
	if err != nil && idle < len(group) {
		err = errors.Join(err, s.db.View(s.undone))
	}
	switch {
	case failed >= 0:
		group[failed].err <- err
		return slices.Delete(group, failed, failed+1)
	case errors.Is(err, errUnchanged):
		err = nil
	case err != nil:
		s.unsure = true
		err = fmt.Errorf("writing the subscriber's state: %w", err)
	default:
		s.unsure = false
	}
	for _, o := range group {
		o.err <- err
	}
	return nil
}

func (s *state) view(read func(*bbolt.Tx) error) error {
	err := s.db.View(read)
	if errors.Is(err, berrors.ErrDatabaseNotOpen) {
		return errClosed
	}
	return err
}

// close ends it. What waits for its group fails with errClosed.
func (s *state) close() (err error) {
	s.stop.Do(func() {
		close(s.done)
		<-s.ended
		err = s.db.Close()
	})
	return err
}

func getJSON(b *bbolt.Bucket, key []byte, v any) (found bool, err error) {
	raw := b.Get(key)
	if raw == nil {
		return false, nil
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return true, fmt.Errorf("%w (at %q: %w)", errDamaged, key, err)
	}
	return true, nil
}

func putJSON(b *bbolt.Bucket, key []byte, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return b.Put(key, raw)
}

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// packBatch packs a batch, and unpackBatch reads it. The payload is a part of raw.
func packBatch(b batch, payload []byte) ([]byte, error) {
	raw, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	out := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(raw)+len(payload)), uint32(len(raw))) //nolint:gosec // a description is short
	return append(append(out, raw...), payload...), nil
}

func unpackBatch(raw []byte) (b batch, payload []byte, err error) {
	if len(raw) < 4 || int64(binary.BigEndian.Uint32(raw)) > int64(len(raw)-4) {
		return b, nil, fmt.Errorf("%w (a batch is cut off)", errDamaged)
	}
	n := binary.BigEndian.Uint32(raw)
	if err := json.Unmarshal(raw[4:4+n], &b); err != nil {
		return b, nil, fmt.Errorf("%w (a batch has no description: %w)", errDamaged, err)
	}
	return b, raw[4+n:], nil
}
