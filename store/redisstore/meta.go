package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// schema is the version of the layout that doc.go draws.
const schema = 1

// nameStore is the hash of what a store knows of itself: schema, id, created-at
// (seconds since 1970).
const nameStore = "store"

// nameProbe is the key on which needsScript tries commands, and which is gone after it.
const nameProbe = "probe"

// metaScript returns what a store knows of itself, and makes a new one where
// there is none.
//
//	KEYS    1 the hash of the store
//	ARGV    1 schema, 2 id and 3 time of a new one; an empty id makes none
//	returns schema, id, time, and '1' where it made one; four nils: there is none
var metaScript = newScript(bounded, `
if ARGV[2] ~= '' and redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], 'schema', ARGV[1], 'id', ARGV[2], 'created-at', ARGV[3])
  return {ARGV[1], ARGV[2], ARGV[3], '1'}
end
local v = redis.call('HMGET', KEYS[1], 'schema', 'id', 'created-at')
return {v[1], v[2], v[3], false}
`)

// readMeta returns what the store knows of itself. If there is none, it makes one unless
// existing: with the pinned id if there is one and accept is true.
func (c *conn) readMeta(ctx context.Context, pinned string, accept, existing bool) (id string, isNew bool, err error) {
	random, err := uuid.NewRandom()
	if err != nil {
		return "", false, err
	}
	id = random.String()
	if pinned != "" {
		if id = ""; accept {
			id = pinned
		}
	}
	if existing {
		id = ""
	}
	key := c.key.meta(nameStore)
	v, err := c.run(ctx, metaScript, []string{key}, schema, id, time.Now().Unix()).Slice()
	if err != nil {
		return "", false, err
	}
	texts := make([]string, len(v))
	for i := range texts {
		texts[i], _ = v[i].(string)
	}
	if !slices.ContainsFunc(v, func(v any) bool { return v != nil }) {
		if existing && (pinned == "" || accept) {
			return "", false, fmt.Errorf("%w at %s under the prefix %s", ErrNone, c.location, c.key)
		}
		return "", false, fmt.Errorf("%w: there is none with the prefix %s, and its id is said to be %s (--install-id): this is another Redis, or it was emptied. To begin with an empty store, give --accept-empty-store once", ErrRefused, c.key, pinned)
	}
	if n, err := strconv.Atoi(texts[0]); err != nil || n < 1 || texts[1] == "" {
		return "", false, fmt.Errorf("what %s says of the store makes no sense; choose another prefix, or restore a backup", key)
	} else if n > schema {
		return "", false, fmt.Errorf("%w: it has schema %d, and this one knows up to %d; start the newer version, or choose another prefix", ErrNewer, n, schema)
	}
	if pinned != "" && texts[1] != pinned && !accept {
		return "", false, fmt.Errorf("%w: it has the id %s, and is said to have %s (--install-id): this is another Redis or prefix, or it was emptied and begun anew. To go on with it, change --install-id", ErrRefused, texts[1], pinned)
	}
	return texts[1], texts[3] != "" || texts[1] == random.String(), nil
}
