package embedstore

import (
	"bytes"
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/journal"
)

// trimStep is how many entries one transaction of Trim deletes.
const trimStep = 1024

// Trim implements journal.Trimmer. It works in steps, so that a large trim does not delay appends.
func (t *topics) Trim(ctx context.Context, topic string, cut journal.Cut) (journal.Head, error) {
	key := keyOf(journal.TopicID(topic))
	for {
		var h headRecord
		var files []uuid.UUID
		var more bool
		err := t.folder.do(ctx, &boltfile.Op{
			Run: func(tx *boltfile.Tx) (err error) {
				h, files, more, err = trim(tx, key, topic, cut)
				return err
			},
			Finish: func(err error) {
				if err == nil && len(files) > 0 {
					t.cleanup.Go(func() { t.bodies.remove(files...) })
				}
			},
		})
		if err != nil {
			return journal.Head{}, err
		}
		if !more {
			return h.Head, nil
		}
	}
}

// oldest are the entries of a topic that one step of Trim deletes, and the head after that.
type oldest struct {
	head  headRecord
	keys  [][]byte
	ids   []uuid.UUID // of the entries; uuid.Nil: not known
	files []uuid.UUID // of the bodies in files
	more  bool        // there may be more to delete
	// counted: some entries are damaged or missing, but the head counts their sizes. So the sizes
	// of all readable entries were added up again.
	counted bool
}

// trim deletes up to trimStep entries. It returns the head after that, the ids of the bodies in files,
// and whether there may be more to delete.
func trim(tx *boltfile.Tx, key []byte, topic string, cut journal.Cut) (h headRecord, files []uuid.UUID, more bool, err error) {
	if h, err = readHead(tx, key, topic); err != nil {
		return h, nil, false, err
	}
	o := oldest{head: h}
	err = scan(tx.Bucket(bucketEntries), key, key, func(k, v []byte) (bool, error) {
		return o.add(tx, key, k, v, cut)
	})
	if err != nil {
		return h, nil, false, err
	}
	for i, k := range o.keys {
		err := tx.Bucket(bucketEntries).Delete(k)
		if id := o.ids[i]; id != uuid.Nil {
			err = errors.Join(err, tx.Bucket(bucketIDs).Delete(id[:]))
		}
		if err != nil {
			return h, nil, false, err
		}
	}
	if !o.head.trimMissing(tx, key, cut) && len(o.keys) == 0 && o.head.Bytes == h.Bytes {
		return h, nil, false, nil
	}
	return o.head, o.files, o.more, writeHead(tx, key, o.head)
}

// add adds the next entry if it has to be deleted, and reports whether to continue with the one after it.
// An entry that cannot be read is as old as its position.
func (o *oldest) add(tx *boltfile.Tx, key, k, v []byte, cut journal.Cut) (more bool, err error) {
	h := &o.head
	e, _, inFile, bad := entryAt(k, v)
	at := e.Anchor()
	if bad != nil {
		d := damagedAt(tx, key, h.Head, k, h.Trimmed.Seq, bad)
		e = journal.Entry{ID: d.ID, ReceivedAt: d.At.Position.Time()}
		at = d.At
	}
	deletes := func() bool { return cut.Deletes(e.ReceivedAt, h.Bytes) }
	if !deletes() {
		return false, nil
	}
	if o.more = len(o.keys) == trimStep; o.more {
		return false, nil
	}
	if broken := bad != nil || at.Seq != h.Trimmed.Seq+1; broken && !o.counted {
		if h.Bytes, err = retainedBytes(tx, key, k); err != nil {
			return false, err
		}
		if o.counted = true; bad == nil && !deletes() {
			return false, nil
		}
	}
	o.keys, o.ids = append(o.keys, bytes.Clone(k)), append(o.ids, e.ID)
	if (inFile || bad != nil) && e.ID != uuid.Nil {
		o.files = append(o.files, e.ID)
	}
	h.Head = h.Trim(at, e.Size)
	return true, nil
}

// trimMissing trims the newest entry of a topic that has no entry left, although its head counts some.
// It reports whether it did.
func (h *headRecord) trimMissing(tx *boltfile.Tx, key []byte, cut journal.Cut) bool {
	if h.Entries == 0 {
		return false
	}
	if k, _ := tx.Bucket(bucketEntries).Cursor().Seek(key); bytes.HasPrefix(k, key) {
		return false
	}
	if !cut.Deletes(h.ReceivedAt, h.Bytes) {
		return false
	}
	h.Trimmed, h.Entries, h.Bytes = h.Last, 0, 0
	return true
}
