package embedstore

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"go.etcd.io/bbolt"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// Commit implements subscriptions.Committer. A record that cannot be read is
// named in the error and does not keep the others from being stored.
func (s *Store) Commit(ctx context.Context, commits []subscriptions.Commit) error {
	if len(commits) == 0 {
		return ctx.Err()
	}
	var ended []uuid.UUID
	var unread map[uuid.UUID]error
	err := s.do(ctx, &op{
		run: func(tx *bbolt.Tx) error {
			ended, unread = nil, make(map[uuid.UUID]error)
			result := errUnchanged
			for i := range commits {
				id := commits[i].ID
				if unread[id] != nil {
					continue
				}
				won, end, err := s.commitCursor(tx, &commits[i])
				if errors.Is(err, journal.ErrPacked) {
					unread[id] = err
					continue
				}
				if err != nil {
					return err
				}
				if won {
					result = nil
				}
				if end {
					ended = append(ended, id)
				}
			}
			return result
		},
		finish: func(err error) {
			if !mayBeStored(err) {
				return
			}
			for _, id := range ended {
				s.records[journal.Partition(id)].bump(id)
			}
		},
	})
	if err != nil || len(unread) == 0 {
		return err
	}
	return &subscriptions.CommitError{Failed: unread}
}

// commitCursor stores one commit, if its cursor wins (invariant 3), and tells
// whether it ended the subscription.
func (s *Store) commitCursor(tx *bbolt.Tx, c *subscriptions.Commit) (won, ended bool, err error) {
	key := keyOf(c.ID)
	cursors := tx.Bucket(bucketCursors)
	v := cursors.Get(key) // there is one for each subscription
	if v == nil {
		return false, false, nil
	}
	old, err := journal.UnpackCursor(v)
	if err != nil || c.Cursor.Compare(old) <= 0 {
		return false, false, err
	}
	// All is read before the first write.
	var sub *subscriptions.Subscription
	if len(c.Gaps) > 0 || c.End != "" {
		if sub, err = s.readSubscription(tx, key); err != nil {
			return false, false, err
		}
		sub.Cursor = old
		if won, ended = sub.Settle(c); !won {
			return false, false, nil
		}
	}
	var attempts []subscriptions.Attempt
	if len(c.Attempts) > 0 {
		if attempts, err = readAttempts(tx, key); err != nil {
			return false, false, err
		}
		attempts = subscriptions.AddAttempts(attempts, c.Attempts...)
	}
	err = put(cursors, key, journal.PackCursor(c.Cursor))
	if err == nil && attempts != nil {
		err = put(tx.Bucket(bucketAttempts), key, subscriptions.PackAttempts(attempts))
	}
	if err == nil && sub != nil {
		err = put(tx.Bucket(bucketSubs), key, subscriptions.PackSubscription(*sub, s.keys))
	}
	return true, ended, err
}
