package embedstore

import (
	"context"
	"errors"
	"fmt"

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
	var unread error
	err := s.do(ctx, &op{
		run: func(tx *bbolt.Tx) error {
			ended, unread = nil, nil
			result := errUnchanged
			for i := range commits {
				won, end, err := s.commitCursor(tx, &commits[i])
				if errors.Is(err, journal.ErrPacked) {
					unread = errors.Join(unread, fmt.Errorf("subscription %s: %w", commits[i].ID, err))
					continue
				}
				if err != nil {
					return err
				}
				if won {
					result = nil
				}
				if end {
					ended = append(ended, commits[i].ID)
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
	if err != nil {
		return err
	}
	return unread
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
	var attempts []subscriptions.Attempt
	if len(c.Attempts) > 0 {
		if attempts, err = readAttempts(tx, key); err != nil {
			return false, false, err
		}
		attempts = subscriptions.AddAttempts(attempts, c.Attempts...)
	}
	var sub *subscriptions.Subscription
	if len(c.Gaps) > 0 || c.End != "" {
		if sub, err = s.readSubscription(tx, key); err != nil {
			return false, false, err
		}
		for _, g := range c.Gaps {
			sub.Gaps = journal.AddGap(sub.Gaps, g)
		}
		if c.End != "" && sub.EndedAt.IsZero() && c.Cursor.Generation == old.Generation {
			sub.EndedAt, sub.EndReason = c.EndedAt, c.End
			ended = true
		}
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
