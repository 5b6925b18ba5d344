package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
)

// schema is the version of the layout that doc.go describes, in journal.Newest, and previous
// the one in journal.Previous.
const (
	schema   = 2
	previous = 1
)

// Format is the newest format of a store that this version knows (cluster.Node).
const Format = schema

// nameStore is the hash of what a store records about itself: id, created-at (seconds since
// 1970), schema, and writes. Versions that do not know the schema do not open the store.
// Writes is the schema that hubs write; without it, that is previous. They differ from
// when an upgrade is begun until it is finished (upgrade.go).
const nameStore = "store"

// nameProbe is the key on which needsScript tries commands. The script deletes it.
const nameProbe = "probe"

// metaScript returns what a store records about itself. If there is no store, it makes one.
//
//	KEYS    1 the hash of the store
//	ARGV    1 schema, 2 id and 3 time of a new one; an empty id makes none
//	returns schema, id, writes, and '1' if it made the store; nothing: there is no store
var metaScript = newScript(bounded, `
local made = ARGV[2] ~= '' and redis.call('EXISTS', KEYS[1]) == 0
if made then redis.call('HSET', KEYS[1], 'schema', ARGV[1], 'writes', ARGV[1], 'id', ARGV[2], 'created-at', ARGV[3]) end
local v = redis.call('HMGET', KEYS[1], 'schema', 'id', 'writes')
if not v[1] and not v[2] then return {} end
return {v[1], v[2], v[3], made and '1'}
`)

// meta is what Open reads of a store.
type meta struct {
	id    string
	isNew bool
	// format is what hubs write.
	format journal.Format
}

// formatOf is the format of the field writes.
func formatOf(writes any) journal.Format {
	if textOf(writes) == strconv.Itoa(schema) {
		return journal.Newest
	}
	return journal.Previous
}

// readMeta returns the id of the store. If there is no store, it makes one, unless existing is
// true. The new store gets the pinned id if there is one and accept is true, else a random
// one.
func (c *conn) readMeta(ctx context.Context, pinned string, accept, existing bool) (m meta, err error) {
	random := uuid.NewString()
	id := random
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
		return meta{}, err
	case len(v) == 0 && existing && (pinned == "" || accept):
		return meta{}, fmt.Errorf("%w at %s under the prefix %s", ErrNone, c.location, c.key)
	case len(v) == 0:
		return meta{}, fmt.Errorf("%w: there is no store with the prefix %s, and --install-id says that its id is %s: this is another Redis, or it was emptied. To begin with an empty store, start once with --accept-empty-store", ErrRefused, c.key, pinned)
	}
	m = meta{id: textOf(v[1]), format: formatOf(v[2])}
	n, err := strconv.Atoi(textOf(v[0]))
	switch {
	case err != nil || n < 1 || m.id == "":
		return meta{}, fmt.Errorf("the description of the store in %s is damaged; choose another prefix, or restore a backup", key)
	case n > schema:
		return meta{}, fmt.Errorf("%w: it has schema %d, and this version knows schemas up to %d; start the newer version, or choose another prefix", ErrNewer, n, schema)
	case pinned != "" && m.id != pinned && !accept:
		return meta{}, fmt.Errorf("%w: the store has the id %s, and --install-id says %s: this is another Redis or prefix, or it was emptied and then used by a new store. To continue with this store, change --install-id", ErrRefused, m.id, pinned)
	}
	m.isNew = textOf(v[3]) != "" || m.id == random
	return m, nil
}
