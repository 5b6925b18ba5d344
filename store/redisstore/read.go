package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/rshub/rshub/journal"
)

// replyMax is the number of bytes of bodies after which a reply of readEntriesScript ends, so
// that neither Redis nor the hub needs much more memory at once (invariant 12).
const replyMax = 8 << 20

// readEntriesScript returns the entries after an anchor, if the journal has the anchor's entry
// or trimmed it (invariant 5).
//
//	KEYS    1 heads, 2 entries
//	ARGV    1 topic, 2 anchor (appendAnchor), 3 its position-nonce, 4 most entries,
//	        5 most bytes of bodies; less than 0: none, 6 most bytes of stored bodies in
//	        this reply
//	returns {1, 1 if there are more, else 0, head record; then of each entry:
//	        position-nonce, packed entry, body or nothing, number of chunks, size of the
//	        body}; the body of one that does not fit, and of all after it, is left out;
//	        the head record is '' unless there are no entries or the anchor has no
//	        nonce
//	        {0, 0, head record} the anchor's entry is not there
//
// An anchor with the nonce zero is that of a damaged entry. The caller checks whether it was
// trimmed since.
var readEntriesScript = newScript(reads, `
local function head() return redis.call('HGET', KEYS[1], ARGV[1]) or '' end
local zero = string.rep('\0', 8)
local most, left, room = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local out, n, count = {1, 0, ''}, 0, 8
local from, first, damaged = '-', nil, false
if string.sub(ARGV[2], 9) ~= zero then
  from = '(' .. ARGV[3]
  local page = redis.call('XRANGE', KEYS[2], ARGV[3], '+', 'COUNT', math.min(count, most) + 1)
  if page[1] and page[1][1] == ARGV[3] then
    table.remove(page, 1)
    first = page
  end
elseif ARGV[2] ~= zero .. zero then
  damaged = true
  from = '(' .. string.match(ARGV[3], '^%d+') .. '-18446744073709551615'
  out[3] = head()
end
if not first and not damaged then
  local now = head()
  local trimmed = string.sub(now, 10, 25)
  if trimmed == '' then trimmed = zero .. zero end
  if ARGV[2] ~= trimmed then return {0, 0, now} end
end
while n < most do
  count = math.min(count, most - n)
  local page = first or redis.call('XRANGE', KEYS[2], from, '+', 'COUNT', count)
  local before = room
  first = nil
  for _, entry in ipairs(page) do
    local f = entry[2]
    if room < 0 then
      out[2] = 1
      return out
    end
    if left >= 0 then left = left - (tonumber(f[4]) or 0) end
    local body, chunks = '', 0
    if f[5] == 'c' then
      chunks = tonumber(f[6]) or 0
    elseif left >= 0 then
      body = f[6] or ''
      room = room - #body
    end
    out[#out + 1] = entry[1]
    out[#out + 1] = f[2] or ''
    out[#out + 1] = body
    out[#out + 1] = chunks
    out[#out + 1] = tonumber(f[4]) or 0
    from = '(' .. entry[1]
    n = n + 1
  end
  if #page < count then break end
  if before - room < 8192 * count then count = 64 end -- they are small
end
if n == 0 then out[3] = head() end
return out
`)

// readEntryScript returns one entry.
//
//	KEYS    1 heads, 2 entries
//	ARGV    1 topic, 2 position-nonce, 3 whether with its body: 1 or 0
//	returns {head record, position-nonce, packed entry, body or nothing, number of
//	        chunks, size of the body}; {head record}: it is not there
var readEntryScript = newScript(reads, `
local head = redis.call('HGET', KEYS[1], ARGV[1]) or ''
local page = redis.call('XRANGE', KEYS[2], ARGV[2], ARGV[2])
if #page == 0 then return {head} end
local f = page[1][2]
local body, chunks = '', 0
if f[5] == 'c' then
  chunks = tonumber(f[6]) or 0
elseif ARGV[3] == '1' then
  body = f[6] or ''
end
return {head, page[1][1], f[2] or '', body, chunks, tonumber(f[4]) or 0}
`)

// reader reads entries and bodies.
type reader struct {
	conn      *conn
	heads     *heads
	histories *histories
	visitor   bool // it compares nothing
}

// storedEntry is an entry as it came from Redis.
type storedEntry struct {
	journal.Entry
	body   string // as it is stored; empty: it was not requested, did not fit, or is in chunks
	chunks int
	size   int64 // of the body, even if the entry cannot be read
	// why says why the entry cannot be read; nil: it can. An unreadable Entry has only Position,
	// Nonce and the ID that journal.PackedEntryID returns.
	why error
}

