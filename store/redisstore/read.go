package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/rshub/rshub/journal"
)

// replyMax is after how many bytes of bodies a reply of readEntriesScript ends, so that
// neither Redis nor the hub holds much more at once (invariant 12).
const replyMax = 8 << 20

// readEntriesScript returns the entries after an anchor, if the journal has that one or
// trimmed it (invariant 5).
//
//	KEYS    1 heads, 2 entries
//	ARGV    1 topic, 2 anchor (appendAnchor), 3 its position-nonce, 4 most entries,
//	        5 most bytes of bodies; less than 0: none, 6 most bytes of stored bodies in
//	        this reply
//	returns {1, 1 if there are more, else 0; then of each entry: packed entry, body or
//	        nothing, number of chunks}; the body of one that does not fit, and of all
//	        after it, is left out;
//	        {0, head record} the anchor's entry is not there
var readEntriesScript = newScript(`
local head = redis.call('HGET', KEYS[1], ARGV[1]) or ''
local trimmed = string.sub(head, 10, 25)
if trimmed == '' then trimmed = string.rep('\0', 16) end
local from = '-'
if ARGV[2] ~= string.rep('\0', 16) then from = '(' .. ARGV[3] end
if ARGV[2] ~= trimmed and (from == '-' or #redis.call('XRANGE', KEYS[2], ARGV[3], ARGV[3]) == 0) then
  return {0, head}
end
local most, left, room = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local out, n, count = {1, 0}, 0, 8
while n < most do
  count = math.min(count, most - n)
  local page = redis.call('XRANGE', KEYS[2], from, '+', 'COUNT', count)
  local before = room
  for _, entry in ipairs(page) do
    local f = entry[2]
    if room < 0 then
      out[2] = 1
      return out
    end
    if left >= 0 then left = left - tonumber(f[4]) end
    local body, chunks = '', 0
    if f[5] == 'c' then
      chunks = tonumber(f[6])
    elseif left >= 0 then
      body = f[6]
      room = room - #body
    end
    out[#out + 1] = f[2]
    out[#out + 1] = body
    out[#out + 1] = chunks
    from = '(' .. entry[1]
    n = n + 1
  end
  if #page < count then break end
  if before - room < 8192 * count then count = 64 end -- they are small
end
return out
`)

// readEntryScript returns one entry.
//
//	KEYS    1 heads, 2 entries
//	ARGV    1 topic, 2 position-nonce, 3 whether with its body: 1 or 0
//	returns {head record, packed entry, body or nothing, number of chunks}; {}: it is
//	        not there
var readEntryScript = newScript(`
local page = redis.call('XRANGE', KEYS[2], ARGV[2], ARGV[2])
if #page == 0 then return {} end
local f = page[1][2]
local body, chunks = '', 0
if f[5] == 'c' then
  chunks = tonumber(f[6])
elseif ARGV[3] == '1' then
  body = f[6]
end
return {redis.call('HGET', KEYS[1], ARGV[1]) or '', f[2], body, chunks}
`)

// storedEntry is an entry as it came from Redis.
type storedEntry struct {
	journal.Entry
	body   string // its form; empty: it was not asked for, did not fit, or is in chunks
	chunks int
}

// openEntry reads the three values by which scripts tell of an entry.
func openEntry(v []any) (e storedEntry, err error) {
	packed, ok1 := v[0].(string)
	body, ok2 := v[1].(string)
	chunks, ok3 := v[2].(int64)
	if !ok1 || !ok2 || !ok3 {
		return e, fmt.Errorf("%w: an entry", journal.ErrPacked)
	}
	e.body, e.chunks = body, int(chunks)
	e.Entry, err = journal.UnpackEntry([]byte(packed))
	return e, err
}

// open returns the body. journal.ErrNotFound: it is in chunks and was trimmed
// since.
func (e storedEntry) open(ctx context.Context, s *Store) ([]byte, error) {
	if e.chunks > 0 {
		return s.readChunks(ctx, e.Entry, e.chunks)
	}
	return decodeBody([]byte(e.body), e.Size)
}

// Read implements journal.Reader.
func (s *Store) Read(ctx context.Context, topic string, after journal.Anchor, most int, maxBytes int64) ([]journal.Entry, error) {
	var out []journal.Entry
	k := s.key.topic(topic)
	for more := true; more; {
		var page []storedEntry
		var err error
		page, more, err = s.readPage(ctx, k, topic, after, most-len(out), maxBytes)
		if trimmed := (*journal.TrimmedError)(nil); errors.As(err, &trimmed) && len(out) > 0 {
			return out, nil // what was read is good; the next Read says so
		}
		if err != nil {
			return nil, err
		}
		for _, e := range page {
			if maxBytes -= e.Size; maxBytes < 0 {
				maxBytes = -1 // nor do the bodies after this one
			} else if e.Body, err = e.open(ctx, s); errors.Is(err, journal.ErrNotFound) {
				maxBytes = -1 // trimmed a moment ago: Body says so
			} else if err != nil {
				return nil, err
			}
			out = append(out, e.Entry)
			after = e.Anchor()
		}
	}
	return out, nil
}

