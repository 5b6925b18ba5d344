package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// schema is the version of the layout that doc.go draws.
const schema = 1

// nameStore is the hash of what a store knows of itself: schema, id, created-at
// (seconds since 1970).
const nameStore = "store"

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
//	returns schema, id, time; three nils: there is none
var metaScript = newScript(`
if ARGV[2] ~= '' and redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], 'schema', ARGV[1], 'id', ARGV[2], 'created-at', ARGV[3])
end
return redis.call('HMGET', KEYS[1], 'schema', 'id', 'created-at')
`)

// readMeta returns what the store knows of itself. Where there is none it makes
// one.
func (s *Store) readMeta(ctx context.Context) (m meta, err error) {
	id, err := uuid.NewRandom()
	if err != nil {
		return m, err
	}
	v, err := s.run(ctx, metaScript, []string{s.key.meta(nameStore)}, schema, id.String(), time.Now().Unix()).Slice()
	if err != nil {
		return m, err
	}
	texts := make([]string, 3)
	for i := range texts {
		texts[i], _ = v[i].(string)
	}
	if n, err := strconv.Atoi(texts[0]); err != nil || n < 1 || texts[1] == "" {
		return m, fmt.Errorf("what %s says of the store makes no sense; choose another prefix, or restore a backup", s.key.meta(nameStore))
	} else if n > schema {
		return m, fmt.Errorf("%w: it has schema %d, and this one knows up to %d; start the newer version, or choose another prefix", ErrNewer, n, schema)
	}
	created, _ := strconv.ParseInt(texts[2], 10, 64) // for people
	return meta{id: texts[1], createdAt: time.Unix(created, 0).UTC(), isNew: texts[1] == id.String()}, nil
}
