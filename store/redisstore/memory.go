package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/journal"
)

const (
	// highWater is the part of a Redis's maxmemory, in percent, over which nothing
	// new is stored any more.
	highWater = 90
	// memoryEvery is how often Redis is asked how full it is.
	memoryEvery = 2 * time.Second
)

// memory is how full Redis was when the hub asked last: the fullest of its masters.
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
	return fmt.Errorf("%w: Redis holds %d MiB of the %d MiB of its maxmemory, and nothing new is stored over %d %%; give it more memory, or keep notifications for a shorter time",
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
	var mu sync.Mutex
	var used, most int64
	err := m.conn.eachMaster(ctx, func(ctx context.Context, server redis.Cmdable, _ string) error {
		info, err := server.Info(ctx, "memory").Result()
		if err != nil {
			return err
		}
		u, m := memoryOf(info)
		mu.Lock()
		defer mu.Unlock()
		if most == 0 || m > 0 && float64(u)/float64(m) > float64(used)/float64(most) {
			used, most = u, m
		}
		return nil
	})
	if err == nil {
		m.used.Store(used)
		m.most.Store(most)
	}
}

// memoryOf reads the memory section of INFO. A figure that is missing is 0.
func memoryOf(info string) (used, most int64) {
	fields := parseInfo(info)
	used, _ = strconv.ParseInt(fields["used_memory"], 10, 64)
	most, _ = strconv.ParseInt(fields["maxmemory"], 10, 64)
	return used, most
}
