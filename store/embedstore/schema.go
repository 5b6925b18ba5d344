package embedstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/journal"
)

// schema is the version of the layout below, in journal.Newest, and previous the one in
// journal.Previous. In 1, values had no checksums.
const (
	schema   = 3
	previous = 2
)

// formatOf is the format in which a transaction packs values.
func formatOf(tx *boltfile.Tx) journal.Format {
	if tx.Format() == previous {
		return journal.Previous
	}
	return journal.Newest
}

// The buckets. A key that begins with a topic or a subscription is its
// partition in one byte, then its id; numbers are big-endian.
var (
	bucketMeta      = []byte("meta")          // the keys below
	bucketHeads     = []byte("heads")         // topic -> headRecord
	bucketEntries   = []byte("entries")       // topic, position -> entry, see entryValue
	bucketIDs       = []byte("ids")           // notification id -> key of its entry
	bucketIntervals = []byte("intervals")     // topic, one of 64 places -> packed interval
	bucketPings     = []byte("marks")         // topic -> packed ping record
	bucketNotes     = []byte("notes")         // number -> text
	bucketShelf     = []byte("shelf")         // name -> time of expiry, value
	bucketSubs      = []byte("subscriptions") // subscription -> packed subscription
	bucketCursors   = []byte("cursors")       // subscription -> packed cursor
	bucketRequests  = []byte("requests")      // subscription -> packed request
	bucketAttempts  = []byte("attempts")      // subscription -> packed attempts

	buckets = [][]byte{
		bucketMeta, bucketHeads, bucketEntries, bucketIDs, bucketIntervals, bucketPings, bucketNotes, bucketShelf,
		bucketSubs, bucketCursors, bucketRequests, bucketAttempts,
	}
)

var (
	keyID      = []byte("install-id")
	keyCreated = []byte("created-at") // seconds since 1970
	keyEpoch   = []byte("epoch")      // how often the store was opened
	keyBodies  = []byte("bodies")     // set once the folder of the bodies has its marker
	keySecrets = []byte("secrets")    // packed forms; nil: as before there were keys
)

// meta is the description of a store in its own file.
type meta struct {
	id        string
	createdAt time.Time
	isNew     bool
	epoch     uint64
	marked    bool // keyBodies
	format    journal.Format
}

// prepare writes the meta of a new store, reads it, and begins a new epoch.
func prepare(db *boltfile.DB, now time.Time) (m meta, err error) {
	err = db.Update(func(tx *boltfile.Tx) error {
		b := tx.Bucket(bucketMeta).Strict()
		if m.isNew = b.Get(keyID) == nil; m.isNew {
			err := errors.Join(b.Put(keyID, []byte(uuid.NewString())), b.Put(keyCreated, number(uint64(max(now.Unix(), 0)))))
			if err != nil {
				return err
			}
		}
		m.id = string(b.Get(keyID))
		m.createdAt = time.Unix(int64(readNumber(b.Get(keyCreated))), 0).UTC() //nolint:gosec // written above
		m.marked = b.Get(keyBodies) != nil
		m.format = formatOf(tx)
		m.epoch = readNumber(b.Get(keyEpoch)) + 1
		return b.Put(keyEpoch, number(m.epoch))
	})
	return m, err
}

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func readNumber(b []byte) uint64 {
	if len(b) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// keyOf is the key of a topic or a subscription.
func keyOf(id uuid.UUID) []byte {
	return append(prefixOf(journal.Partition(id)), id[:]...)
}

// positionKey is the key of what a topic has at a position.
func positionKey(topic []byte, p journal.Position) []byte {
	return binary.BigEndian.AppendUint64(bytes.Clone(topic), uint64(p))
}

// prefixOf begins the keys of a partition.
func prefixOf(partition int) []byte {
	return []byte{byte(partition)} //nolint:gosec // 0 to 255
}

// afterKey is the key to seek for the ids of a partition after a given one,
// which may be stored itself; the nil id is before all others.
func afterKey(partition int, after uuid.UUID) []byte {
	k := append(prefixOf(partition), after[:]...)
	if after == uuid.Nil {
		return k
	}
	return append(k, 0)
}

// scan calls fn with the keys and values of a bucket from a key on, as long as the keys have the
// prefix and fn returns true.
func scan(b boltfile.Bucket, prefix, from []byte, fn func(k, v []byte) (bool, error)) error {
	c := b.Cursor()
	for k, v := c.Seek(from); k != nil && bytes.HasPrefix(k, prefix); k, v = c.Next() {
		if more, err := fn(k, v); err != nil || !more {
			return err
		}
	}
	return nil
}
