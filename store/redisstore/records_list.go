package redisstore

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/rshub/rshub/subscriptions"
)

// List implements subscriptions.Registry. A hash knows no order, so each page
// costs the ids of the shard, which are sorted here; the records of the page are
// all else that is read.
func (r *records) List(ctx context.Context, shard int, after uuid.UUID, limit int) (records []subscriptions.Record, err error) {
	ids, err := r.idsIn(ctx, r.conn.key.records(shard).ids())
	if err == nil {
		records, err = r.list(ctx, shard, idsAfter(ids, after), limit)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the subscriptions of shard %d: %w", shard, err)
	}
	return records, nil
}

// list returns the first records with some ids, limit at most. It leaves out those that
// were deleted meanwhile, and reports and leaves out those that cannot be read. If there
// is nobody to report to, it returns the error.
func (r *records) list(ctx context.Context, shard int, ids []uuid.UUID, limit int) (records []subscriptions.Record, err error) {
	for len(records) < limit && len(ids) > 0 {
		page := ids[:min(len(ids), limit-len(records), readMax)]
		ids = ids[len(page):]
		values, err := r.read(ctx, shard, page)
		if err != nil {
			return nil, err
		}
		for i, id := range page {
			rec, err := r.unpackRecord(id, values[i])
			if err != nil && r.unreadable == nil {
				return nil, err
			}
			if err != nil {
				r.unreadable(id, err)
			}
			if rec.Subscription != nil || rec.Request != nil {
				records = append(records, rec)
			}
		}
	}
	return records, nil
}

// idsAfter returns the sorted ids that follow one; the nil id stands before all.
func idsAfter(ids []uuid.UUID, after uuid.UUID) []uuid.UUID {
	first, found := slices.BinarySearchFunc(ids, after, compareIDs)
	if found && after != uuid.Nil {
		first++
	}
	return ids[first:]
}

// ids are the keys of the hashes whose fields are the ids of all records.
func (k recordKeys) ids() []string { return []string{k.subs, k.requests} }

func compareIDs(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }

// sorted returns ids in order, each once. It changes ids.
func sorted(ids []uuid.UUID) []uuid.UUID {
	slices.SortFunc(ids, compareIDs)
	return slices.Compact(ids)
}

// idsScript returns the fields of hashes, all as they were at one moment. Inside
// MULTI a full Redis would refuse even that.
//
//	KEYS    the hashes
//	returns a list of fields for each
var idsScript = newScript(reads, `
local out = {}
for n, key in ipairs(KEYS) do out[n] = redis.call('HKEYS', key) end
return out
`)

// idsIn returns the fields of some hashes of one slot, sorted, each once.
func (r *records) idsIn(ctx context.Context, hashes []string) ([]uuid.UUID, error) {
	lists, err := r.conn.run(ctx, idsScript, hashes).Slice()
	if err != nil {
		return nil, err
	}
	var ids []uuid.UUID
	for _, list := range lists {
		fields, _ := list.([]any)
		for _, f := range fields {
			text, _ := f.(string)
			if id, err := uuid.FromBytes([]byte(text)); err == nil { // nothing of ours is without one
				ids = append(ids, id)
			}
		}
	}
	return sorted(ids), nil
}

// changesKept is about how many changes of a shard Changed reports one by one.
const changesKept = 1024

// Changed implements subscriptions.Registry. It returns subscriptions.ErrChangesLost for a
// value that is over 1,024 changes of the shard behind, or from a tail that Redis lost.
//
// A change is an entry of a stream, and the counter value its id. A shard in
// which nothing changed costs one command.
func (r *records) Changed(ctx context.Context, shard int, since uint64) (ids []uuid.UUID, next uint64, err error) {
	k := r.conn.key.records(shard)
	from := "-"
	if since > 0 {
		from = changeID(since)
	}
	changes, err := r.conn.client.XRange(ctx, k.changes, from, "+").Result()
	if err != nil {
		return nil, 0, fmt.Errorf("reading the changes of shard %d: %w", shard, err)
	}
	if since > 0 {
		if len(changes) == 0 || changes[0].ID != from {
			return nil, 0, subscriptions.ErrChangesLost
		}
		ids, next = changedIDs(changes)
		if len(changes) == 1 {
			ids = nil
		}
		return ids, next, nil
	}
	// The value is read before what it counts. Records that were deleted are
	// known from the changes alone.
	known, next := changedIDs(changes)
	if ids, err = r.idsIn(ctx, k.ids()); err != nil {
		return nil, 0, fmt.Errorf("reading the subscriptions of shard %d: %w", shard, err)
	}
	return sorted(append(ids, known...)), next, nil
}

// changedIDs returns the ids in changes, sorted, each once, and the counter value
// of the last.
func changedIDs(changes []redis.XMessage) (ids []uuid.UUID, next uint64) {
	for _, c := range changes {
		text, _ := c.Values["i"].(string)
		if id, err := uuid.FromBytes([]byte(text)); err == nil {
			ids = append(ids, id)
		}
	}
	if n := len(changes); n > 0 {
		next = changeValue(changes[n-1].ID)
	}
	return sorted(ids), next
}

// changeShift makes room for the second number in the id of a change below the
// first, which is a time in milliseconds.
const changeShift = 20

// changeID is a counter value as the id of a change, changeValue the way back.
// An id without such a value gives 0, for which Changed reports all records.
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
