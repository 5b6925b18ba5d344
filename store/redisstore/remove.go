package redisstore

import (
	"context"

	"github.com/rshub/rshub/journal"
)

// removeScript replaces the head of a topic whose entries are trimmed by a tombstone. If the
// tombstone is empty, the topic stays without a head.
//
//	KEYS    as for announce; 4 intervals, 5 ping records
//	ARGV    as for announce; 8 next revision of the ping records
//	returns as ifHeadStands
var removeScript = newScript(bounded, ifHeadStands+`
if redis.call('HDEL', KEYS[5], ARGV[1]) == 1 then redis.call('HSET', KEYS[5], 'rev', ARGV[8]) end
if ARGV[3] == '' then return {1} end
redis.call('DEL', KEYS[4])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
`+theTime+announce)

// Remove implements journal.Remover. Entries go first, as Trim trims them.
func (t *trimmer) Remove(ctx context.Context, topic string, ifHead journal.Version) error {
	err := t.heads.swap(ctx, topic, removeScript, func(k topicKeys, h headRecord) (tombstone string, c call, err error) {
		if h.Version == ifHead && h.Entries > 0 {
			if _, err = t.Trim(ctx, topic, journal.All); err == nil {
				h, err = t.heads.read(ctx, k, topic)
			}
			if err != nil {
				return "", call{}, err
			}
		}
		if h.Version != ifHead {
			return "", call{}, journal.ErrHeadMoved
		}
		if h.Version != "" {
			next := h.Tombstone()
			next.Version = journal.NewVersion()
			tombstone = t.heads.pack(next)
		}
		c = t.watcher.announcing(k, h, tombstone).with([]string{k.intervals, t.conn.key.partition(k.partition, namePings)}, newRevision())
		return tombstone, c, nil
	})
	if err == nil {
		t.watcher.hints.Send(journal.Hint{Topic: topic})
	}
	return err
}
