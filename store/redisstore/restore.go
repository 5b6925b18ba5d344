package redisstore

import (
	"context"
	"errors"
	"fmt"
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
`+theTime+announce)

// refillScript stores an entry of another store. Restore stores its head later.
//
//	KEYS    1 entries, 2 ids, 3 body if it is in chunks
//	ARGV    1 notification id, 2 what ids has of it, 3 position-nonce, 4 packed entry,
//	        5 size, 6 body, empty: it is in chunks, 7 number of chunks
//	returns 1 it is stored; 0 it was before; 2 the chunks are gone
var refillScript = newScript(grows, `
if redis.call('HEXISTS', KEYS[2], ARGV[1]) == 1 then return 0 end
if ARGV[6] ~= '' then
  redis.call('XADD', KEYS[1], ARGV[3], 'e', ARGV[4], 's', ARGV[5], 'b', ARGV[6])
else
  if redis.call('HLEN', KEYS[3]) ~= tonumber(ARGV[7]) then return 2 end
  redis.call('XADD', KEYS[1], ARGV[3], 'e', ARGV[4], 's', ARGV[5], 'c', ARGV[7])
  redis.call('PERSIST', KEYS[3])
end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
return 1
`)

// restorer moves topics from and to another store.
type restorer struct {
	conn     *conn
	memory   *memory
	heads    *heads
	watcher  *watcher
	appender *appender
}

// Intervals implements journal.Restorer.
func (r *restorer) Intervals(ctx context.Context, topic string) ([]journal.Interval, error) {
	all, err := r.heads.intervals(ctx, r.conn.key.topic(topic))
	slices.Reverse(all)
	return all, err
}

// Refill implements journal.Restorer. Each entry is a step of its own.
func (r *restorer) Refill(ctx context.Context, topic string, entries []journal.Entry) (added int, err error) {
	if err := errors.Join(ctx.Err(), r.memory.full()); err != nil {
		return 0, err
	}
	k := r.conn.key.topic(topic)
	ids := make([]string, 0, len(entries))
	for _, e := range entries {
		ids = append(ids, string(e.ID[:]))
	}
	places, err := r.conn.client.HMGet(ctx, k.ids, ids...).Result()
	if err != nil {
		return 0, err
	}
	checked := false
	for i, e := range entries {
		if places[i] != nil {
			continue
		}
		if !checked {
			h, err := r.heads.read(ctx, k, topic)
			if err == nil {
				err = journal.Refillable(h.Head, e.Position)
			}
			if err != nil {
				return added, err
			}
			checked = true
		}
		if err := r.refill(ctx, k, e); err != nil {
			return added, fmt.Errorf("storing notification %v: %w", e.ID, err)
		}
		added++
	}
	return added, nil
}

func (r *restorer) refill(ctx context.Context, k topicKeys, e journal.Entry) error {
	names := []string{k.entries, k.ids}
	body, chunks := encodeBody(e.Body), 0
	if len(body) > chunkSize {
		var err error
		if chunks, err = r.appender.writeChunks(ctx, e.ID, body); err != nil {
			return err
		}
		body, names = nil, append(names, r.conn.key.body(e.ID))
	}
	done, err := r.conn.run(ctx, refillScript, names, e.ID[:], idValue(k, e), streamID(e.Anchor()), journal.PackEntry(e), e.Size, body, chunks).Int()
	if err == nil && done == 2 {
		err = errChunks
	}
	return err
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
		raw := r.heads.pack(next)
		c := r.watcher.announcing(k, stored, raw).with([]string{k.intervals})
		for _, i := range remembered {
			c.args = append(c.args, journal.PackInterval(i))
		}
		return raw, c, err
	})
	if err == nil {
		r.watcher.hints.Send(journal.Hint{Topic: h.Topic})
	}
	return err
}
