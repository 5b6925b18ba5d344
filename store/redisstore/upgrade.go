package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/rshub/rshub/cluster"
	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/journal"
)

// An upgrade of the format is finished in two steps. First the schema changes, so that no
// hub of an older version can open the store any more. One that opened it a moment before
// shows itself within the lease; then the schema goes back. Only after that does the field
// writes change, which every hub reads each second. So no hub of an older version meets a
// value that it cannot read.

// upgradeScript writes both fields of the hash, unless another hub has finished the upgrade
// meanwhile: that stays.
//
//	KEYS    1 the hash of the store
//	ARGV    1 id of the store, 2 schema, 3 writes, 4 writes of a finished upgrade
//	returns 1; 0: it is another store
var upgradeScript = newScript(bounded, `
local v = redis.call('HMGET', KEYS[1], 'id', 'writes')
if v[1] ~= ARGV[1] then return 0 end
if v[2] ~= ARGV[4] then redis.call('HSET', KEYS[1], 'schema', ARGV[2], 'writes', ARGV[3]) end
return 1
`)

// upgrader implements cluster.Upgrader.
type upgrader struct {
	conn   *conn
	checks *checks
	// lease is how long a hub may be without a heartbeat.
	lease time.Duration
	mu    sync.Mutex // locked while an upgrade is being finished
}

// Pending implements cluster.Upgrader.
func (u *upgrader) Pending() bool { return u.checks.format() == journal.Previous }

// Formats implements cluster.Upgrader.
func (u *upgrader) Formats(ctx context.Context) (cluster.Formats, error) {
	if err := u.checks.same(ctx); err != nil {
		return cluster.Formats{}, err
	}
	text, err := u.conn.client.HGet(ctx, u.conn.key.meta(nameStore), "schema").Result()
	if err != nil {
		return cluster.Formats{}, fmt.Errorf("asking Redis for the schema of the store: %w", err)
	}
	f := cluster.Formats{Written: schema, Newest: schema, Closed: text == strconv.Itoa(schema)}
	if u.Pending() {
		f.Written = previous
	}
	live, err := u.conn.beat(ctx, cluster.Node{}, 0)
	if err != nil {
		return cluster.Formats{}, fmt.Errorf("asking Redis for the live hubs: %w", err)
	}
	f.Older = slices.DeleteFunc(live.nodes, func(n cluster.Node) bool { return n.Format >= schema })
	return f, nil
}

// FinishUpgrade implements cluster.Upgrader. It takes as long as a lease.
func (u *upgrader) FinishUpgrade(ctx context.Context) error {
	if !u.mu.TryLock() {
		return cluster.ErrUpgradeRuns
	}
	defer u.mu.Unlock()
	f, err := u.Formats(ctx)
	if err == nil {
		err = f.Refused()
	}
	if err != nil || !f.Pending() {
		return err
	}
	if err := u.set(ctx, schema, previous); err != nil {
		return err
	}
	if !clock.Sleep(ctx, u.lease) {
		return ctx.Err() // older versions cannot open the store; the next call goes on
	}
	if f, err = u.Formats(ctx); err != nil {
		return err
	}
	if refused := f.Refused(); refused != nil {
		return errors.Join(refused, u.set(ctx, previous, previous))
	}
	return u.set(ctx, schema, schema)
}

// set stores both fields, and has this hub act on them at once.
func (u *upgrader) set(ctx context.Context, may, writes int) error {
	if err := u.checks.writable(); err != nil {
		return err
	}
	stored, err := u.conn.run(ctx, upgradeScript, []string{u.conn.key.meta(nameStore)}, u.checks.id, may, writes, schema).Int()
	if err != nil {
		return fmt.Errorf("storing the format of the store: %w", err)
	}
	if stored == 0 {
		return errEmptied
	}
	return u.checks.same(ctx)
}
