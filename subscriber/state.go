package subscriber

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
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

// state is what is on disk.
type state struct {
	db   *bbolt.DB
	ops  chan *op
	done chan struct{}
	stop sync.Once
}

// op is a change of the state that waits for its group.
type op struct {
	change func(*bbolt.Tx) error
	err    chan error
}

// groupMax is how many changes share one fsync.
const groupMax = 256

var (
	errClosed     = errors.New("the subscriber is closed")
	errNotWritten = errors.New("writing the subscriber's state")
)

func openState(dir string) (*state, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("subscriber: %w", err)
	}
	path := filepath.Join(dir, "subscriber.db")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, FreelistType: bbolt.FreelistMapType})
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
			return putJSON(tx.Bucket(metaBucket), formatKey, format)
		case have != format:
			return fmt.Errorf("it has the format %d, and this program knows format %d only; use the newer one", have, format)
		}
		return nil
	})
	if err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("subscriber: opening %s: %w", path, err)
	}
	s := &state{db: db, ops: make(chan *op), done: make(chan struct{})}
	go s.write()
	return s, nil
}

// update changes the state; what it did is on disk when nil comes back. A change
// that returns an error must not have written anything.
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
		s.commit(group)
	}
}

func (s *state) commit(group []*op) {
	results := make([]error, len(group))
	err := s.db.Update(func(tx *bbolt.Tx) error {
		for i, o := range group {
			results[i] = o.change(tx)
		}
		return nil
	})
	for i, o := range group {
		if err != nil {
			o.err <- fmt.Errorf("%w: %w", errNotWritten, err)
		} else {
			o.err <- results[i]
		}
	}
}

func (s *state) view(read func(*bbolt.Tx) error) error { return s.db.View(read) }

// close ends it. What waits for its group fails with errClosed.
func (s *state) close() (err error) {
	s.stop.Do(func() {
		close(s.done)
		err = s.db.Close() // waits for the transaction that is under way
	})
	return err
}

func getJSON(b *bbolt.Bucket, key []byte, v any) (found bool, err error) {
	raw := b.Get(key)
	if raw == nil {
		return false, nil
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return true, fmt.Errorf("the state is damaged at %q: %w", key, err)
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
		return b, nil, errors.New("the state is damaged: a batch is cut off")
	}
	n := binary.BigEndian.Uint32(raw)
	if err := json.Unmarshal(raw[4:4+n], &b); err != nil {
		return b, nil, fmt.Errorf("the state is damaged: a batch has no description: %w", err)
	}
	return b, raw[4+n:], nil
}
