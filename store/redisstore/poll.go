package redisstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// Poll asks about many partitions and shards at once what Changes and Changed
// would be asked about each: by partition, and by shard, with which value these
// were asked last. It returns those of which there is something new, or of which
// the value is lost. A hub with nothing to do asks all of them in nine commands
// where Redis is one server; a Cluster wants one for each partition instead, all
// in one round trip.
//
// An error says that some could not be asked; the others are in the lists.
func (s *Store) Poll(ctx context.Context, partitions, shards map[int]uint64) (moved, changed []int, err error) {
	moved, err1 := s.pollPartitions(ctx, partitions)
	changed, err2 := s.pollShards(ctx, shards)
	if err = errors.Join(err1, err2); err != nil {
		err = fmt.Errorf("asking what changed: %w", err)
	}
	return moved, changed, err
}

// pollPartitions compares the latest changes, which the scripts that make changes
// store beside them, with what was known.
func (s *Store) pollPartitions(ctx context.Context, since map[int]uint64) (moved []int, failed error) {
	partitions := slices.Sorted(maps.Keys(since))
	step := max(len(partitions), 1)
	if s.cluster {
		step = 1 // no command takes keys of two slots
	}
	pipe := s.client.Pipeline()
	var cmds []*redis.SliceCmd
	for some := range slices.Chunk(partitions, step) {
		names := make([]string, 0, 2*len(some))
		for _, n := range some {
			names = append(names, s.key.partition(n, nameLatest), s.key.partition(n, nameHistory))
		}
		cmds = append(cmds, pipe.MGet(ctx, names...))
	}
	_, _ = pipe.Exec(ctx) // each has its own error
	for i, cmd := range cmds {
		values, err := cmd.Result()
		if err != nil {
			failed = err
			continue
		}
		for n := 0; n+1 < len(values); n += 2 {
			latest, partition := "0", partitions[i*step+n/2]
			if text, ok := values[n].(string); ok {
				latest = text
			}
			history, _ := values[n+1].(string)
			if h := s.histories.of[partition].settled.Load(); h != nil && *h != history {
				s.histories.doubt(partition, h)
			}
			if latest != strconv.FormatUint(since[partition], 10) {
				moved = append(moved, partition)
			}
		}
	}
	return moved, failed
}

// pollShards reads of each shard the change that is known, and the next if there
// is one. Where the first of these is another, the known one was lost.
func (s *Store) pollShards(ctx context.Context, since map[int]uint64) (changed []int, failed error) {
	var bySlot [recordSlots][]int
	for shard := range since {
		bySlot[shard%recordSlots] = append(bySlot[shard%recordSlots], shard)
	}
	pipe := s.client.Pipeline()
	var cmds [recordSlots]*redis.XStreamSliceCmd
	for slot, shards := range bySlot {
		if len(shards) == 0 {
			continue
		}
		names, after := make([]string, len(shards)), make([]string, len(shards))
		for i, shard := range shards {
			names[i], after[i] = s.key.records(shard).changes, beforeChange(since[shard])
		}
		cmds[slot] = pipe.XRead(ctx, &redis.XReadArgs{Streams: append(names, after...), Count: 2, Block: -1})
	}
	_, _ = pipe.Exec(ctx) // each has its own error
	for slot, cmd := range cmds {
		if cmd == nil {
			continue
		}
		streams, err := cmd.Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			failed = err
			continue
		}
		found := make(map[string][]redis.XMessage, len(streams))
		for _, stream := range streams {
			found[stream.Stream] = stream.Messages
		}
		for _, shard := range bySlot[slot] {
			if news(found[s.key.records(shard).changes], since[shard]) {
				changed = append(changed, shard)
			}
		}
	}
	slices.Sort(changed)
	return changed, failed
}

// news tells whether there is more than what is known, given the first two changes
// from that on.
func news(found []redis.XMessage, since uint64) bool {
	if since == 0 {
		return len(found) > 0
	}
	return len(found) != 1 || found[0].ID != changeID(since)
}

// beforeChange is the greatest id below that of a change.
func beforeChange(value uint64) string {
	switch ms, n := value>>changeShift, value&(1<<changeShift-1); {
	case n > 0:
		return fmt.Sprintf("%d-%d", ms, n-1)
	case ms > 0:
		return fmt.Sprintf("%d-%d", ms-1, uint64(math.MaxUint64))
	default:
		return "0-0"
	}
}
