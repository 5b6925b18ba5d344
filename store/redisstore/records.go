package redisstore

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/seal"
	"github.com/rshub/rshub/subscriptions"
)

// records stores the subscriptions and their requests.
type records struct {
	conn    *conn
	checks  *checks
	memory  *memory
	sealing *seal.Keys
	reads   bool // Options.Reads
	// unreadable is Options.Unreadable.
	unreadable func(id uuid.UUID, why error)
}

// stored has the values that hashes of one slot have for one id; "" stands for none. The
// values of a record are in the order of recordKeys.values.
type stored [3]string

const (
	storedCursor = iota
	storedSub
	storedRequest
)

// readScript reads values from hashes, all as they were at one moment.
//
//	KEYS    the hashes, 3 at most
//	ARGV    the ids, readMax at most
//	returns for each hash a list of values in the order of the ids, nil where there is none
var readScript = newScript(reads, `
local out = {}
for n, key in ipairs(KEYS) do out[n] = redis.call('HMGET', key, unpack(ARGV)) end
return out
`)

// readMax is how many records one call of a script reads or writes. Lua accepts a few
// thousand arguments, and other clients wait during the call.
const readMax = 500

// replaceScript and requestScript store a record if it is still the one that was read.
// RequestScript is for changes that need room (subscriptions.Grows). They compare the
// cursor too, so that no cursor goes back (invariant 3). The token identifies a call that
// is repeated because its answer was lost.
//
//	KEYS    1 cursors, 2 subscriptions, 3 requests, 4 changes, 5 attempts of the subscription
//	ARGV    1 id; 2, 3, 4 the cursor, subscription and request that were read; 5, 6, 7 the new ones, '' where there is none;
//	        8 token, '' if Changed does not report it; 9 how many changes are kept; 10 how many attempts are kept; then attempts to add
//	returns 1; 0: the record was changed meanwhile, and nothing was stored
var (
	replaceScript = newScript(bounded, replace)
	requestScript = newScript(grows, replace)
)

const replace = `
for n = 1, 3 do
  if (redis.call('HGET', KEYS[n], ARGV[1]) or '') ~= ARGV[n + 1] then
    if ARGV[8] == '' then return 0 end
    for _, change in ipairs(redis.call('XREVRANGE', KEYS[4], '+', '-', 'COUNT', 32)) do
      if change[2][4] == ARGV[8] then return 1 end
    end
    return 0
  end
end
for n = 1, 3 do
  if ARGV[n + 4] == '' then
    redis.call('HDEL', KEYS[n], ARGV[1])
  elseif ARGV[n + 4] ~= ARGV[n + 1] then
    redis.call('HSET', KEYS[n], ARGV[1], ARGV[n + 4])
  end
end
if ARGV[6] == '' then redis.call('DEL', KEYS[5]) end
if ARGV[8] ~= '' then redis.call('XADD', KEYS[4], 'MAXLEN', '~', ARGV[9], '*', 'i', ARGV[1], 't', ARGV[8]) end
if ARGV[11] then
  redis.call('RPUSH', KEYS[5], unpack(ARGV, 11))
  redis.call('LTRIM', KEYS[5], -ARGV[10], -1)
end
return 1
`

// Get implements subscriptions.Registry.
func (r *records) Get(ctx context.Context, id uuid.UUID) (subscriptions.Record, error) {
	v, err := r.read(ctx, id)
	if err != nil {
		return subscriptions.Record{}, err
	}
	return r.unpackRecord(id, v)
}

// read returns the values of one record.
func (r *records) read(ctx context.Context, id uuid.UUID) (stored, error) {
	values, err := r.conn.read(ctx, r.conn.key.recordsOf(id).values(), []uuid.UUID{id})
	if err != nil {
		return stored{}, fmt.Errorf("reading subscription %v: %w", id, err)
	}
	return values[0], nil
}

// read returns the values that hashes of one slot have for some ids.
func (c *conn) read(ctx context.Context, hashes []string, ids []uuid.UUID) ([]stored, error) {
	args := make([]any, len(ids))
	for i := range ids {
		args[i] = ids[i][:]
	}
	return readReply(c.run(ctx, readScript, hashes, args...), len(ids))
}

// readReply reads what readScript returned for n ids.
func readReply(cmd *redis.Cmd, n int) ([]stored, error) {
	lists, err := cmd.Slice()
	if err != nil {
		return nil, err
	}
	out := make([]stored, n)
	for k, list := range lists {
		values, _ := list.([]any)
		for i, v := range values {
			out[i][k] = textOf(v)
		}
	}
	return out, nil
}

