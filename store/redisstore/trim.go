package redisstore

import (
	"context"
	"errors"
	"strconv"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/rshub/rshub/journal"
)

// trimScript deletes the oldest entries of a topic.
//
//	KEYS    1 heads, 2 entries, 3 ids, 4.. bodies in chunks
//	ARGV    1 to 3 as for ifHeadStands; 4 the position-nonce before which all are deleted,
//	        5.. their notification ids
//	returns as ifHeadStands
var trimScript = newScript(bounded, ifHeadStands+`
redis.call('XTRIM', KEYS[2], 'MINID', '=', ARGV[4])
if redis.call('XLEN', KEYS[2]) == 0 then redis.call('DEL', KEYS[2]) end
for i = 5, #ARGV do redis.call('HDEL', KEYS[3], ARGV[i]) end
for i = 4, #KEYS do redis.call('UNLINK', KEYS[i]) end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return {1}
`)

// trimmer lists, trims and removes topics.
type trimmer struct {
	conn    *conn
	checks  *checks
	heads   *heads
	reader  *reader
	watcher *watcher
	lister  *lister
}

// trimStep is how many entries one run of trimScript deletes at most.
const trimStep = 256

// Trim implements journal.Trimmer. It works in steps, so that a large trim does not delay
// appends.
func (t *trimmer) Trim(ctx context.Context, topic string, cut journal.Cut) (journal.Head, error) {
	if err := t.checks.writable(); err != nil {
		return journal.Head{}, err
	}
	k := t.conn.key.topic(topic)
	h, err := t.heads.read(ctx, k, topic)
	look := 1 // usually there is nothing to trim, and the oldest entry shows that
	for err == nil {
		if h.Entries == 0 || cut.Before.IsZero() && (cut.KeepBytes < 0 || h.Bytes <= cut.KeepBytes) {
			return h.Head, nil
		}
		var page []storedEntry
		page, _, err = t.reader.page(ctx, k, topic, h.Trimmed, look, -1)
		if errors.Is(err, journal.ErrDamaged) { // the newest entry is missing, and no other is left
			page, err = []storedEntry{{Entry: journal.Entry{ID: h.ID, Position: h.Last.Position, Nonce: h.Last.Nonce}, why: journal.ErrMissing}}, nil
		}
		head := h.Head
		if err == nil && look > 1 && anyMissing(h.Trimmed, page) { // the head still counts the sizes of the missing ones
			head.Bytes, err = t.reader.retainedBytes(ctx, k, topic, h.Trimmed)
		}
		if err != nil {
			if fresh, headErr := t.heads.read(ctx, k, topic); headErr == nil && fresh.revision != h.revision {
				h, err = fresh, nil // another hub trims
				continue
			}
			return journal.Head{}, err
		}
		next, gone := trimmed(head, page, cut)
		if len(gone) == 0 && next.Bytes == h.Bytes {
			return h.Head, nil
		}
		if look == 1 {
			look = trimStep
			if next.Entries > 0 {
				continue
			}
		}
		if gone, err = t.nameDamaged(ctx, k, gone); err != nil {
			break
		}
		h, err = t.trim(ctx, k, h, next, gone)
	}
	return journal.Head{}, err
}

// trimmed returns a head after a cut, and which of its oldest entries the cut deletes. The age
// of an entry that cannot be read is that of its position.
func trimmed(h journal.Head, oldest []storedEntry, cut journal.Cut) (next journal.Head, gone []storedEntry) {
	for i, e := range oldest {
		at, received := e.Anchor(), e.ReceivedAt
		if e.why != nil {
			received = e.Position.Time()
			at = e.anchorAfter(h.Trimmed.Seq, following(oldest, i))
			if e.Position == h.Last.Position {
				at = h.Last
			}
		}
		if !cut.Deletes(received, h.Bytes) {
			return h, oldest[:i]
		}
		if h = h.Trim(at, e.size); h.Entries == 0 {
			h.Bytes = 0 // without the sizes of entries that are missing
		}
	}
	return h, oldest
}

// nameDamaged clears the ids of entries that cannot be read, unless the hash of ids confirms
// them. Otherwise trim could delete the body of another entry.
func (t *trimmer) nameDamaged(ctx context.Context, k topicKeys, gone []storedEntry) ([]storedEntry, error) {
	for i := range gone {
		e := &gone[i]
		if e.why == nil {
			continue
		}
		at, err := t.conn.client.HGet(ctx, k.ids, string(e.ID[:])).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, err
		}
		if at != string(idValue(k, e.Entry)) {
			e.ID = uuid.Nil
		}
	}
	return gone, nil
}

// trim deletes the oldest entries of a topic, and returns the head record that is then stored.
// If the stored one was no longer h, it deletes nothing, and returns the stored one.
func (t *trimmer) trim(ctx context.Context, k topicKeys, h headRecord, next journal.Head, gone []storedEntry) (headRecord, error) {
	raw := t.heads.pack(next)
	c := replacing(k, h, raw).with([]string{k.entries, k.ids}, strconv.FormatUint(uint64(next.Trimmed.Position)+1, 10)+"-0")
	for _, e := range gone {
		if e.ID == uuid.Nil {
			continue
		}
		c.args = append(c.args, e.ID[:])
		if e.chunks > 0 || e.why != nil {
			c.keys = append(c.keys, t.conn.key.body(e.ID))
		}
	}
	now, _, err := t.heads.replace(ctx, k, h.Topic, trimScript, c, raw)
	return now, err
}