// openEntry reads the five values that scripts return for an entry.
func openEntry(v []any) (e storedEntry, err error) {
	chunks, ok1 := v[3].(int64)
	size, ok2 := v[4].(int64)
	if !ok1 || !ok2 {
		return e, fmt.Errorf("%w: an entry", journal.ErrPacked)
	}
	id, packed := textOf(v[0]), textOf(v[1])
	e.body, e.chunks, e.size = textOf(v[2]), int(chunks), size
	e.Entry, e.why = journal.UnpackEntry([]byte(packed))
	if e.why == nil && streamID(e.Anchor()) != id {
		e.why = fmt.Errorf("%w: an entry: it has the position of another entry", journal.ErrPacked)
	}
	if e.why == nil {
		return e, nil
	}
	e.Entry = journal.Entry{ID: journal.PackedEntryID([]byte(packed))}
	e.Position, e.Nonce, err = splitID(id)
	return e, err
}

// open returns the body, checked. journal.ErrNotFound: it is in chunks, and some are missing
// because the entry was trimmed since, or because they are damaged.
func (e storedEntry) open(ctx context.Context, r *reader) (body []byte, err error) {
	if e.chunks > 0 {
		body, err = r.readChunks(ctx, e.Entry, e.chunks)
	} else {
		body, err = decodeBody([]byte(e.body), e.Size)
	}
	switch {
	case journal.Unreadable(err):
		return nil, e.Damaged(err)
	case err != nil:
		return nil, err
	}
	return body, e.Check(body)
}

// Read implements journal.Reader.
func (r *reader) Read(ctx context.Context, topic string, after journal.Anchor, most int, maxBytes int64) ([]journal.Entry, error) {
	var out []journal.Entry
	k := r.conn.key.topic(topic)
	for more := true; more; {
		var page []storedEntry
		var err error
		page, more, err = r.page(ctx, k, topic, after, most-len(out), maxBytes)
		if len(out) > 0 && (errors.As(err, new(*journal.TrimmedError)) || errors.Is(err, journal.ErrDamaged)) {
			return out, nil // what was read is good; the next Read returns the error
		}
		if errors.Is(err, journal.ErrRolledBack) {
			return nil, r.rolledBack(ctx, k.partition, err)
		}
		if err != nil {
			return nil, err
		}
		for i, e := range page {
			err := damagedAfter(after, page[i:])
			if len(out) == 0 && e.why != nil {
				err = r.nearby(ctx, k, topic, after, err)
			}
			if err == nil {
				if maxBytes -= e.Size; maxBytes < 0 {
					maxBytes = -1 // leave out this body and all after it
				} else if e.Body, err = r.body(ctx, k, e); errors.Is(err, journal.ErrNotFound) {
					maxBytes, err = -1, nil // trimmed a moment ago: Body reports that
				}
			}
			switch {
			case err != nil && errors.Is(err, journal.ErrDamaged) && len(out) > 0:
				return out, nil // as above
			case err != nil:
				return nil, err
			}
			out = append(out, e.Entry)
			after = e.Anchor()
		}
	}
	return out, nil
}

// errOlder is journal.ErrRolledBack of a head that is older than one that this hub has seen. If the journal was
// rolled back, this hub has not compared yet. Else the head came from a replica that lags.
var errOlder = fmt.Errorf("%w, or a replica of it that lags was read", journal.ErrRolledBack)

// rolledBack returns journal.ErrRolledBack if all hubs have compared what they remember of a partition with what
// its server has now: then the gaps of the heads say what was lost. Else it has this hub compare, and returns errUnreconciled.
// Found is the error of page.
func (r *reader) rolledBack(ctx context.Context, partition int, found error) error {
	if r.visitor {
		return journal.ErrRolledBack
	}
	current := r.histories.of[partition].current.Load()
	if current == nil {
		return errUnreconciled
	}
	if errors.Is(found, errOlder) { // which made the partition suspect
		r.histories.invalidate(partition, current)
		return errUnreconciled
	}
	p, err := readPair(r.conn.run(ctx, historyScript, []string{r.conn.key.partition(partition, nameHistory)}))
	switch {
	case err != nil:
		return err
	case p.history == *current && p.reconciled():
		return journal.ErrRolledBack
	}
	r.histories.invalidate(partition, current)
	return errUnreconciled
}

