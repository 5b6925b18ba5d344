package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// pollPartitions returns the partitions whose latest change is not the one that is known.
// Scripts that make a change store its number in a key.
func (w *watcher) pollPartitions(ctx context.Context, since map[int]uint64) (moved []int, failed error) {
	partitions := slices.Sorted(maps.Keys(since))
	step := max(len(partitions), 1)
	if w.conn.cluster {
		step = 1 // the keys of a command have to be in one slot
	}
	pipe := w.conn.client.Pipeline()
	var cmds []*redis.SliceCmd
	for some := range slices.Chunk(partitions, step) {
		names := make([]string, 0, 2*len(some))
		for _, n := range some {
			names = append(names, w.conn.key.partition(n, nameLatest), w.conn.key.partition(n, nameHistory))
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
			partition := partitions[i*step+n/2]
			w.histories.outdated(partition, func(history string) bool { return history != textOf(values[n+1]) })
			if cmp.Or(textOf(values[n]), "0") != strconv.FormatUint(since[partition], 10) {
				moved = append(moved, partition)
			}
		}
	}
	return moved, failed
}

// pollShards returns the shards with changes after the known one. It reads the known change
// of each shard, and the next if there is one. If the first of these is a different one, the
// known one was lost.
func (r *records) pollShards(ctx context.Context, since map[int]uint64) (changed []int, failed error) {
	groups := slots(slices.Collect(maps.Keys(since)))
	pipe := r.conn.client.Pipeline()
	cmds := make([]*redis.XStreamSliceCmd, len(groups))
	for slot, shards := range groups {
		names, after := make([]string, len(shards)), make([]string, len(shards))
		for i, shard := range shards {
			names[i], after[i] = r.conn.key.records(shard).changes, beforeChange(since[shard])
		}
		cmds[slot] = pipe.XRead(ctx, &redis.XReadArgs{Streams: append(names, after...), Count: 2, Block: -1})
	}
	_, _ = pipe.Exec(ctx) // each has its own error
	for slot, cmd := range cmds {
		streams, err := cmd.Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			failed = err
			continue
		}
		found := make(map[string][]redis.XMessage, len(streams))
		for _, stream := range streams {
			found[stream.Stream] = stream.Messages
		}
		for _, shard := range groups[slot] {
			if news(found[r.conn.key.records(shard).changes], since[shard]) {
				changed = append(changed, shard)
			}
		}
	}
	slices.Sort(changed)
	return changed, failed
}

// news reports whether a shard has changed since a known change. Found has the first two
// changes from that one on.
func news(found []redis.XMessage, since uint64) bool {
	if since == 0 {
		return len(found) > 0
	}
	return len(found) != 1 || found[0].ID != changeID(since)
}

// beforeChange returns the greatest id below that of a change.
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
