package redisstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rshub/rshub/cluster"
)

// leases are the leases of the hubs on the shards, and the registry of the live hubs.
type leases struct {
	conn       *conn
	checks     *checks
	hubs       *hubs
	reconciler *reconciler
}

// nameHubs is the hash of the live hubs: id -> when the hub counts as dead and the
// time of its latest heartbeat, both in milliseconds, and its cluster.Node in
// JSON, with spaces between them.
const nameHubs = "hubs"

// nameAlerts is the hash of the partitions that a hub found unreconciled and that the others
// have to check: partition -> a random text for each alert. It expires after alertKept.
const nameAlerts = "alerts"

// nameOwners is the hash of the leases on the shards of one slot: shard -> the
// end of the lease in milliseconds, a space, and its owner. They are stored
// with the records of these shards, so that Redis has both or neither.
const nameOwners = "owners"

// The scripts about leases run even if Redis has no memory left, so that hubs on a full store
// still deliver. They use the clock of Redis.

// heartbeatScript stores that a hub is alive, and returns all live hubs. It writes only if a
// third of the time is over, or something changed. If a heartbeat has a time in the future, because
// the clock of Redis was set back since, its time begins now. It may run twice.
//
//	KEYS    1 the hash of the hubs, 2 alerts
//	ARGV    1 id, 2 how long it counts as alive, in milliseconds (0: it ends), 3 its node in JSON
//	returns the replication id of the server; number of alerts; each partition with
//	        its value; then for each live hub: time of the heartbeat in
//	        milliseconds, node
var heartbeatScript = newScript(bounded, theReplicationID+`
local t = redis.call('TIME')
local now, ttl = t[1] * 1000 + math.floor(t[2] / 1000), tonumber(ARGV[2])
local mine = redis.call('HGET', KEYS[1], ARGV[1])
if ttl == 0 then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  local til, node = string.match(mine or '', '^(%d+) %d+ (.*)$')
  if node ~= ARGV[3] or til - now < ttl * 2 / 3 then
    redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f %.0f ', now + ttl, now) .. ARGV[3])
  end
end
local out, all = redis.call('HGETALL', KEYS[2]), redis.call('HGETALL', KEYS[1])
table.insert(out, 1, tostring(#out / 2))
table.insert(out, 1, replid)
for i = 1, #all, 2 do
  local til, seen, node = string.match(all[i + 1], '^(%d+) (%d+) (.*)$')
  if til and tonumber(seen) > now then
    til, seen = now + til - seen, string.format('%.0f', now)
    redis.call('HSET', KEYS[1], all[i], string.format('%.0f ', til) .. seen .. ' ' .. node)
  end
  if til and tonumber(til) > now then
    out[#out + 1], out[#out + 2] = seen, node
  else
    redis.call('HDEL', KEYS[1], all[i])
  end
end
return out
`)

// ownersScript returns the owners of shards. It shortens leases that last too long, because the clock
// of Redis was set back since. It may run twice.
//
//	KEYS    1 the hash of the leases
//	ARGV    1 how long a lease may last from now, in milliseconds; 0: without limit; then shards
//	returns the owners in the order of the shards, '' where there is none
var ownersScript = newScript(bounded, `
local t = redis.call('TIME')
local now, most, out = t[1] * 1000 + math.floor(t[2] / 1000), tonumber(ARGV[1]), {}
for n, lease in ipairs(redis.call('HMGET', KEYS[1], unpack(ARGV, 2))) do
  local til, owner = string.match(lease or '', '^(%d+) (.*)$')
  if til and most > 0 and til - now > most then
    til = now + most
    redis.call('HSET', KEYS[1], ARGV[n + 1], string.format('%.0f ', til) .. owner)
  end
  out[n] = til and tonumber(til) > now and owner or ''
end
return out
`)

// leaseScript acquires leases for an owner, or renews the ones that it has. It may run
// twice.
//
//	KEYS    1 the hash of the leases
//	ARGV    1 owner, 2 how long they last in milliseconds, 3 '1': it may acquire shards without an owner; then shards
//	returns the shards on which the owner has a lease now
var leaseScript = newScript(bounded, `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local lease = string.format('%.0f ', now + ARGV[2]) .. ARGV[1]
local got, set = {}, {}
for n, old in ipairs(redis.call('HMGET', KEYS[1], unpack(ARGV, 4))) do
  local til, owner = string.match(old or '', '^(%d+) (.*)$')
  local lives = til and tonumber(til) > now
  if lives and owner == ARGV[1] or not lives and ARGV[3] == '1' then
    got[#got + 1], set[#set + 1], set[#set + 2] = ARGV[n + 3], ARGV[n + 3], lease
  end
end
if set[1] then redis.call('HSET', KEYS[1], unpack(set)) end
return got
`)

// releaseScript ends the leases that an owner has. It may run twice.
//
//	KEYS    1 the hash of the leases
//	ARGV    1 owner; then shards
//	returns nil
var releaseScript = newScript(bounded, `
for n, lease in ipairs(redis.call('HMGET', KEYS[1], unpack(ARGV, 2))) do
  if lease and string.match(lease, '^%d+ (.*)$') == ARGV[1] then redis.call('HDEL', KEYS[1], ARGV[n + 1]) end
end
`)

