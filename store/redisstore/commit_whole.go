package redisstore

import (
	"context"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/rshub/rshub/subscriptions"
)

// commitWhole stores commits with gaps or an end, or several for one subscription, in their
// order. It reads all records in one round trip, decides, and stores in another those that
// are still the ones it read. It adds to failed what was not stored, and empties commits.
func (r *records) commitWhole(ctx context.Context, commits map[uuid.UUID][]*subscriptions.Commit, failed failures) {
	for tries := 1; len(commits) > 0; tries++ {
		ids := slices.Collect(maps.Keys(commits))
		if tries > 1 {
			if err := rest(ctx, tries-1); err != nil {
				failed.all(ids, err)
				return
			}
		}
		var writes []call
		var writing []uuid.UUID
		for i, cmd := range r.readAll(ctx, ids) {
			id := ids[i]
			var write call
			values, err := readReply(cmd, 1)
			if err == nil {
				write, err = r.commitOne(id, values[0], commits[id])
			}
			switch {
			case err != nil:
				failed[id] = err
				delete(commits, id)
			case write.keys == nil:
				delete(commits, id)
			default:
				writes, writing = append(writes, write), append(writing, id)
			}
		}
		for i, cmd := range r.conn.runAll(ctx, replaceScript, writes) {
			id := writing[i]
			won, err := cmd.Bool()
			if err != nil {
				failed[id] = err
			}
			if won || err != nil {
				delete(commits, id)
			}
		}
	}
}

// readAll reads the records with some ids of any shards, in one round trip.
func (r *records) readAll(ctx context.Context, ids []uuid.UUID) []*redis.Cmd {
	calls := make([]call, len(ids))
	for i, id := range ids {
		calls[i] = call{keys: r.conn.key.recordsOf(id).values(), args: []any{ids[i][:]}}
	}
	return r.conn.runAll(ctx, readScript, calls)
}

// commitOne returns the call that stores a record after commits, in their order. A call
// without keys: they change nothing.
func (r *records) commitOne(id uuid.UUID, old stored, commits []*subscriptions.Commit) (call, error) {
	sub, err := r.unpackSubscription(id, old)
	if sub == nil || err != nil {
		return call{}, err // a commit never creates a subscription
	}
	var won, ended bool
	var attempts []subscriptions.Attempt
	for _, c := range commits {
		one, end := sub.Apply(c)
		if !one {
			continue
		}
		attempts = subscriptions.AddAttempts(attempts, c.Attempts...)
		won, ended = true, ended || end
	}
	if !won {
		return call{}, nil
	}
	next := r.packRecord(subscriptions.Record{Subscription: sub})
	next.request = old.request
	token := ""
	if ended {
		token = newToken()
	}
	return call{keys: r.replaceKeys(id), args: replaceArgs(id, old, next, token, attempts)}, nil
}
