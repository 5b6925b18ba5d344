package redisstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/journal"
)

// changesScript returns the topics that got an entry after a time.
//
//	KEYS    1 changes, 2 heads
//	ARGV    1 since, in microseconds, 2 most changes that are kept
//	returns time to ask with next; then topic and head record of each topic that got an
//	        entry, or of all topics if that is not known
var changesScript = newScript(reads, `
local last = redis.call('ZRANGE', KEYS[1], 0, 0, 'REV', 'WITHSCORES')
local since, next, known = tonumber(ARGV[1]), tonumber(last[2] or 0), false
if since > 0 and since <= next then
  local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
  known = since >= tonumber(first[2]) or redis.call('ZCARD', KEYS[1]) < tonumber(ARGV[2])
end
local out = {string.format('%.0f', next)}
if not known then
  for _, v in ipairs(redis.call('HGETALL', KEYS[2])) do out[#out + 1] = v end
  return out
end
for _, topic in ipairs(redis.call('ZRANGE', KEYS[1], '(' .. ARGV[1], '+inf', 'BYSCORE')) do
  out[#out + 1] = topic
  out[#out + 1] = redis.call('HGET', KEYS[2], topic) or ''
end
return out
`)

// Changes implements journal.Watcher. If since is over 16,384 topics behind, or from
// before Redis lost its tail, it returns all topics of the partition.
func (w *watcher) Changes(ctx context.Context, partition int, since uint64) (topics []string, next uint64, err error) {
	if err := journal.CheckPartition(partition); err != nil {
		return nil, 0, err
	}
	names := []string{w.conn.key.partition(partition, nameChanges), w.conn.key.partition(partition, nameHeads)}
	v, err := w.conn.run(ctx, changesScript, names, strconv.FormatUint(since, 10), maxTopicChanges).StringSlice()
	if err != nil {
		return nil, 0, err
	}
	if next, err = strconv.ParseUint(v[0], 10, 64); err != nil {
		return nil, 0, fmt.Errorf("the changes of partition %d: %w", partition, err)
	}
	for pair := range slices.Chunk(v[1:], 2) {
		h, err := openHead(pair[1], "")
		if err != nil {
			if err := leaveOut(w.lister.unreadable, idOf(pair[0]), err); err != nil {
				return nil, 0, fmt.Errorf("a topic of partition %d: %w", partition, err)
			}
			continue
		}
		if h.Topic != "" {
			topics = append(topics, h.Topic)
		}
	}
	return topics, next, nil
}

// senderSize is the length, in bytes, of the sender of a hint.
const senderSize = 8

// watcher reports which topics have changed, to listeners in this hub and to other hubs.
type watcher struct {
	conn      *conn
	histories *histories
	lister    *lister // for its unreadable
	sender    string  // begins the hints of this store, so that it recognises its own

	hints journal.Broadcast // to the listeners in this process
	// wanted is closed by the first call of Hints.
	wanted chan struct{}
	begin  sync.Once
}

func newWatcher(c *conn, histories *histories, l *lister) *watcher {
	sender := binary.BigEndian.AppendUint64(nil, journal.Random())
	return &watcher{conn: c, histories: histories, lister: l, sender: string(sender), wanted: make(chan struct{})}
}

// message returns the hint about a topic for other hubs.
func (w *watcher) message(topic string) string { return w.sender + topic }

// receive passes a hint of another hub to the listeners in this process.
func (w *watcher) receive(message string) {
	if len(message) > senderSize && message[:senderSize] != w.sender {
		w.hints.Send(journal.Hint{Topic: message[senderSize:]})
	}
}

// Hints implements journal.Watcher. Hints of the store's own appends come at once;
// those of other hubs come through Redis, where the first call begins to listen.
func (w *watcher) Hints(ctx context.Context, f func(journal.Hint)) {
	w.hints.Hints(ctx, f)
	w.begin.Do(func() { close(w.wanted) })
}

const (
	// relisten is how long to wait before listening again after a connection broke.
	// recheck is how often to check which server has which partition, and whether the
	// connections still work.
	relisten = time.Second
	recheck  = 5 * time.Second
)

// listen receives the hints of other hubs from the first call of Hints until ctx ends.
// Hints that come while a connection is broken are lost. Changes finds those topics.
func (w *watcher) listen(ctx context.Context) {
	select {
	case <-w.wanted:
	case <-ctx.Done():
	}
	for ctx.Err() == nil {
		if servers, err := w.servers(ctx); err == nil {
			w.hear(ctx, servers)
		}
		clock.Sleep(ctx, relisten)
	}
}

// servers returns the channels of the partitions by the server that has them. In a
// Cluster, only the server of its slot delivers the messages of a sharded channel, and one
// connection reaches only one server.
func (w *watcher) servers(ctx context.Context) (map[redis.UniversalClient][]string, error) {
	masters, err := w.conn.masters(ctx)
	out := make(map[redis.UniversalClient][]string, len(masters))
	for server, of := range masters {
		for _, n := range of {
			out[server] = append(out[server], w.conn.key.partition(n, nameHints))
		}
	}
	return out, err
}

// hear receives the hints from channels at their servers, until a connection breaks, a
// channel moves to another server, or ctx ends.
func (w *watcher) hear(ctx context.Context, servers map[redis.UniversalClient][]string) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	var subs []*redis.PubSub
	for server, channels := range servers {
		sub := server.Subscribe(ctx)
		subs = append(subs, sub)
		context.AfterFunc(ctx, func() { _ = sub.Close() })
		all.Go(func() {
			defer cancel()
			if w.conn.subscribe(ctx, sub, channels...) == nil {
				w.hearOne(ctx, sub)
			}
		})
	}
	for clock.Sleep(ctx, recheck) {
		if now, err := w.servers(ctx); err != nil || !sameServers(now, servers) {
			return
		}
		for _, sub := range subs {
			_ = sub.Ping(ctx) // hearOne ends if there is no answer
		}
	}
}

// subscribe subscribes to channels over one connection. A server of a Cluster needs one
// command for each slot.
func (c *conn) subscribe(ctx context.Context, sub *redis.PubSub, channels ...string) error {
	if !c.cluster {
		return sub.Subscribe(ctx, channels...)
	}
	for _, channel := range channels {
		if err := sub.SSubscribe(ctx, channel); err != nil {
			return err
		}
	}
	return nil
}

// hearOne receives from one connection until it breaks.
func (w *watcher) hearOne(ctx context.Context, sub *redis.PubSub) {
	for {
		got, err := sub.ReceiveTimeout(ctx, 2*recheck)
		if err != nil {
			return
		}
		switch got := got.(type) {
		case *redis.Message:
			w.receive(got.Payload)
		case *redis.Subscription:
			if got.Kind == "sunsubscribe" {
				return // its slot moved
			}
		}
	}
}

// sameServers reports whether the same servers have the same channels.
func sameServers(a, b map[redis.UniversalClient][]string) bool {
	return maps.EqualFunc(a, b, slices.Equal[[]string])
}
