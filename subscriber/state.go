package subscriber

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rshub/rshub/internal/base/atomicfile"
	"github.com/rshub/rshub/internal/base/boltfile"
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
)

// format is the version of all this. In 1, values had no checksums.
const format = 2

// state is what is on disk.
type state struct{ db *boltfile.DB }

var errClosed = errors.New("the subscriber is closed")

// stateAdvice says what to do with a state that can't be read.
const stateAdvice = "restore the folder, or begin with an empty one and a new baseline"

// errDamaged is wrapped by the error about a record that can't be read.
var errDamaged = errors.New("the state is damaged; " + stateAdvice)

// stateOptions are those of the file. Undone puts what is in memory right: it is called
// at once, and whenever changes that had been made were taken back.
func stateOptions(undone func(*boltfile.Tx) error) boltfile.Options {
	return boltfile.Options{
		Buckets: [][]byte{metaBucket, subsBucket, inboxBucket, heldBucket, gapsBucket, idsBucket}, Format: format,
		Advice: stateAdvice, Closed: errClosed, Wait: time.Second, Reload: undone,
	}
}

// openState opens the state in a folder, or begins a new one.
func openState(dir string, undone func(*boltfile.Tx) error) (*state, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("subscriber: %w", err)
	}
	if err := disk.Mark(dir); err != nil {
		return nil, fmt.Errorf("subscriber: %w", err)
	}
	db, err := boltfile.Open(filepath.Join(dir, "subscriber.db"), stateOptions(undone))
	if err != nil {
		return nil, fmt.Errorf("subscriber: %w", err)
	}
	if err := atomicfile.SyncDir(dir); err != nil {
		_ = db.Close() // the first error says more
		return nil, fmt.Errorf("subscriber: opening the state: %w", err)
	}
	// The folder's own name has to last too. Who may not read the folder around it
	// made it long ago.
	_ = atomicfile.SyncDir(filepath.Dir(filepath.Clean(dir)))
	return &state{db: db}, nil
}

// update changes the state; what it did is on disk when nil comes back. A change
// that returns an error leaves nothing behind. It may be called more than once,
// the last time being what counts.
func (s *state) update(change func(*boltfile.Tx) error) error {
	err := s.db.Update(change)
	if boltfile.IsFull(err) || errors.As(err, new(*boltfile.UnsureError)) {
		return fmt.Errorf("writing the subscriber's state: %w", err)
	}
	return err
}

func (s *state) view(read func(*boltfile.Tx) error) error { return s.db.View(read) }

// close ends it. What waits for its group fails with errClosed.
func (s *state) close() error { return s.db.Close() }

func getJSON(b boltfile.Bucket, key []byte, v any) (found bool, err error) {
	raw := b.Get(key)
	if raw == nil {
		return false, nil
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return true, fmt.Errorf("%w (at %q: %w)", errDamaged, key, err)
	}
	return true, nil
}

func putJSON(b boltfile.Bucket, key []byte, v any) error {
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
