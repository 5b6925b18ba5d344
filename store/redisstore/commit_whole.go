package redisstore

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// commitWhole stores commits that bring gaps or an end, by subscription in their
// order: all are read in one round trip, decided here, and stored in another
// where they are still what was read. Unread names what cannot be read; err says
// that some was not stored.
func (s *Store) commitWhole(ctx context.Context, commits map[uuid.UUID][]*subscriptions.Commit) (unread, err error) {
	for tries := 1; len(commits) > 0; tries++ {
		if tries > 1 {
			if err := rest(ctx, tries-1); err != nil {
				return unread, err
			}
		}
		ids := slices.Collect(maps.Keys(commits))
		values, err := s.readAll(ctx, ids)
		if err != nil {
			return unread, err
		}
		var writes []call
		var writing []uuid.UUID
		for i, id := range ids {
			write, err := s.commitOne(id, values[i], commits[id])
			if err != nil {
				unread = errors.Join(unread, err)
			}
			if err != nil || write.keys == nil {
				delete(commits, id)
				continue
			}
			writes, writing = append(writes, write), append(writing, id)
		}
		for i, cmd := range s.runAll(ctx, replaceScript, writes) {
			won, cmdErr := cmd.Bool()
			if cmdErr != nil {
				return unread, cmdErr
			}
			if won {
				delete(commits, writing[i])
			}
		}
	}
	return unread, nil
}

// readAll returns the records with some ids of any shards, in one round trip.
func (s *Store) readAll(ctx context.Context, ids []uuid.UUID) ([]stored, error) {
	calls := make([]call, len(ids))
	for i, id := range ids {
		calls[i] = call{keys: s.key.recordsOf(id).values(), args: []any{ids[i][:]}}
	}
	out := make([]stored, len(ids))
	for i, cmd := range s.runAll(ctx, readScript, calls) {
		one, err := readReply(cmd, 1)
		if err != nil {
			return nil, err
		}
		out[i] = one[0]
	}
	return out, nil
}

// commitOne returns the call that stores what commits make of a record, in their
// order; one without keys where that is nothing.
func (s *Store) commitOne(id uuid.UUID, old stored, commits []*subscriptions.Commit) (call, error) {
	sub, err := s.unpackSubscription(id, old)
	if sub == nil || err != nil {
		return call{}, err // a commit never creates a subscription
	}
	var won, ended bool
	var attempts []subscriptions.Attempt
	for _, c := range commits {
		if c.Cursor.Compare(sub.Cursor) <= 0 {
			continue
		}
		if c.End != "" && sub.EndedAt.IsZero() && c.Cursor.Generation == sub.Cursor.Generation {
			sub.EndedAt, sub.EndReason = c.EndedAt, c.End
			ended = true
		}
		for _, g := range c.Gaps {
			sub.Gaps = journal.AddGap(sub.Gaps, g)
		}
		attempts = subscriptions.AddAttempts(attempts, c.Attempts...)
		sub.Cursor = c.Cursor
		won = true
	}
	if !won {
		return call{}, nil
	}
	next := s.packRecord(id, subscriptions.Record{Subscription: sub})
	next.request = old.request
	token := ""
	if ended {
		token = newToken()
	}
	return call{keys: s.replaceKeys(id), args: replaceArgs(id, old, next, token, attempts)}, nil
}