// readPage reads as much as fits into one reply, and whether there is more.
func (s *Store) readPage(ctx context.Context, k topicKeys, topic string, after journal.Anchor, most int, maxBytes int64) (page []storedEntry, more bool, err error) {
	v, err := s.run(ctx, readEntriesScript, []string{k.heads, k.entries},
		k.field, appendAnchor(nil, after), streamID(after), max(most, 0), maxBytes, replyMax).Slice()
	if err != nil {
		return nil, false, err
	}
	if v[0] == int64(0) {
		raw, _ := v[1].(string)
		h, err := s.knowHead(k, topic, raw)
		if err != nil {
			return nil, false, err
		}
		if after.Position < h.Trimmed.Position {
			return nil, false, &journal.TrimmedError{To: h.Trimmed}
		}
		return nil, false, journal.ErrRolledBack
	}
	for group := range slices.Chunk(v[2:], 3) {
		e, err := openEntry(group)
		if err != nil {
			return nil, false, fmt.Errorf("topic %s: %w", topic, err)
		}
		s.saw(k.partition, e.Position)
		page = append(page, e)
	}
	return page, v[1] == int64(1), nil
}

// Find implements journal.Reader.
func (s *Store) Find(ctx context.Context, id uuid.UUID) (topic string, e journal.Entry, err error) {
	at, err := s.client.HGet(ctx, s.key.partition(journal.IDPartition(id), nameIDs), string(id[:])).Result()
	if errors.Is(err, redis.Nil) {
		return "", e, journal.ErrNotFound
	}
	if err != nil {
		return "", e, err
	}
	if len(at) != 32 {
		return "", e, fmt.Errorf("%w: the place of notification %v", journal.ErrPacked, id)
	}
	topic, found, err := s.readEntry(ctx, s.key.topicID(uuid.UUID([]byte(at[:16]))), anchorOf(at[16:]), false)
	return topic, found.Entry, err
}

// readEntry reads one entry, and the name of its topic.
func (s *Store) readEntry(ctx context.Context, k topicKeys, a journal.Anchor, withBody bool) (topic string, e storedEntry, err error) {
	v, err := s.run(ctx, readEntryScript, []string{k.heads, k.entries}, k.field, streamID(a), withBody).Slice()
	if err != nil {
		return "", e, err
	}
	if len(v) != 4 {
		return "", e, journal.ErrNotFound
	}
	raw, _ := v[0].(string)
	h, err := openHead(raw, "")
	if err == nil {
		e, err = openEntry(v[1:])
	}
	if err != nil {
		return "", storedEntry{}, fmt.Errorf("topic id %v: %w", k.id, err)
	}
	return h.Topic, e, nil
}

// Body implements journal.Reader.
func (s *Store) Body(ctx context.Context, topic string, e journal.Entry) ([]byte, error) {
	k := s.key.topic(topic)
	_, found, err := s.readEntry(ctx, k, e.Anchor(), true)
	if err != nil {
		return nil, err
	}
	body, err := found.open(ctx, s)
	if errors.Is(err, journal.ErrNotFound) {
		// Trimmed since, or else somebody took it away.
		if _, _, findErr := s.readEntry(ctx, k, e.Anchor(), false); findErr == nil {
			return nil, fmt.Errorf("a part of the body of notification %v is missing: %s", found.ID, s.key.body(found.ID))
		}
	}
	return body, err
}

// Topics implements journal.Trimmer.
func (s *Store) Topics(ctx context.Context, partition int, after uuid.UUID, limit int) (heads []journal.Head, err error) {
	values, err := s.page(ctx, s.key.partition(partition, nameHeads), after, limit)
	for _, raw := range values {
		h, err := openHead(raw, "")
		if err != nil {
			return nil, fmt.Errorf("a topic of partition %d: %w", partition, err)
		}
		heads = append(heads, h.Head)
	}
	return heads, err
}

// page returns what a hash has under up to limit ids, in their order, after a
// given one; the nil id stands before all.
func (s *Store) page(ctx context.Context, key string, after uuid.UUID, limit int) (values []string, err error) {
	if limit <= 0 {
		return nil, ctx.Err()
	}
	fields, err := s.client.HKeys(ctx, key).Result()
	if err != nil {
		return nil, err
	}
	begin := string(after[:])
	fields = slices.DeleteFunc(fields, func(f string) bool {
		return len(f) != len(after) || after != uuid.Nil && cmp.Compare(f, begin) <= 0
	})
	slices.Sort(fields)
	// Fields may be deleted meanwhile, and a page that is not full is the last one.
	for len(values) < limit && len(fields) > 0 {
		some := fields[:min(limit-len(values), len(fields))]
		fields = fields[len(some):]
		found, err := s.client.HMGet(ctx, key, some...).Result()
		if err != nil {
			return nil, err
		}
		for _, v := range found {
			if v, ok := v.(string); ok {
				values = append(values, v)
			}
		}
	}
	return values, nil
}
