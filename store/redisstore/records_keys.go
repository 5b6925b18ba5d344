package redisstore

import (
	"iter"
	"strconv"

	"github.com/google/uuid"

	"github.com/rshub/rshub/subscriptions"
)

// recordSlots is how many slots the 256 shards share. A group of commits is one
// script for each slot that it touches, and the subscriptions of one topic lie in
// all shards: with a slot for each of these, 1,000 deliveries would cost 750
// commands. It is part of the stored format.
const recordSlots = 8

// bySlot groups shards by their slots.
func bySlot(shards iter.Seq[int]) (slots [recordSlots][]int) {
	for shard := range shards {
		slots[shard%recordSlots] = append(slots[shard%recordSlots], shard)
	}
	return slots
}

// recordKeys are the keys of the records of one shard. That of the cursors is
// common to all shards of the slot.
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

// recordsOf are those of the shard of a subscription.
func (k keys) recordsOf(id uuid.UUID) recordKeys { return k.records(subscriptions.Shard(id)) }

// attempts is the key of the attempts of one subscription.
func (k recordKeys) attempts(id uuid.UUID) string {
	return k.store.slot(k.tag, "attempts:"+id.String())
}

// values are the keys of the three values of a record, as readScript and
// replaceScript take them.
func (k recordKeys) values() []string { return []string{k.cursors, k.subs, k.requests} }
