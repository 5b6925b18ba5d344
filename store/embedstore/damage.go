package embedstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/journal"
)

// positionOf is the position in the key of an entry.
func positionOf(k []byte) journal.Position {
	return journal.Position(binary.BigEndian.Uint64(k[len(k)-8:]))
}

// entryAt reads the entry under a key. An error for which journal.Unreadable is true means damage. The
// inline body is not copied.
func entryAt(k, v []byte) (e journal.Entry, inline []byte, inFile bool, err error) {
	e, inline, inFile, err = openEntry(v)
	if err == nil && e.Position != positionOf(k) {
		err = fmt.Errorf("%w: an entry: it has the position of another", journal.ErrPacked)
	}
	return e, inline, inFile, err
}

// damagedAt describes, as far as possible, the entry under a key that cannot be read and comes after
// the entry with the number seq.
func damagedAt(tx *boltfile.Tx, key []byte, h journal.Head, k []byte, seq uint64, why error) *journal.DamagedError {
	d := &journal.DamagedError{Why: why}
	if id := packedID(tx.Bucket(bucketEntries).Raw(k)); bytes.Equal(tx.Bucket(bucketIDs).Get(id[:]), k) {
		d.ID = id
	}
	d.At = journal.Anchor{Position: positionOf(k), Seq: seq + 1, Until: positionOf(k).Time()}
	if d.At.Position == h.Last.Position {
		d.At = h.Last
		return d
	}
	c := tx.Bucket(bucketEntries).Cursor()
	c.Seek(k)
	if k, v := c.Next(); k != nil && bytes.HasPrefix(k, key) {
		if next, _, _, err := entryAt(k, v); err == nil {
			near := next.Predecessor()
			d.At.Seq, d.At.Until = near.Seq, near.Until
		}
	}
	return d
}

// packedID is the id in the value of a damaged entry; it may be wrong.
func packedID(v []byte) uuid.UUID {
	if len(v) < 2 {
		return uuid.Nil
	}
	_, n := binary.Uvarint(v[1:])
	return journal.PackedEntryID(v[1+max(n, 0):])
}

// fileBody reads the body of an entry from its file. journal.ErrNotFound: it was
// trimmed since.
func (t *topics) fileBody(ctx context.Context, e journal.Entry) ([]byte, error) {
	body, err := t.bodies.read(e)
	if !errors.Is(err, journal.ErrDamaged) {
		return body, err
	}
	// The entry was trimmed since, or its body is damaged.
	var damaged *journal.DamagedError
	if _, _, findErr := t.Find(ctx, e.ID); findErr != nil && !errors.As(findErr, &damaged) {
		return nil, findErr
	}
	return nil, err
}

// retainedBytes adds up the sizes of the bodies of a topic from the key of an entry on. It leaves out
// entries that cannot be read.
func retainedBytes(tx *boltfile.Tx, key, from []byte) (n int64, err error) {
	err = scan(tx.Bucket(bucketEntries), key, from, func(k, v []byte) (bool, error) {
		if e, _, _, err := entryAt(k, v); err == nil {
			n += e.Size
		}
		return true, nil
	})
	return n, err
}

// leaveOut reports that a record of a topic or a subscription cannot be read. Where nothing receives
// reports, it returns the error.
func leaveOut(report func(id uuid.UUID, why error), key []byte, why error) error {
	id, err := uuid.FromBytes(key[1:])
	if why == nil || report == nil || err != nil {
		return why
	}
	report(id, why)
	return nil
}