// Heartbeat implements cluster.Store. A hub whose store was emptied gets neither heartbeats
// nor leases, because it cannot store anything. A hub that starts later can.
func (l *leases) Heartbeat(ctx context.Context, self cluster.Node, ttl time.Duration) ([]cluster.Node, error) {
	if err := l.checks.gone(); err != nil && ttl > 0 {
		return nil, err
	}
	asked := time.Now()
	b, err := l.conn.beat(ctx, self, ttl)
	if err != nil {
		return nil, fmt.Errorf("storing the heartbeat of this hub: %w", err)
	}
	l.reconciler.hearAlerts(b.alerts)
	l.hubs.beat(asked, self.ID, b.replid, ttl, b.nodes)
	return b.nodes, nil
}

// registry is what heartbeatScript returns.
type registry struct {
	replid string
	alerts []string // each partition with its value
	nodes  []cluster.Node
}

// beat runs heartbeatScript. With a ttl of zero and no id it only reads.
func (c *conn) beat(ctx context.Context, self cluster.Node, ttl time.Duration) (registry, error) {
	node, err := json.Marshal(self)
	if err != nil {
		return registry{}, err
	}
	names := []string{c.key.nodes(nameHubs), c.key.nodes(nameAlerts)}
	v, err := c.run(ctx, heartbeatScript, names, self.ID, ttl.Milliseconds(), node).StringSlice()
	if err != nil {
		return registry{}, err
	}
	alerts, _ := strconv.Atoi(v[1])
	r := registry{replid: v[0], alerts: v[2 : 2+2*alerts]}
	for pair := range slices.Chunk(v[2+2*alerts:], 2) {
		seen, err := strconv.ParseInt(pair[0], 10, 64)
		var n cluster.Node
		if err = errors.Join(err, json.Unmarshal([]byte(pair[1]), &n)); err == nil && n.ID == "" {
			err = errors.New("it has no id")
		}
		if err != nil {
			return registry{}, fmt.Errorf("the entry of a hub in the hash %s of Redis cannot be read: %w; delete the hash, and the live hubs store it again", c.key.nodes(nameHubs), err)
		}
		n.SeenAt = time.UnixMilli(seen).UTC()
		r.nodes = append(r.nodes, n)
	}
	return r, nil
}

// owners returns the key of the hash with the lease on a shard.
func (k keys) owners(shard int) string { return k.slot(k.records(shard).tag, nameOwners) }

// call returns the call of a script for shards of one slot, with other arguments first.
func (l *leases) call(shards []int, args ...any) call {
	for _, shard := range shards {
		args = append(args, shard)
	}
	return call{[]string{l.conn.key.owners(shards[0])}, args}
}

// longestLease is how many leases of this hub a lease of another may last: hubs may have different
// settings for a while. A live owner renews its lease every third of its time.
const longestLease = 3

// Owners implements cluster.Store.
func (l *leases) Owners(ctx context.Context, shards []int) ([]string, error) {
	owner, most := make(map[int]string, len(shards)), (longestLease * l.reconciler.lease).Milliseconds()
	for of, cmd := range runEach(ctx, l.conn, ownersScript, slots(shards), func(of []int) call { return l.call(of, most) }) {
		ids, err := cmd.StringSlice()
		if err != nil {
			return nil, fmt.Errorf("reading the owners of shards: %w", err)
		}
		for n, shard := range of {
			owner[shard] = ids[n]
		}
	}
	owners := make([]string, len(shards))
	for i, shard := range shards {
		owners[i] = owner[shard]
	}
	return owners, nil
}

// Acquire implements cluster.Store.
func (l *leases) Acquire(ctx context.Context, owner string, shards []int, ttl time.Duration) ([]int, error) {
	got, _, err := l.lease(ctx, shards, owner, ttl, 1)
	return got, err
}

// Renew implements cluster.Store.
func (l *leases) Renew(ctx context.Context, owner string, shards []int, ttl time.Duration) (kept, lost []int, err error) {
	return l.lease(ctx, shards, owner, ttl, 0)
}

// lease returns on which of the shards the owner has a lease now, and on which it has not.
// Shards whose slot did not answer are in neither list.
func (l *leases) lease(ctx context.Context, shards []int, owner string, ttl time.Duration, acquire int) (has, hasNot []int, err error) {
	if err := l.checks.gone(); err != nil {
		return nil, nil, err
	}
	describe := func(of []int) call { return l.call(of, owner, ttl.Milliseconds(), acquire) }
	for of, cmd := range runEach(ctx, l.conn, leaseScript, slots(shards), describe) {
		got, cmdErr := cmd.StringSlice()
		if cmdErr != nil {
			err = fmt.Errorf("renewing leases on shards: %w", cmdErr)
			continue
		}
		for _, shard := range of {
			if slices.Contains(got, strconv.Itoa(shard)) {
				has = append(has, shard)
			} else {
				hasNot = append(hasNot, shard)
			}
		}
	}
	return has, hasNot, err
}

// Release implements cluster.Store.
func (l *leases) Release(ctx context.Context, owner string, shards []int) (err error) {
	for _, cmd := range runEach(ctx, l.conn, releaseScript, slots(shards), func(of []int) call { return l.call(of, owner) }) {
		if cmdErr := cmd.Err(); cmdErr != nil && !errors.Is(cmdErr, redis.Nil) {
			err = fmt.Errorf("releasing leases on shards: %w", cmdErr)
		}
	}
	return err
}
