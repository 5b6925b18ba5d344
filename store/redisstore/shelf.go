package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// beginsShelf begins the keys of the values that all hubs share.
const beginsShelf = "shelf:"

// shelf implements journal.Shelf.
type shelf struct{ conn *conn }

// keepScript stores a value if there is none. It runs even on a full Redis: there are at most a
// few for each subscription, and all but one expire.
//
//	KEYS    1 the key of the value
//	ARGV    1 the value, 2 how long it is kept, in milliseconds; 0: forever
//	returns what is stored
var keepScript = newScript(bounded, `
local kept = redis.call('GET', KEYS[1]) or ARGV[1]
if ARGV[2] == '0' then redis.call('SET', KEYS[1], kept) else redis.call('SET', KEYS[1], kept, 'PX', ARGV[2]) end
return kept`)

// Keep implements journal.Shelf.
func (s *shelf) Keep(ctx context.Context, name string, fresh []byte, life time.Duration) ([]byte, error) {
	text, err := s.conn.run(ctx, keepScript, []string{s.conn.key.nodes(beginsShelf + name)}, fresh, life.Milliseconds()).Text()
	return []byte(text), err
}

// Kept implements journal.Shelf.
func (s *shelf) Kept(ctx context.Context, name string) ([]byte, error) {
	kept, err := s.conn.client.Get(ctx, s.conn.key.nodes(beginsShelf+name)).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	return kept, err
}

// Drop implements journal.Shelf.
func (s *shelf) Drop(ctx context.Context, name string) error {
	return s.conn.client.Del(ctx, s.conn.key.nodes(beginsShelf+name)).Err()
}
