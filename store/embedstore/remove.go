package embedstore

import (
	"context"
	"errors"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/journal"
)

// Remove implements journal.Remover. Entries go first, as Trim takes them.
func (t *topics) Remove(ctx context.Context, topic string, ifHead journal.Version) error {
	h, err := t.Head(ctx, topic)
	if err != nil {
		return err
	}
	if h.Version != ifHead {
		return journal.ErrHeadMoved
	}
	if _, err := t.Trim(ctx, topic, journal.All); err != nil {
		return err
	}
	id := journal.TopicID(topic)
	key := keyOf(id)
	return t.folder.do(ctx, &boltfile.Op{
		Run: func(tx *boltfile.Tx) error { return remove(tx, key, topic, ifHead) },
		Finish: func(err error) {
			if boltfile.MayBeStored(err) {
				t.feeds[key[0]].bump(id)
				t.hints.Send(topic)
			}
		},
	})
}

// remove is the last step. What Trim left of the entries is nothing as long as the
// version stands: each new entry makes another.
func remove(tx *boltfile.Tx, key []byte, topic string, ifHead journal.Version) error {
	h, err := readHead(tx, key, topic)
	if err != nil {
		return err
	}
	if h.Version != ifHead {
		return journal.ErrHeadMoved
	}
	if err := errors.Join(forget(tx, key), tx.Bucket(bucketPings).Delete(key)); err != nil || h.Version == "" {
		return err
	}
	head := h.Tombstone()
	head.Version = journal.NewVersion()
	return writeHead(tx, key, headRecord{Head: head})
}
