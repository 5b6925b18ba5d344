package redisstore

import (
	"context"
	"time"
)

// beginsSummary begins the keys of what each hub shows the others, which expire.
const beginsSummary = "summary:"

// board is where the hubs show each other how they are.
type board struct{ conn *conn }

// postScript stores what a hub shows the others. It runs even on a full Redis: there are as
// many as hubs, and each is short and expires.
//
//	KEYS    1 the key of the hub
//	ARGV    1 the text, 2 how long it is kept, in milliseconds
var postScript = newScript(bounded, `return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])`)

// Post implements cluster.Board.
func (b *board) Post(ctx context.Context, id string, text []byte, life time.Duration) error {
	return b.conn.run(ctx, postScript, []string{b.conn.key.nodes(beginsSummary + id)}, text, life.Milliseconds()).Err()
}

// Posts implements cluster.Board.
func (b *board) Posts(ctx context.Context, ids []string) ([][]byte, error) {
	keys := make([]string, 0, len(ids))
	for _, id := range ids {
		keys = append(keys, b.conn.key.nodes(beginsSummary+id))
	}
	found, err := b.conn.client.MGet(ctx, keys...).Result()
	var texts [][]byte
	for _, v := range found {
		if text, ok := v.(string); ok {
			texts = append(texts, []byte(text))
		}
	}
	return texts, err
}
