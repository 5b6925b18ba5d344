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
func (t *topics) Intervals(ctx context.Context, topic string) (found []journal.Interval, err error) {
	err = t.folder.view(ctx, func(tx *boltfile.Tx) error {
		key := keyOf(journal.TopicID(topic))
		return scan(tx.Bucket(bucketIntervals), key, key, func(_, v []byte) (bool, error) {
			i, err := journal.UnpackInterval(v)
			found = append(found, i)
			return true, err
		})
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b journal.Interval) int { return cmp.Compare(a.Position, b.Position) })
	return found, nil
}

// Restore implements journal.Restorer.
func (t *topics) Restore(ctx context.Context, h journal.Head, remembered []journal.Interval) error {
	id := journal.TopicID(h.Topic)
	key := keyOf(id)
	return t.folder.do(ctx, &boltfile.Op{
		Grows: true,
		Run: func(tx *boltfile.Tx) error {
			stored, err := readHead(tx, key, h.Topic)
			if err != nil {
				return err
			}
			head, news, err := journal.Restored(stored.Head, h)
			if err != nil {
				return err
			}
			if !news {
				return nil
			}
			head.Version = journal.NewVersion()
			return errors.Join(forget(tx, key), rememberAll(tx, key, remembered),
				writeHead(tx, key, headRecord{Head: head, timed: uint64(len(remembered))}))
		},
		Finish: func(err error) {
			if boltfile.MayBeStored(err) {
				t.feeds[key[0]].bump(id)
				t.hints.Send(h.Topic)
			}
		},
	})
}

// forget takes away what is remembered of a topic.
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

// rememberAll keeps intervals, oldest first, in the places where remember would
// have put those of the first entries of a topic.
func rememberAll(tx *boltfile.Tx, key []byte, all []journal.Interval) error {
	var err error
	for n, i := range all {
		place := append(bytes.Clone(key), byte(n%journal.Remembered))
		err = errors.Join(err, tx.Bucket(bucketIntervals).Put(place, journal.PackInterval(i)))
	}
	return err
}
