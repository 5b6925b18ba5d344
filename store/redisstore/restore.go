package redisstore

import (
	"context"
	"errors"
	"slices"

	"github.com/rshub/rshub/journal"
)

// restoreScript stores the head record of a topic, with its remembered intervals.
//
//	KEYS    as for announce; 4 intervals
//	ARGV    as for announce; 8.. packed intervals, oldest first
//	returns as ifHeadStands
var restoreScript = newScript(grows, ifHeadStands+`
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
redis.call('DEL', KEYS[4])
for i = 8, #ARGV do redis.call('LPUSH', KEYS[4], ARGV[i]) end
`+announce)

// restorer carries the state of topics over from another store.
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
	err := r.heads.swap(ctx, h.Topic, restoreScript, func(k topicKeys, stored headRecord) (string, call, error) {
		next, news, err := journal.Restored(stored.Head, h)
		if err == nil && !news {
			err = errUnchanged
		}
		next.Version = journal.NewVersion()
		raw := packHead(next)
		c := r.watcher.announcing(k, stored, raw).with([]string{k.intervals})
		for _, i := range remembered {
			c.args = append(c.args, journal.PackInterval(i))
		}
		return raw, c, err
	})
	if err == nil {
		r.watcher.hints.Send(h.Topic)
	}
	return err
}
