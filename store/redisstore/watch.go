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

	"github.com/rshub/rshub/journal"
)

// changesScript returns the topics that got an entry after a time.
//
//	KEYS    1 changes, 2 heads
//	ARGV    1 since, in microseconds, 2 most changes that are kept
//	returns {time to ask with next, 1 if all topics are to be told, else 0; then the
//	        head records of those that got an entry}
var changesScript = newScript(reads, `
local last = redis.call('ZRANGE', KEYS[1], 0, 0, 'REV', 'WITHSCORES')
if #last == 0 then return {'0', 1} end
local out = {string.format('%.0f', last[2]), 0}
local since = tonumber(ARGV[1])
if since == 0 or since > tonumber(last[2]) then
  out[2] = 1
  return out
end
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then
  local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
  if since < tonumber(first[2]) then
    out[2] = 1
    return out
  end
end
for _, topic in ipairs(redis.call('ZRANGE', KEYS[1], '(' .. ARGV[1], '+inf', 'BYSCORE')) do
  out[#out + 1] = redis.call('HGET', KEYS[2], topic) or ''
end
return out
`)

// Changes implements journal.Watcher. Where since is over 16,384 topics behind,
// or from before Redis lost its tail, it returns all topics of the partition.
func (s *Store) Changes(ctx context.Context, partition int, since uint64) (topics []string, next uint64, err error) {
	names := []string{s.key.partition(partition, nameChanges), s.key.partition(partition, nameHeads)}
	v, err := s.run(ctx, changesScript, names, strconv.FormatUint(since, 10), maxTopicChanges).Slice()
	if err != nil {
		return nil, 0, err
	}
	text, _ := v[0].(string)
	if next, err = strconv.ParseUint(text, 10, 64); err != nil {
		return nil, 0, fmt.Errorf("the changes of partition %d: %w", partition, err)
	}
	var heads []string
	for _, raw := range v[2:] {
		raw, _ := raw.(string)
		heads = append(heads, raw)
	}
	if v[1] == int64(1) {
		// The value was taken first: what changes from here on is told again.
		if heads, err = s.client.HVals(ctx, names[1]).Result(); err != nil {
			return nil, 0, err
		}
	}
	for _, raw := range heads {
		h, err := openHead(raw, "")
		if err != nil {
			return nil, 0, fmt.Errorf("a topic of partition %d: %w", partition, err)
		}
		if h.Topic != "" {
			topics = append(topics, h.Topic)
		}
	}
	return topics, next, nil
}

const (
	// hintBuffer is how many hints wait for one listener. More are lost.
	hintBuffer = 256
	// senderSize is the length of the name of a store in its hints.
	senderSize = 8
)

// hints are the channels of those who listen, and what is sent to other hubs.
type hints struct {
	sender string // begins what this store publishes, so that it knows its own

	mu    sync.Mutex
	chans map[chan string]struct{}
	// wanted is closed when somebody listens for the first time.
	wanted chan struct{}
	begin  sync.Once
}

func newHints() *hints {
	sender := binary.BigEndian.AppendUint64(nil, random())
	return &hints{sender: string(sender), chans: map[chan string]struct{}{}, wanted: make(chan struct{})}
}

// message is the hint of a topic for other hubs.
func (h *hints) message(topic string) string { return h.sender + topic }

// hear hands on the hint of another hub.
func (h *hints) hear(message string) {
	if len(message) > senderSize && message[:senderSize] != h.sender {
		h.send(message[senderSize:])
	}
}

func (h *hints) send(topic string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ch := range h.chans {
		select {
		case ch <- topic:
		default:
		}
	}
}

// Hints implements journal.Watcher. The store's own appends are told at once;
// those of other hubs come through Redis, where the first call begins to listen.
func (s *Store) Hints(ctx context.Context) <-chan string {
	ch := make(chan string, hintBuffer)
	h := s.hints
	h.mu.Lock()
	h.chans[ch] = struct{}{}
	h.mu.Unlock()
	context.AfterFunc(ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.chans, ch)
		close(ch)
	})
	h.begin.Do(func() { close(h.wanted) })
	return ch
}

// publish is the command that sends a hint.
func (s *Store) publish() string {
	if s.cluster {
		return "SPUBLISH"
	}
	return "PUBLISH"
}

const (
	// relisten is how long to wait before listening anew after a connection
	// broke; recheck is how often is looked which server has which partition, and
	// whether the connections live.
	relisten = time.Second
	recheck  = 5 * time.Second
)

// listen hears the hints of the other hubs until ctx ends, from when somebody
// wants them. What comes while a connection is broken is lost; the changes tell
// it.
func (s *Store) listen(ctx context.Context) {
	select {
	case <-s.hints.wanted:
	case <-ctx.Done():
	}
	for ctx.Err() == nil {
		if servers, err := s.servers(ctx); err == nil {
			s.hear(ctx, servers)
		}
		select {
		case <-ctx.Done():
		case <-time.After(relisten):
		}
	}
}

// servers returns the channels of the partitions by the server that has them. In
// a Cluster, a sharded channel is only heard at the server of its slot, and one
// connection hears only one server.
func (s *Store) servers(ctx context.Context) (map[redis.UniversalClient][]string, error) {
	masters, err := s.masters(ctx)
	out := make(map[redis.UniversalClient][]string, len(masters))
	for server, of := range masters {
		for _, n := range of {
			out[server] = append(out[server], s.key.partition(n, nameHints))
		}
	}
	return out, err
}

// masters returns the partitions by the server that has them.
func (s *Store) masters(ctx context.Context) (map[redis.UniversalClient][]int, error) {
	out := map[redis.UniversalClient][]int{}
	cluster, ok := s.client.(*redis.ClusterClient)
	for n := range journal.Partitions {
		server := s.client
		if ok {
			master, err := cluster.MasterForKey(ctx, s.key.partition(n, nameHints))
			if err != nil {
				return nil, err
			}
			server = master
		}
		out[server] = append(out[server], n)
	}
	return out, nil
}

// hear hears channels at their servers, until a connection breaks, a channel
// moved to another server, or ctx ends.
func (s *Store) hear(ctx context.Context, servers map[redis.UniversalClient][]string) {
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
			if s.subscribe(ctx, sub, channels) == nil {
				s.hearOne(ctx, sub)
			}
		})
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(recheck):
		}
		if now, err := s.servers(ctx); err != nil || !sameServers(now, servers) {
			return
		}
		for _, sub := range subs {
			_ = sub.Ping(ctx) // what is not answered ends hearOne
		}
	}
}

// subscribe asks for channels over one connection. A server of a Cluster wants
// those of each slot in a command of their own.
func (s *Store) subscribe(ctx context.Context, sub *redis.PubSub, channels []string) error {
	if !s.cluster {
		return sub.Subscribe(ctx, channels...)
	}
	for _, channel := range channels {
		if err := sub.SSubscribe(ctx, channel); err != nil {
			return err
		}
	}
	return nil
}

// hearOne hears one connection until it breaks.
func (s *Store) hearOne(ctx context.Context, sub *redis.PubSub) {
	for {
		got, err := sub.ReceiveTimeout(ctx, 2*recheck)
		if err != nil {
			return
		}
		switch got := got.(type) {
		case *redis.Message:
			s.hints.hear(got.Payload)
		case *redis.Subscription:
			if got.Kind == "sunsubscribe" {
				return // its slot moved
			}
		}
	}
}

// sameServers tells whether the same servers have the same channels.
func sameServers(a, b map[redis.UniversalClient][]string) bool {
	return maps.EqualFunc(a, b, slices.Equal[[]string])
}
