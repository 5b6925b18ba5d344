package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// schema is the version of the layout that doc.go describes.
const schema = 1

// nameStore is the hash of what a store records about itself: schema, id, created-at
// (seconds since 1970).
const nameStore = "store"

// nameProbe is the key on which needsScript tries commands. The script deletes it.
const nameProbe = "probe"

// metaScript returns what a store records about itself. If there is no store, it makes one.
//
//	KEYS    1 the hash of the store
//	ARGV    1 schema, 2 id and 3 time of a new one; an empty id makes none
//	returns schema, id, and '1' if it made the store; nothing: there is no store
var metaScript = newScript(bounded, `
local made = ARGV[2] ~= '' and redis.call('EXISTS', KEYS[1]) == 0
if made then redis.call('HSET', KEYS[1], 'schema', ARGV[1], 'id', ARGV[2], 'created-at', ARGV[3]) end
local v = redis.call('HMGET', KEYS[1], 'schema', 'id')
if not v[1] and not v[2] then return {} end
return {v[1], v[2], made and '1'}
`)

// readMeta returns the id of the store. If there is no store, it makes one, unless existing is
// true. The new store gets the pinned id if there is one and accept is true, else a random
// one.
func (c *conn) readMeta(ctx context.Context, pinned string, accept, existing bool) (id string, isNew bool, err error) {
	random := uuid.NewString()
	id = random
	switch {
	case existing, pinned != "" && !accept:
		id = ""
	case pinned != "":
		id = pinned
	}
	key := c.key.meta(nameStore)
	v, err := c.run(ctx, metaScript, []string{key}, schema, id, time.Now().Unix()).Slice()
	switch {
	case err != nil:
		return "", false, err
	case len(v) == 0 && existing && (pinned == "" || accept):
		return "", false, fmt.Errorf("%w at %s under the prefix %s", ErrNone, c.location, c.key)
	case len(v) == 0:
		return "", false, fmt.Errorf("%w: there is no store with the prefix %s, and --install-id says that its id is %s: this is another Redis, or it was emptied. To begin with an empty store, start once with --accept-empty-store", ErrRefused, c.key, pinned)
	}
	id = textOf(v[1])
	n, err := strconv.Atoi(textOf(v[0]))
	switch {
	case err != nil || n < 1 || id == "":
		return "", false, fmt.Errorf("the description of the store in %s is damaged; choose another prefix, or restore a backup", key)
	case n > schema:
		return "", false, fmt.Errorf("%w: it has schema %d, and this version knows schemas up to %d; start the newer version, or choose another prefix", ErrNewer, n, schema)
	case pinned != "" && id != pinned && !accept:
		return "", false, fmt.Errorf("%w: the store has the id %s, and --install-id says %s: this is another Redis or prefix, or it was emptied and then used by a new store. To continue with this store, change --install-id", ErrRefused, id, pinned)
	}
	return id, textOf(v[2]) != "" || id == random, nil
}
