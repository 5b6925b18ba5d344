package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/journal"
)

const (
	// highWater is the percentage of the maxmemory of a Redis server above which nothing
	// new is stored any more.
	highWater = 90
	// memoryEvery is how often the hub asks Redis how full it is.
	memoryEvery = 2 * time.Second
)

// memory is how full Redis was when the hub last asked: the fullest of its masters.
type memory struct {
	conn       *conn
	used, most atomic.Int64 // bytes; most is 0 without a maxmemory
}

// Room implements subscriptions.Space.
func (r *records) Room(ctx context.Context) error { return errors.Join(ctx.Err(), r.memory.full()) }

// space returns the bytes of maxmemory that are free, and those under which nothing
// new is stored, as of a moment ago. False: Redis has no maxmemory.
func (m *memory) space() (free, least int64, ok bool) {
	used, most := m.used.Load(), m.most.Load()
	return max(most-used, 0), most - most/100*highWater, most > 0
}

// full returns an error that wraps journal.ErrFull if Redis is at its high water.
func (m *memory) full() error {
	used, most := m.used.Load(), m.most.Load()
	if !isFull(used, most) {
		return nil
	}
	return fmt.Errorf("%w: Redis uses %d MiB of its maxmemory of %d MiB, and the hub stores nothing new above %d %%; give it more memory, or keep notifications for a shorter time",
		journal.ErrFull, used>>20, most>>20, highWater)
}

func isFull(used, most int64) bool {
	return most > 0 && float64(used) > float64(most)*highWater/100
}

// watch asks Redis how full it is until ctx ends. If Redis does not answer, the last
// figures stay in force.
func (m *memory) watch(ctx context.Context) {
	for ctx.Err() == nil {
		m.look(ctx)
		clock.Sleep(ctx, memoryEvery)
	}
}

// look asks each master once.
func (m *memory) look(ctx context.Context) {
	infos, err := askMasters(ctx, m.conn, func(ctx context.Context, server redis.Cmdable, _ string) (string, error) {
		return server.Info(ctx, "memory").Result()
	})
	if err != nil {
		return
	}
	var used, most int64
	for _, info := range infos {
		if u, m := memoryOf(info); most == 0 || m > 0 && float64(u)/float64(m) > float64(used)/float64(most) {
			used, most = u, m
		}
	}
	m.used.Store(used)
	m.most.Store(most)
}

// memoryOf reads the memory section of INFO. A missing figure is 0.
func memoryOf(info string) (used, most int64) {
	fields := parseInfo(info)
	used, _ = strconv.ParseInt(fields["used_memory"], 10, 64)
	most, _ = strconv.ParseInt(fields["maxmemory"], 10, 64)
	return used, most
}
