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

// meta is what a store knows of itself.
type meta struct {
	id        string
	createdAt time.Time
	isNew     bool // made by this start
}

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

// readMeta returns what the store knows of itself. Where there is none it makes
// one, with the pinned id where there is one and accept says so.
func (s *Store) readMeta(ctx context.Context, pinned string, accept bool) (m meta, err error) {
	random, err := uuid.NewRandom()
	if err != nil {
		return m, err
	}
	id := random.String()
	if pinned != "" {
		if id = ""; accept {
			id = pinned
		}
	}
	key := s.key.meta(nameStore)
	v, err := s.run(ctx, metaScript, []string{key}, schema, id, time.Now().Unix()).Slice()
	if err != nil {
		return m, err
	}
	texts := make([]string, len(v))
	for i := range texts {
		texts[i], _ = v[i].(string)
	}
	if !slices.ContainsFunc(v, func(v any) bool { return v != nil }) {
		return m, fmt.Errorf("%w: there is none with the prefix %s, and its id is said to be %s (--install-id): this is another Redis, or it was emptied. To begin with an empty store, give --accept-empty-store once", ErrRefused, s.key, pinned)
	}
	if n, err := strconv.Atoi(texts[0]); err != nil || n < 1 || texts[1] == "" {
		return m, fmt.Errorf("what %s says of the store makes no sense; choose another prefix, or restore a backup", key)
	} else if n > schema {
		return m, fmt.Errorf("%w: it has schema %d, and this one knows up to %d; start the newer version, or choose another prefix", ErrNewer, n, schema)
	}
	if pinned != "" && texts[1] != pinned && !accept {
		return m, fmt.Errorf("%w: it has the id %s, and is said to have %s (--install-id): this is another Redis or prefix, or it was emptied and begun anew. To go on with it, change --install-id", ErrRefused, texts[1], pinned)
	}
	created, _ := strconv.ParseInt(texts[2], 10, 64) // for people
	return meta{id: texts[1], createdAt: time.Unix(created, 0).UTC(), isNew: texts[3] != "" || texts[1] == random.String()}, nil
}

// pinned notes that the store has another id than it is said to have, which was
// accepted.
func (s *Store) pinned(id string) {
	if id != "" && id != s.meta.id {
		s.checks.warnings = append(s.checks.warnings, fmt.Sprintf("the store has the id %s, and not %s, which --install-id says; it was accepted by --accept-empty-store: change --install-id", s.meta.id, id))
	}
}
