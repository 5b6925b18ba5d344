package redisstore

import (
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/rshub/rshub/subscriptions"
)

// recordSlots is how many slots the 256 shards share. A group of commits needs one script
// for each slot, and the subscriptions of one topic are in all shards. If each shard had its
// own slot, 1,000 deliveries would cost 750 commands. The number is part of the stored
// format.
const recordSlots = 8

// slots groups shards by the slots of their keys.
func slots(shards []int) [][]int {
	groups := make([][]int, recordSlots)
	for _, shard := range shards {
		groups[shard%recordSlots] = append(groups[shard%recordSlots], shard)
	}
	return slices.DeleteFunc(groups, func(of []int) bool { return len(of) == 0 })
}

// recordKeys are the keys of the records of one shard. All shards of a slot share the hash of
// the cursors.
type recordKeys struct {
	store keys
	tag   string

	cursors, subs, requests, changes string
}

func (k keys) records(shard int) recordKeys {
	tag, n := "r:"+strconv.Itoa(shard%recordSlots), strconv.Itoa(shard)
	return recordKeys{
		store: k, tag: tag,
		cursors:  k.slot(tag, "cursors"),
		subs:     k.slot(tag, "subscriptions:"+n),
		requests: k.slot(tag, "requests:"+n),
		changes:  k.slot(tag, "changes:"+n),
	}
}

// recordsOf returns the keys of the shard of a subscription.
func (k keys) recordsOf(id uuid.UUID) recordKeys { return k.records(subscriptions.Shard(id)) }

// attempts returns the key of the attempts of one subscription.
func (k recordKeys) attempts(id uuid.UUID) string {
	return k.store.slot(k.tag, "attempts:"+id.String())
}

// values returns the keys of the three values of a record, in the order that readScript and
// replaceScript expect.
func (k recordKeys) values() []string { return []string{k.cursors, k.subs, k.requests} }
