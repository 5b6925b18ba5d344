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
			found = append(found, i)
			return true, err
		})
		return found, err
	})
	slices.SortFunc(found, func(a, b journal.Interval) int { return cmp.Compare(a.Position, b.Position) })
	return found, err
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
		Finish: func(err error) { t.report(id, h.Topic, err) },
	})
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