// page reads the entries that fit into one reply, and whether there are more. The entries
// include those that cannot be read. If the newest entry of the topic is missing, page returns
// an error.
func (r *reader) page(ctx context.Context, k topicKeys, topic string, after journal.Anchor, most int, maxBytes int64) (page []storedEntry, more bool, err error) {
	v, err := r.conn.run(ctx, readEntriesScript, []string{k.heads, k.entries},
		k.field, appendAnchor(nil, after), streamID(after), max(most, 0), maxBytes, replyMax).Slice()
	if err != nil {
		return nil, false, err
	}
	found := v[0] == int64(1)
	for group := range slices.Chunk(v[3:], 5) {
		e, err := openEntry(group)
		if err != nil {
			return nil, false, fmt.Errorf("topic %s: %w", topic, err)
		}
		r.heads.notePosition(k.partition, e.Position)
		page = append(page, e)
	}
	if raw := textOf(v[2]); raw != "" || !found {
		h, err := r.heads.learn(k, topic, raw)
		switch {
		case err != nil:
			return nil, false, err
		case after.Position < h.Trimmed.Position:
			return nil, false, h.TrimmedAfter(after)
		case (!found || after.Position > h.Last.Position) && r.heads.seen.behind(k, h.Head):
			return nil, false, errOlder
		case !found, after.Position > h.Last.Position:
			return nil, false, journal.ErrRolledBack
		case len(page) == 0 && most > 0:
			return nil, false, h.MissingNewest(after)
		}
	}
	return page, v[1] == int64(1), nil
}

// Find implements journal.Reader.
func (r *reader) Find(ctx context.Context, id uuid.UUID) (topic string, e journal.Entry, err error) {
	at, err := r.conn.client.HGet(ctx, r.conn.key.partition(journal.IDPartition(id), nameIDs), string(id[:])).Result()
	if errors.Is(err, redis.Nil) {
		return "", e, journal.ErrNotFound
	}
	if err != nil {
		return "", e, err
	}
	if len(at) != 32 {
		return "", e, fmt.Errorf("%w: the place of notification %v", journal.ErrPacked, id)
	}
	topicID, anchor := uuid.UUID([]byte(at[:16])), anchorOf(at[16:])
	h, found, err := r.entry(ctx, r.conn.key.topicID(topicID), anchor, false)
	switch {
	case errors.Is(err, journal.ErrNotFound) && h.Trimmed.Position < anchor.Position:
		return "", e, &journal.DamagedError{At: anchor, ID: id, Why: journal.ErrMissing}
	case err != nil:
		return "", e, err
	case found.why != nil:
		return "", e, found.damaged(0, nil)
	}
	return h.Topic, found.Entry, nil
}

// entry reads one entry and the head of its topic. It returns the head with
// journal.ErrNotFound, too.
func (r *reader) entry(ctx context.Context, k topicKeys, a journal.Anchor, withBody bool) (h headRecord, e storedEntry, err error) {
	v, err := r.conn.run(ctx, readEntryScript, []string{k.heads, k.entries}, k.field, streamID(a), withBody).Slice()
	if err != nil {
		return h, e, err
	}
	if h, err = openHead(textOf(v[0]), ""); err == nil && len(v) != 6 {
		return h, e, journal.ErrNotFound
	}
	if err == nil {
		e, err = openEntry(v[1:])
	}
	if err != nil {
		return headRecord{}, storedEntry{}, fmt.Errorf("topic id %v: %w", k.id, err)
	}
	return h, e, nil
}

// Body implements journal.Reader.
func (r *reader) Body(ctx context.Context, topic string, e journal.Entry) ([]byte, error) {
	k := r.conn.key.topic(topic)
	_, found, err := r.entry(ctx, k, e.Anchor(), true)
	switch {
	case err != nil:
		return nil, err
	case journal.Unreadable(found.why):
		return nil, e.Damaged(found.why)
	case found.why != nil:
		return nil, found.why
	}
	return r.body(ctx, k, found)
}

// body returns the body of an entry. journal.ErrNotFound: it was trimmed since.
func (r *reader) body(ctx context.Context, k topicKeys, e storedEntry) ([]byte, error) {
	body, err := e.open(ctx, r)
	if !errors.Is(err, journal.ErrNotFound) {
		return body, err
	}
	// Either the entry was trimmed since, or a chunk was deleted by mistake.
	if _, _, err := r.entry(ctx, k, e.Anchor(), false); err != nil {
		return nil, err
	}
	return nil, e.Damaged(fmt.Errorf("a chunk of its body is missing: %s", r.conn.key.body(e.ID)))
}
