package redisstore

import (
	"context"

	"github.com/rshub/rshub/journal"
)

// nameNotes is the key of the notes: a list, the latest first.
const nameNotes = "notes"

// notes implements journal.Notebook.
type notes struct{ conn *conn }

// noteScript adds notes and deletes the oldest. It runs even on a full Redis, because their
// number is bounded.
//
//	KEYS    1 notes
//	ARGV    1 most notes, 2 and on: the new ones, the oldest first
var noteScript = newScript(bounded, `
redis.call('LPUSH', KEYS[1], unpack(ARGV, 2))
return redis.call('LTRIM', KEYS[1], 0, ARGV[1] - 1)`)

// Note implements journal.Notebook.
func (n *notes) Note(ctx context.Context, texts ...[]byte) error {
	args := []any{journal.MaxNotes}
	for _, text := range texts {
		args = append(args, text)
	}
	if len(texts) == 0 {
		return nil
	}
	return n.conn.run(ctx, noteScript, []string{n.conn.key.nodes(nameNotes)}, args...).Err()
}

// Notes implements journal.Notebook.
func (n *notes) Notes(ctx context.Context) (texts [][]byte, err error) {
	found, err := n.conn.client.LRange(ctx, n.conn.key.nodes(nameNotes), 0, -1).Result()
	for _, text := range found {
		texts = append(texts, []byte(text))
	}
	return texts, err
}
