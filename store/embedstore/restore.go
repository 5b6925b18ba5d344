package embedstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/journal"
)

// Intervals implements journal.Restorer.
func (t *topics) Intervals(ctx context.Context, topic string) ([]journal.Interval, error) {
	found, err := read(ctx, t.folder, func(tx *boltfile.Tx) (found []journal.Interval, err error) {
		key := keyOf(journal.TopicID(topic))
		err = scan(tx.Bucket(bucketIntervals), key, key, func(_, v []byte) (bool, error) {
			i, err := journal.UnpackInterval(v)
			if journal.Unreadable(err) {
				return true, nil // a damaged interval counts as forgotten
			}
			found = append(found, i)
			return true, err
		})
		return found, err
	})
	slices.SortFunc(found, func(a, b journal.Interval) int { return cmp.Compare(a.Position, b.Position) })
	return found, err
}

// Refill implements journal.Restorer. A call is one transaction.
func (t *topics) Refill(ctx context.Context, topic string, entries []journal.Entry) (added int, err error) {
	key := keyOf(journal.TopicID(topic))
	missing, err := read(ctx, t.folder, func(tx *boltfile.Tx) ([]journal.Entry, error) { return notStored(tx, key, topic, entries) })
	if err != nil || len(missing) == 0 {
		return 0, err
	}
	o := &boltfile.Op{Grows: true}
	for _, e := range missing {
		if e.Size <= inlineMax {
			o.Bytes += e.Size
			continue
		}
		err := t.folder.room(e.Size)
		if err == nil {
			err = t.bodies.write(e.ID, e.Body)
		}
		if err != nil {
			return 0, err
		}
	}
	o.Run = func(tx *boltfile.Tx) error {
		missing, err := notStored(tx, key, topic, missing)
		for _, e := range missing {
			at := positionKey(key, e.Position)
			var inline []byte
			if e.Size <= inlineMax {
				inline = e.Body
			}
			err = errors.Join(err, tx.Bucket(bucketEntries).Put(at, entryValue(e, inline)), tx.Bucket(bucketIDs).Put(e.ID[:], at))
		}
		added = len(missing)
		return err
	}
	return added, t.folder.do(ctx, o)
}

// notStored returns those of some entries that are not stored, or journal.ErrHeadMoved.
func notStored(tx *boltfile.Tx, key []byte, topic string, entries []journal.Entry) ([]journal.Entry, error) {
	missing := slices.DeleteFunc(slices.Clone(entries), func(e journal.Entry) bool {
		return bytes.Equal(tx.Bucket(bucketIDs).Get(e.ID[:]), positionKey(key, e.Position))
	})
	if len(missing) == 0 {
		return nil, nil
	}
	h, err := readHead(tx, key, topic)
	if err == nil {
		err = journal.Refillable(h.Head, missing[0].Position)
	}
	return missing, err
}

// Restore implements journal.Restorer.
func (t *topics) Restore(ctx context.Context, h journal.Head, remembered []journal.Interval) error {
	id := journal.TopicID(h.Topic)
	key := keyOf(id)
	err := t.folder.do(ctx, &boltfile.Op{
		Grows: true,
		Run: func(tx *boltfile.Tx) error {
			stored, err := readHead(tx, key, h.Topic)
			if err != nil {
				return err
			}
			head, news, err := journal.Restored(stored.Head, h)
			if err != nil || !news {
				return err
			}
			head.Version = journal.NewVersion()
			err = errors.Join(forget(tx, key), writeHead(tx, key, headRecord{Head: head, timed: uint64(len(remembered))}))
			for n, i := range remembered {
				err = errors.Join(err, remember(tx, key, uint64(n), i))
			}
			return err
		},
	})
	t.report(id, journal.Hint{Topic: h.Topic}, err)
	return err
}

// forget deletes the remembered intervals of a topic.
func forget(tx *boltfile.Tx, key []byte) error {
	b := tx.Bucket(bucketIntervals)
	var places [][]byte
	err := scan(b, key, key, func(k, _ []byte) (bool, error) {
		places = append(places, bytes.Clone(k))
		return true, nil
	})
	for _, k := range places {
		err = errors.Join(err, b.Delete(k))
	}
	return err
}