// unpackRecord reads the values of a record. With an error it returns what it could read.
// Its errors wrap journal.ErrPacked.
func (r *records) unpackRecord(id uuid.UUID, v stored) (rec subscriptions.Record, err error) {
	rec.Subscription, err = r.unpackSubscription(id, v)
	if v[storedRequest] != "" {
		request, requestErr := subscriptions.UnpackRequest([]byte(v[storedRequest]), r.sealing)
		if requestErr == nil {
			rec.Request = &request
		} else {
			err = cmp.Or(err, fmt.Errorf("subscription %v: %w", id, requestErr))
		}
	}
	return rec, err
}

// unpackSubscription returns a subscription with its cursor; nil: there is none.
func (r *records) unpackSubscription(id uuid.UUID, v stored) (*subscriptions.Subscription, error) {
	if v[storedSub] == "" {
		return nil, nil
	}
	sub, err := subscriptions.UnpackSubscription([]byte(v[storedSub]), r.sealing)
	if err == nil {
		sub.Cursor, err = journal.UnpackCursor([]byte(v[storedCursor]))
	}
	if err != nil {
		return nil, fmt.Errorf("subscription %v: %w", id, err)
	}
	return &sub, nil
}

// packRecord returns the values of rec.
func (r *records) packRecord(rec subscriptions.Record) (v stored) {
	if rec.Subscription != nil {
		v[storedSub] = string(subscriptions.PackSubscription(*rec.Subscription, r.sealing))
		v[storedCursor] = string(journal.PackCursor(rec.Subscription.Cursor))
	}
	if rec.Request != nil {
		v[storedRequest] = string(subscriptions.PackRequest(*rec.Request, r.sealing))
	}
	return v
}

// Update implements subscriptions.Registry. At the high water it refuses changes that need
// room (subscriptions.Grows). Until memory.watch notices the high water, Redis refuses them.
func (r *records) Update(ctx context.Context, id uuid.UUID, change func(subscriptions.Record) (subscriptions.Record, error)) (subscriptions.Record, error) {
	if err := r.checks.writable(); err != nil {
		return subscriptions.Record{}, err
	}
	for tries := 1; ; tries++ {
		was, err := r.read(ctx, id)
		if err != nil {
			return subscriptions.Record{}, err
		}
		next, grown, err := r.changed(id, was, change)
		if err != nil {
			return subscriptions.Record{}, err
		}
		script := replaceScript
		if grown {
			if err := r.memory.full(); err != nil {
				return subscriptions.Record{}, err
			}
			script = requestScript
		}
		c := r.replaceCall(id, was, next, newToken(), nil)
		won, err := r.conn.run(ctx, script, c.keys, c.args...).Bool()
		if err != nil {
			return subscriptions.Record{}, fmt.Errorf("changing subscription %v: %w", id, err)
		}
		if won {
			return r.unpackRecord(id, next)
		}
		if err := rest(ctx, tries); err != nil {
			return subscriptions.Record{}, fmt.Errorf("changing subscription %v: %w", id, err)
		}
	}
}

// changed returns a record after change, and whether it needs more room.
func (r *records) changed(id uuid.UUID, was stored, change func(subscriptions.Record) (subscriptions.Record, error)) (next stored, grown bool, err error) {
	old, err := r.unpackRecord(id, was)
	if err != nil {
		return stored{}, false, err
	}
	rec, grown, err := old.Change(id, change)
	if err != nil {
		return stored{}, false, err
	}
	return r.packRecord(rec), grown, nil
}

// replaceCall returns the call of replaceScript that stores next in place of old.
func (r *records) replaceCall(id uuid.UUID, old, next stored, token string, attempts []subscriptions.Attempt) call {
	k := r.conn.key.recordsOf(id)
	args := []any{
		id[:], old[storedCursor], old[storedSub], old[storedRequest], next[storedCursor], next[storedSub], next[storedRequest],
		token, changesKept, subscriptions.MaxAttempts,
	}
	return call{append(k.values(), k.changes, k.attempts(id)), appendAttempts(args, attempts)}
}

// newToken returns a name for one change that Changed is to report.
func newToken() string {
	return string(binary.BigEndian.AppendUint64(nil, rand.Uint64())) //nolint:gosec // not a secret
}

// maxChanges is how often an operation tries to change a record that others keep changing.
const maxChanges = 60

// rest waits for a random time before a record is read again, so that two hubs do not
// collide again. After maxChanges tries it returns an error.
func rest(ctx context.Context, tries int) error {
	if tries >= maxChanges {
		return fmt.Errorf("other operations changed it %d times meanwhile; try again", tries)
	}
	longest := min(time.Millisecond<<min(tries, 6), 50*time.Millisecond)
	clock.Sleep(ctx, rand.N(longest)) //nolint:gosec // not a secret
	return ctx.Err()
}
