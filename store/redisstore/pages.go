package redisstore

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
)

// lister reads heads and ping records in the order of the ids of their topics.
type lister struct {
	conn *conn
	// unreadable is Options.UnreadableTopic.
	unreadable func(id uuid.UUID, why error)
}

// Topics implements journal.Trimmer.
func (t *trimmer) Topics(ctx context.Context, partition int, after uuid.UUID, limit int) (heads []journal.Head, err error) {
	if err := journal.CheckPartition(partition); err != nil {
		return nil, err
	}
	err = t.lister.page(ctx, t.conn.key.partition(partition, nameHeads), after, limit, func(raw string) error {
		h, err := openHead(raw, "")
		if err == nil {
			if t.heads.seen.listed(t.conn.key.topic(h.Topic), h.Head) {
				t.heads.histories.suspect(partition)
			}
			heads = append(heads, h.Head)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("the topics of partition %d: %w", partition, err)
	}
	return heads, nil
}

// page is list for the values of one hash after a given id.
func (l *lister) page(ctx context.Context, key string, after uuid.UUID, limit int, open func(raw string) error) error {
	hash := []string{key}
	ids, err := l.conn.ids(ctx, hash)
	if err != nil {
		return err
	}
	return l.conn.list(ctx, hash, idsAfter(ids, after), limit, l.unreadable, func(_ uuid.UUID, v stored) (bool, error) {
		if v[0] == "" {
			return false, nil // deleted meanwhile
		}
		err := open(v[0])
		return err == nil, err
	})
}

// list calls open with the values that hashes of one slot have of some ids, in the order of
// the ids, until open has accepted limit of them. It calls unreadable with values that open
// cannot read. If unreadable is nil, it returns the error.
func (c *conn) list(ctx context.Context, hashes []string, ids []uuid.UUID, limit int, unreadable func(uuid.UUID, error), open func(uuid.UUID, stored) (accepted bool, err error)) error {
	for limit > 0 && len(ids) > 0 {
		page := ids[:min(len(ids), limit, readMax)]
		ids = ids[len(page):]
		values, err := c.read(ctx, hashes, page)
		if err != nil {
			return err
		}
		for i, id := range page {
			accepted, err := open(id, values[i])
			if accepted {
				limit--
			}
			if err != nil {
				if err := leaveOut(unreadable, id, err); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// leaveOut reports that a value cannot be read. Where nothing receives reports, it returns the error.
func leaveOut(report func(uuid.UUID, error), id uuid.UUID, why error) error {
	if report == nil {
		return why
	}
	report(id, why)
	return nil
}

// idsScript returns the fields of hashes, all as they were at one moment. It is a script,
// because a full Redis refuses even reads inside MULTI.
//
//	KEYS    the hashes
//	returns a list of fields for each
var idsScript = newScript(reads, `
local out = {}
for n, key in ipairs(KEYS) do out[n] = redis.call('HKEYS', key) end
return out
`)

// ids returns the ids among the fields of hashes of one slot, sorted, each once.
func (c *conn) ids(ctx context.Context, hashes []string) ([]uuid.UUID, error) {
	lists, err := c.run(ctx, idsScript, hashes).Slice()
	if err != nil {
		return nil, err
	}
	var ids []uuid.UUID
	for _, list := range lists {
		fields, _ := list.([]any)
		for _, f := range fields {
			if id, err := uuid.FromBytes([]byte(textOf(f))); err == nil {
				ids = append(ids, id)
			}
		}
	}
	return sorted(ids), nil
}

// idsAfter returns those of the sorted ids that follow a given id. The nil id comes before
// all others.
func idsAfter(ids []uuid.UUID, after uuid.UUID) []uuid.UUID {
	first, found := slices.BinarySearchFunc(ids, after, compareIDs)
	if found && after != uuid.Nil {
		first++
	}
	return ids[first:]
}

func compareIDs(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }

// sorted returns ids in order, each once. It changes ids.
func sorted(ids []uuid.UUID) []uuid.UUID {
	slices.SortFunc(ids, compareIDs)
	return slices.Compact(ids)
}
