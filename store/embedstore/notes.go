package embedstore

import (
	"bytes"
	"context"
	"slices"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/journal"
)

// notes implements journal.Notebook. Their keys are numbers that only grow.
type notes struct{ folder *folder }

// Note implements journal.Notebook.
func (n *notes) Note(ctx context.Context, texts ...[]byte) error {
	return n.folder.do(ctx, &boltfile.Op{Run: func(tx *boltfile.Tx) error {
		b := tx.Bucket(bucketNotes)
		last, _ := b.Cursor().Last()
		next := readNumber(last)
		for _, text := range texts {
			next++
			if err := b.Put(number(next), text); err != nil {
				return err
			}
		}
		c := b.Cursor()
		for k, _ := c.First(); k != nil && readNumber(k)+journal.MaxNotes <= next; k, _ = c.First() {
			if err := b.Delete(k); err != nil {
				return err
			}
		}
		return nil
	}})
}

// Notes implements journal.Notebook.
func (n *notes) Notes(ctx context.Context) (texts [][]byte, err error) {
	err = n.folder.view(ctx, func(tx *boltfile.Tx) error {
		return tx.Bucket(bucketNotes).ForEach(func(_, text []byte) error {
			texts = append(texts, bytes.Clone(text))
			return nil
		})
	})
	slices.Reverse(texts)
	return texts, err
}
