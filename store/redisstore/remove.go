package redisstore

import (
	"context"

	"github.com/rshub/rshub/journal"
)

// removeScript puts a tombstone in the place of a topic whose entries are trimmed.
//
//	KEYS    1 heads, 2 intervals, 3 marks, 4 changes, 5 latest change
//	ARGV    1 topic, 2 revision that the stored head record must have, empty: there must
//	        be none, 3 tombstone as head record, empty: there is to be none, 4 next
//	        revision of the marks, 5 most changes, 6 hint, 7 its channel, 8 command that
//	        publishes it
//	returns {1} it is done; {0, head record} the stored one is another
var removeScript = newScript(bounded, `
local now = redis.call('HGET', KEYS[1], ARGV[1]) or ''
local revision = string.sub(now, 2, 9)
if revision ~= '' and revision == string.sub(ARGV[3], 2, 9) then return {1} end
if revision ~= ARGV[2] then return {0, now} end
if redis.call('HDEL', KEYS[3], ARGV[1]) == 1 then redis.call('HSET', KEYS[3], 'rev', ARGV[4]) end
if ARGV[3] == '' then return {1} end
redis.call('DEL', KEYS[2])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
`+tellChange("KEYS[4]", "KEYS[5]", "ARGV[5]")+`
redis.pcall(ARGV[8], ARGV[7], ARGV[6])
return {1}
`)

// Remove implements journal.Remover. Entries go first, as Trim takes them.
func (t *trimmer) Remove(ctx context.Context, topic string, ifHead journal.Version) error {
	return t.heads.swap(ctx, topic, func(k topicKeys, h headRecord) (bool, string, error) {
		if h.Version == ifHead && h.Entries > 0 {
			_, err := t.Trim(ctx, topic, journal.All)
			if err == nil {
				h, err = t.heads.read(ctx, k, topic)
			}
			if err != nil {
				return false, "", err
			}
		}
		if h.Version != ifHead {
			return false, "", journal.ErrHeadMoved
		}
		tombstone := ""
		if h.Version != "" {
			next := h.Tombstone()
			next.Version = newVersion(random())
			tombstone = packHead(next)
		}
		names := []string{k.heads, k.intervals, t.conn.key.partition(k.partition, nameMarks), k.changes, k.latest}
		done, now, err := swapped(t.conn.run(ctx, removeScript, names, k.field, h.revision, tombstone, newRevision(),
			maxTopicChanges, t.watcher.message(topic), k.hints, t.conn.hintCommand()))
		if done && err == nil {
			_, err = t.heads.learn(k, topic, tombstone)
			t.watcher.send(topic)
		}
		return done, now, err
	})
}
