package redisstore

import (
	"context"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/rshub/rshub/subscriptions"
)

// commitWhole stores commits with gaps or an end, or several for one subscription, in their
// order. It reads all records in one round trip. In another one it stores those that have
// not changed meanwhile. It adds to failed what was not stored, and empties commits.
func (r *records) commitWhole(ctx context.Context, commits map[uuid.UUID][]*subscriptions.Commit, failed failures) {
	for tries := 1; len(commits) > 0; tries++ {
		ids := slices.Collect(maps.Keys(commits))
		if tries > 1 {
			if err := rest(ctx, tries-1); err != nil {
				failed.all(ids, err)
				return
			}
		}
		var writes []write
		for id, cmd := range runEach(ctx, r.conn, readScript, ids, r.readCall) {
			values, err := readReply(cmd, 1)
			w := write{id: id}
			if err == nil {
				w.call, err = r.commitOne(id, values[0], commits[id])
			}
			if err != nil {
				failed[id] = err
			}
			if w.keys == nil {
				delete(commits, id)
			} else {
				writes = append(writes, w)
			}
		}
		for w, cmd := range runEach(ctx, r.conn, replaceScript, writes, describeWrite) {
			won, err := cmd.Bool()
			if err != nil {
				failed[w.id] = err
			}
			if won || err != nil {
				delete(commits, w.id)
			}
		}
	}
}

// write is a call of replaceScript and the subscription that it is for.
type write struct {
	id uuid.UUID
	call
}

func describeWrite(w write) call { return w.call }

// readCall returns the call of readScript for one record.
func (r *records) readCall(id uuid.UUID) call {
	return call{r.conn.key.recordsOf(id).values(), []any{id[:]}}
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
	next[storedRequest] = old[storedRequest]
	token := ""
	if ended {
		token = newToken()
	}
	return r.replaceCall(id, old, next, token, attempts), nil
}
