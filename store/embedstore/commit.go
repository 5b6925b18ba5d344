package embedstore

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// Commit implements subscriptions.Committer. A record that cannot be read is
// named in the error and does not keep the others from being stored.
func (r *records) Commit(ctx context.Context, commits []subscriptions.Commit) error {
	if len(commits) == 0 {
		return ctx.Err()
	}
	var ended []uuid.UUID
	var unread map[uuid.UUID]error
	err := r.folder.do(ctx, &boltfile.Op{
		Run: func(tx *boltfile.Tx) error {
			ended, unread = nil, make(map[uuid.UUID]error)
			for i := range commits {
				id := commits[i].ID
				if unread[id] != nil {
					continue
				}
				end, err := r.commitCursor(tx, &commits[i])
				if errors.Is(err, journal.ErrPacked) {
					unread[id] = err
					continue
				}
				if err != nil {
					return err
				}
				if end {
					ended = append(ended, id)
				}
			}
			return nil
		},
		Finish: func(err error) {
			if !boltfile.MayBeStored(err) {
				return
			}
			for _, id := range ended {
				r.feeds[journal.Partition(id)].bump(id)
			}
		},
	})
	if err != nil || len(unread) == 0 {
		return err
	}
	return &subscriptions.CommitError{Failed: unread}
}

// commitCursor stores one commit, if its cursor wins (invariant 3), and reports
// whether it ended the subscription.
func (r *records) commitCursor(tx *boltfile.Tx, c *subscriptions.Commit) (ended bool, err error) {
	key := keyOf(c.ID)
	cursors := tx.Bucket(bucketCursors)
	v := cursors.Get(key) // there is one for each subscription
	if v == nil {
		return false, nil
	}
	old, err := journal.UnpackCursor(v)
	if err != nil || c.Cursor.Compare(old) <= 0 {
		return false, err
	}
	// Read everything before the first write.
	var sub *subscriptions.Subscription
	if !c.CursorOnly() {
		if sub, err = r.readSubscription(tx, key); err != nil {
			return false, err
		}
		sub.Cursor = old
		won := false
		if won, ended = sub.Apply(c); !won {
			return false, nil
		}
	}
	var attempts []subscriptions.Attempt
	if len(c.Attempts) > 0 {
		if attempts, err = readAttempts(tx, key); err != nil {
			return false, err
		}
		attempts = subscriptions.AddAttempts(attempts, c.Attempts...)
	}
	err = cursors.Put(key, journal.PackCursor(c.Cursor))
	if err == nil && attempts != nil {
		err = tx.Bucket(bucketAttempts).Put(key, subscriptions.PackAttempts(attempts))
	}
	if err == nil && sub != nil {
		err = tx.Bucket(bucketSubs).Put(key, subscriptions.PackSubscription(*sub, r.keys))
	}
	return ended, err
}
