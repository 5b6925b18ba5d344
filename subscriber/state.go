package subscriber

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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
//	held   notifications that came early, by from and until
//	gaps   the latest gaps, as JSON, by number
//	ids    Webhook-Ids of content that came, by number
//
// A batch is its description as JSON, and then the payload.
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
	placeKey  = []byte("stream") // the place in the hub's stream
)

// format is the version of all this. In 1, values had no checksums. In 2, the length of
// its description came before a batch.
const format = 3

var errClosed = errors.New("the subscriber is closed")

// stateAdvice says what to do with a state that cannot be read.
const stateAdvice = "restore the folder, or begin with an empty one and a new baseline"

// stateOptions are those of the file. Reload counts what is in the file. It is called at
// once, and after changes were undone.
func stateOptions(reload func(*boltfile.Tx) error) boltfile.Options {
	return boltfile.Options{
		Buckets: [][]byte{metaBucket, subsBucket, inboxBucket, heldBucket, gapsBucket, idsBucket}, Format: format,
		Advice: stateAdvice, Closed: errClosed, Wait: time.Second, Reload: reload,
	}
}

// openState opens the state in a folder, or begins a new one.
func openState(dir string, reload func(*boltfile.Tx) error) (*boltfile.DB, error) {
	if err := disk.Make(dir); err != nil {
		return nil, err
	}
	db, err := boltfile.Open(filepath.Join(dir, "subscriber.db"), stateOptions(reload))
	if err != nil {
		return nil, err
	}
	if err := atomicfile.SyncDir(dir); err != nil {
		_ = db.Close() // the first error says more
		return nil, fmt.Errorf("opening the state: %w", err)
	}
	return db, nil
}

// BeginAnew forgets what was received in the folder of a Subscriber, for an application that lost what it
// did with that and makes a new baseline. The next Subscriber there begins at its Options.Start. The subscriptions
// stay, so that it renews them at once, or ends them. The folder must not be in use.
func BeginAnew(dir string) error {
	db, err := openState(dir, nil)
	if err != nil {
		return fmt.Errorf("subscriber: %w", err)
	}
	if err := errors.Join(db.Update(forget), db.Close()); err != nil {
		return err
	}
	was, err := ReadStatus(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	now := Status{AsOf: time.Now(), Topic: was.Topic, Way: was.Way, Subscriptions: was.Subscriptions}
	return now.write(dir)
}

// forget removes everything except the subscriptions.
func forget(tx *boltfile.Tx) error {
	current := bytes.Clone(tx.Bucket(metaBucket).Get(currentKey))
	subs := readSubscriptions(tx)
	for _, name := range [][]byte{metaBucket, inboxBucket, heldBucket, gapsBucket, idsBucket} {
		if err := tx.Clear(name); err != nil {
			return err
		}
	}
	for _, sub := range subs {
		sub.Lost, sub.RenewAt = true, time.Now()
		if err := putSubscription(tx, sub); err != nil {
			return err
		}
	}
	if current == nil {
		return nil
	}
	return tx.Bucket(metaBucket).Put(currentKey, current)
}

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func fromNumber(key []byte) uint64 { return binary.BigEndian.Uint64(key) }

// packBatch packs a batch.
func packBatch(b batch, payload []byte) ([]byte, error) {
	raw, err := json.Marshal(b)
	return append(raw, payload...), err
}

// unpackBatch reads what packBatch wrote. The payload is a part of raw.
func unpackBatch(raw []byte) (b batch, payload []byte, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	err = d.Decode(&b)
	return b, raw[d.InputOffset():], err
}

// readBatch reads a batch of a bucket. It shares no memory with raw.
func readBatch(bucket boltfile.Bucket, key, raw []byte) (batch, []byte) {
	b, payload, err := unpackBatch(bytes.Clone(raw))
	if err != nil {
		bucket.Refuse(key, err)
	}
	return b, payload
}
