package redisstore

import (
	"context"
	"errors"
	"slices"

	"github.com/rshub/rshub/journal"
)

// restoreScript stores the head record of a topic with all that is remembered of
// its intervals.
//
//	KEYS    1 heads, 2 intervals, 3 changes, 4 latest change
//	ARGV    1 topic, 2 revision that the stored head record must have, empty: there must
//	        be none, 3 new head record, 4 most changes, 5 hint, 6 its channel,
//	        7 command that publishes it, 8.. packed intervals, oldest first
//	returns {1} it is stored; {0, head record} the stored one is another
var restoreScript = newScript(grows, `
local now = redis.call('HGET', KEYS[1], ARGV[1]) or ''
local revision = string.sub(now, 2, 9)
if revision == string.sub(ARGV[3], 2, 9) then return {1} end
if revision ~= ARGV[2] then return {0, now} end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
redis.call('DEL', KEYS[2])
for i = 8, #ARGV do redis.call('LPUSH', KEYS[2], ARGV[i]) end
`+tellChange("KEYS[3]", "KEYS[4]", "ARGV[4]")+`
redis.pcall(ARGV[7], ARGV[6], ARGV[5])
return {1}
`)

// restorer carries the state of topics over.
type restorer struct {
	conn    *conn
	memory  *memory
	heads   *heads
	watcher *watcher
}

// Intervals implements journal.Restorer.
func (r *restorer) Intervals(ctx context.Context, topic string) ([]journal.Interval, error) {
	all, err := r.heads.intervals(ctx, r.conn.key.topic(topic))
	slices.Reverse(all)
	return all, err
}

// Restore implements journal.Restorer.
func (r *restorer) Restore(ctx context.Context, h journal.Head, remembered []journal.Interval) error {
	if err := errors.Join(ctx.Err(), r.memory.full()); err != nil {
		return err
	}
	return r.heads.swap(ctx, h.Topic, func(k topicKeys, stored headRecord) (bool, string, error) {
		next, news, err := journal.Restored(stored.Head, h)
		if err != nil || !news {
			return true, "", err
		}
		next.Version = newVersion(random())
		raw := packHead(next)
		args := []any{k.field, stored.revision, raw, maxTopicChanges, r.watcher.message(h.Topic), k.hints, r.conn.hintCommand()}
		for _, i := range remembered {
			args = append(args, journal.PackInterval(i))
		}
		names := []string{k.heads, k.intervals, k.changes, k.latest}
		done, now, err := swapped(r.conn.run(ctx, restoreScript, names, args...))
		if done && err == nil {
			if _, err = r.heads.learn(k, h.Topic, raw); err == nil {
				r.watcher.send(h.Topic)
			}
		}
		return done, now, err
	})
}
