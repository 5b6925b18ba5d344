package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
)

// lister reads pages of what is stored under the ids of topics.
type lister struct {
	conn *conn
	// unreadable is Options.UnreadableTopic.
	unreadable func(id uuid.UUID, why error)
}

// Topics implements journal.Trimmer.
func (t *trimmer) Topics(ctx context.Context, partition int, after uuid.UUID, limit int) (heads []journal.Head, err error) {
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

// page calls open with the values of a hash in the order of their ids, after a given id,
// until open has accepted limit of them. The nil id stands before all. Values that open
// cannot read are reported and left out. If there is nobody to report to, page returns the
// error.
func (l *lister) page(ctx context.Context, key string, after uuid.UUID, limit int, open func(raw string) error) error {
	if limit <= 0 {
		return ctx.Err()
	}
	fields, err := l.conn.client.HKeys(ctx, key).Result()
	if err != nil {
		return err
	}
	begin := string(after[:])
	fields = slices.DeleteFunc(fields, func(f string) bool {
		return len(f) != len(after) || after != uuid.Nil && cmp.Compare(f, begin) <= 0
	})
	slices.Sort(fields)
	// Fields may be deleted meanwhile, and a page that is not full is the last one.
	for took := 0; took < limit && len(fields) > 0; {
		some := fields[:min(limit-took, len(fields))]
		fields = fields[len(some):]
		found, err := l.conn.client.HMGet(ctx, key, some...).Result()
		if err != nil {
			return err
		}
		for i, v := range found {
			raw, ok := v.(string)
			if !ok {
				continue
			}
			switch err := open(raw); {
			case err == nil:
				took++
			case l.unreadable == nil:
				return err
			default:
				l.unreadable(uuid.UUID([]byte(some[i])), err)
			}
		}
	}
	return nil
}
