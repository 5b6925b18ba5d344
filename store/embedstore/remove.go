package embedstore

import (
	"context"
	"errors"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/journal"
)

// Remove implements journal.Remover. It deletes the entries first, with Trim.
func (t *topics) Remove(ctx context.Context, topic string, ifHead journal.Version) error {
	if err := t.headIs(ctx, topic, ifHead); err != nil {
		return err
	}
	if _, err := t.Trim(ctx, topic, journal.All); err != nil {
		return err
	}
	id := journal.TopicID(topic)
	key := keyOf(id)
	err := t.folder.do(ctx, &boltfile.Op{Run: func(tx *boltfile.Tx) error { return remove(tx, key, topic, ifHead) }})
	t.report(id, journal.Hint{Topic: topic}, err)
	return err
}

// remove is the last step. Trim has left no entry as long as the version is the same: each new entry
// makes another.
func remove(tx *boltfile.Tx, key []byte, topic string, ifHead journal.Version) error {
	h, err := readHeadIf(tx, key, topic, ifHead)
	if err != nil {
		return err
	}
	if err := errors.Join(forget(tx, key), tx.Bucket(bucketPings).Delete(key)); err != nil || h.Version == "" {
		return err
	}
	head := h.Tombstone()
	head.Version = journal.NewVersion()
	return writeHead(tx, key, headRecord{Head: head})
}
