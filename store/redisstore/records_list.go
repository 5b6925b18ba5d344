package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// List implements subscriptions.Registry. A hash has no order, so each page reads and sorts
// all ids of the shard. Of the records it reads only those of the page.
func (r *records) List(ctx context.Context, shard int, after uuid.UUID, limit int) (records []subscriptions.Record, err error) {
	if err := journal.CheckPartition(shard); err != nil {
		return nil, err
	}
	k := r.conn.key.records(shard)
	ids, err := r.conn.ids(ctx, k.ids())
	if err == nil {
		err = r.conn.list(ctx, k.values(), idsAfter(ids, after), limit, r.unreadable, func(id uuid.UUID, v stored) (bool, error) {
			rec, err := r.unpackRecord(id, v)
			there := rec.Subscription != nil || rec.Request != nil
			if there {
				records = append(records, rec)
			}
			return there, err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("reading the subscriptions of shard %d: %w", shard, err)
	}
	return records, nil
}

// ids returns the keys of the hashes whose fields are the ids of all records.
func (k recordKeys) ids() []string { return []string{k.subs, k.requests} }

// changesKept is roughly how many changes of a shard Changed reports one by one.
const changesKept = 1024

// Changed implements subscriptions.Registry. It returns subscriptions.ErrChangesLost for a
// value that is over 1,024 changes of the shard behind, or from a tail that Redis lost.
//
// A change is an entry of a stream, and the value of the counter is its id. A shard without
// a change costs one command.
func (r *records) Changed(ctx context.Context, shard int, since uint64) (ids []uuid.UUID, next uint64, err error) {
	if err := journal.CheckPartition(shard); err != nil {
		return nil, 0, err
	}
	k := r.conn.key.records(shard)
	from := "-"
	if since > 0 {
		from = changeID(since)
	}
	var changes []redis.XMessage
	if since == subscriptions.FromNow {
		changes, err = r.conn.client.XRevRangeN(ctx, k.changes, "+", "-", 1).Result()
	} else {
		changes, err = r.conn.client.XRange(ctx, k.changes, from, "+").Result()
	}
	if err != nil {
		return nil, 0, fmt.Errorf("reading the changes of shard %d: %w", shard, err)
	}
	if n := len(changes); n > 0 {
		next = changeValue(changes[n-1].ID)
	}
	if since == subscriptions.FromNow {
		return nil, next, nil
	}
	if since > 0 {
		if len(changes) == 0 || changes[0].ID != from {
			return nil, 0, subscriptions.ErrChangesLost
		}
		return sorted(changedIDs(changes[1:])), next, nil
	}
	// The changes were read before the records, so none is missed. Records that were deleted
	// are known only from the changes.
	if ids, err = r.conn.ids(ctx, k.ids()); err != nil {
		return nil, 0, fmt.Errorf("reading the subscriptions of shard %d: %w", shard, err)
	}
	return sorted(append(ids, changedIDs(changes)...)), next, nil
}

// changedIDs returns the ids in changes.
func changedIDs(changes []redis.XMessage) (ids []uuid.UUID) {
	for _, c := range changes {
		if id, err := uuid.FromBytes([]byte(textOf(c.Values["i"]))); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// changeShift makes room for the second number in the id of a change below the
// first, which is a time in milliseconds.
const changeShift = 20

// changeID returns the id of the change with a counter value. ChangeValue is its inverse. For
// any other id it returns 0, for which Changed reports all records.
func changeID(value uint64) string {
	return fmt.Sprintf("%d-%d", value>>changeShift, value&(1<<changeShift-1))
}

func changeValue(id string) uint64 {
	a, b, _ := strings.Cut(id, "-")
	ms, err1 := strconv.ParseUint(a, 10, 64-changeShift)
	n, err2 := strconv.ParseUint(b, 10, changeShift)
	if err1 != nil || err2 != nil {
		return 0
	}
	return ms<<changeShift | n
}
