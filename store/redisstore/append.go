package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/rshub/rshub/journal"
)

// maxTopicChanges is how many topics of a partition Changes reports one by one. If a
// caller is further behind, it reports all topics.
const maxTopicChanges = 1 << 14

// appendScript stores an entry as the newest of a topic: the one atomic step of
// invariant 2. It compares the head record as ifHeadStands does.
//
//	KEYS    1 heads, 2 changes, 3 latest change, 4 entries, 5 intervals, 6 ids,
//	        7 history, 8 body if it is in chunks
//	ARGV    1 to 7 as for announce; 8 notification id, 9 what ids has of it,
//	        10 position-nonce, 11 packed entry, 12 size, 13 body, empty: it is in chunks,
//	        14 number of chunks, 15 packed interval, empty: none, 16 most intervals
//	        (seven more stay until all of them go at once),
//	        17 history that the partition must have, 18 deadline: when to store nothing any
//	        more, in microseconds by the clock of this server
//	returns {1, time} it is stored, by this run; {1} by an earlier one with a lost answer;
//	        {0, head record} the stored one is different; {2} the chunks are gone;
//	        {3} the partition has another history, or its server has; {4, time} it is too late
var appendScript = newScript(grows, theReplicationID+`
if redis.call('GET', KEYS[7]) ~= ARGV[17] or string.match(ARGV[17], ':(.*)$') ~= replid then return {3} end
local now = redis.call('HGET', KEYS[1], ARGV[1]) or ''
if string.sub(now, 2, 9) ~= ARGV[2] then
  if redis.call('HEXISTS', KEYS[6], ARGV[8]) == 1 then return {1} end
  return {0, now}
end
`+theTime+`
if us > tonumber(ARGV[18]) then return {4, us} end
if ARGV[13] ~= '' then
  redis.call('XADD', KEYS[4], ARGV[10], 'e', ARGV[11], 's', ARGV[12], 'b', ARGV[13])
else
  if redis.call('HLEN', KEYS[8]) ~= tonumber(ARGV[14]) then return {2} end
  redis.call('XADD', KEYS[4], ARGV[10], 'e', ARGV[11], 's', ARGV[12], 'c', ARGV[14])
  redis.call('PERSIST', KEYS[8])
end
redis.call('HSET', KEYS[6], ARGV[8], ARGV[9])
if ARGV[15] ~= '' and redis.call('LPUSH', KEYS[5], ARGV[15]) >= ARGV[16] + 8 then
  redis.call('LTRIM', KEYS[5], 0, ARGV[16] - 1)
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
`+announce)

// appender stores accepted notifications at the head of their topics.
type appender struct {
	conn      *conn
	checks    *checks
	memory    *memory
	deadlines *deadlines
	heads     *heads
	histories *histories
	watcher   *watcher
}

// errChunks says that storing a body took so long that Redis deleted its first chunks.
var errChunks = errors.New("the first chunks of a body were deleted before its entry could be stored; publish it again")

// Append implements journal.Appender.
func (a *appender) Append(ctx context.Context, now time.Time, topic string, e journal.Entry, ifHead journal.Version) (journal.Entry, error) {
	if err := errors.Join(ctx.Err(), a.checks.writable(), a.memory.full()); err != nil {
		return journal.Entry{}, err
	}
	k := a.conn.key.topic(topic)
	h, err := a.heads.at(ctx, k, topic, ifHead)
	if err == nil && a.heads.seen.behind(k, h.Head) {
		h, err = a.newest(ctx, k, topic)
	}
	if err != nil {
		return journal.Entry{}, err
	}
	if h.Version != ifHead {
		return journal.Entry{}, journal.ErrHeadMoved
	}
	if e, err = e.Received(now, k.partition); err != nil {
		return journal.Entry{}, err
	}
	body := encodeBody(e.Body)
	chunks := 0
	if len(body) > chunkSize {
		if chunks, err = a.writeChunks(ctx, e.ID, body); err != nil {
			return journal.Entry{}, err
		}
		body = nil
	}
	stored, err := a.appendEntry(ctx, k, h, e, body, chunks)
	if chunks > 0 && errors.Is(err, journal.ErrHeadMoved) {
		_ = a.conn.client.Unlink(ctx, a.conn.key.body(e.ID)).Err() // else Redis deletes them after chunksKept
	}
	if err != nil {
		return journal.Entry{}, err
	}
	a.watcher.hints.Send(journal.Hint{Topic: topic, After: h.Last, Entry: &stored})
	return stored, nil
}

// appendEntry runs the script. If the stored head record is newer than h but has the same
// version, as after a trim, it runs the script again with that record.
func (a *appender) appendEntry(ctx context.Context, k topicKeys, h headRecord, e journal.Entry, body []byte, chunks int) (journal.Entry, error) {
	names := []string{k.entries, k.intervals, k.ids, k.history}
	if chunks > 0 {
		names = append(names, a.conn.key.body(e.ID))
	}
	for range maxTries {
		history, err := a.histories.current(ctx, k.partition)
		if err != nil {
			return journal.Entry{}, err
		}
		e = h.Place(e, journal.Position(a.heads.highest[k.partition].Load()))
		head := a.heads.pack(h.Append(e))
		var interval []byte
		if e.Timed() {
			interval = journal.PackInterval(e.Interval())
		}
		c := a.watcher.announcing(k, h, head).with(names,
			e.ID[:], idValue(k, e), streamID(e.Anchor()), journal.PackEntry(e), e.Size, body,
			chunks, interval, journal.Remembered, *history, a.deadlines.of(ctx, k.partition, history, a.conn.timeout))
		current, answer, err := a.heads.replace(ctx, k, h.Topic, appendScript, c, head)
		a.deadlines.saw(k.partition, history, answer.at)
		switch {
		case errors.Is(err, errUnreconciled):
			a.histories.invalidate(k.partition, history)
			continue
		case errors.Is(err, errLate):
			continue // with a deadline by the clock that the answer showed
		case err != nil:
			return journal.Entry{}, fmt.Errorf("storing a notification: %w", err)
		case answer.stored:
			return e, a.verifyStored(ctx, k, e, history)
		case current.Version != h.Version:
			return journal.Entry{}, journal.ErrHeadMoved
		}
		h = current
	}
	return journal.Entry{}, errBusy
}

// errLags is returned if a partition has been compared, and the heads that are read are still older.
var errLags = errors.New("the Redis server answers with an older state of the topic than this hub has seen: perhaps a replica answers that lags behind its master; try again in a moment")

// newest reads the head of a topic. If this hub has seen something newer than what is
// stored, it waits until the partition has been compared.
func (a *appender) newest(ctx context.Context, k topicKeys, topic string) (headRecord, error) {
	for range maxTries {
		h, err := a.heads.read(ctx, k, topic)
		if err != nil || !a.heads.seen.behind(k, h.Head) {
			return h, err
		}
		history, err := a.histories.current(ctx, k.partition)
		if err != nil {
			return headRecord{}, err
		}
		a.histories.suspect(k.partition)
		a.histories.invalidate(k.partition, history)
	}
	return headRecord{}, errLags
}

// idValue is the value of a notification in the hash of ids: its topic and anchor.
func idValue(k topicKeys, e journal.Entry) []byte {
	return appendAnchor(append(make([]byte, 0, 32), k.id[:]...), e.Anchor())
}

// streamID is the id that the entry of an anchor has in the stream of its topic. It includes
// the nonce, so reading it checks the anchor.
func streamID(a journal.Anchor) string {
	return strconv.FormatUint(uint64(a.Position), 10) + "-" + strconv.FormatUint(uint64(a.Nonce), 10)
}

// anchorOf reads what appendAnchor wrote.
func anchorOf(b string) journal.Anchor {
	return journal.Anchor{
		Position: journal.Position(binary.BigEndian.Uint64([]byte(b[:8]))),
		Nonce:    journal.Nonce(binary.BigEndian.Uint64([]byte(b[8:16]))),
	}
}

// Interval implements journal.Appender. What it returns decides whether a publish is refused,
// so it returns nothing while the server has an older head than this hub has seen, as a
// replica that lags does.
func (a *appender) Interval(ctx context.Context, topic string, from, until time.Time) (journal.Interval, error) {
	k := a.conn.key.topic(topic)
	if _, err := a.newest(ctx, k, topic); err != nil {
		return journal.Interval{}, err
	}
	all, err := a.heads.intervals(ctx, k)
	if err != nil {
		return journal.Interval{}, err
	}
	for _, i := range all {
		if i.From.Equal(from) && i.Until.Equal(until) {
			return i, nil
		}
	}
	return journal.Interval{}, journal.ErrNotFound
}

// intervals returns the intervals that are remembered of a topic, newest first.
func (hs *heads) intervals(ctx context.Context, k topicKeys) ([]journal.Interval, error) {
	raw, err := hs.conn.client.LRange(ctx, k.intervals, 0, journal.Remembered-1).Result()
	if err != nil {
		return nil, err
	}
	out := make([]journal.Interval, 0, len(raw))
	for _, v := range raw {
		i, err := journal.UnpackInterval([]byte(v))
		if journal.Unreadable(err) {
			continue // a damaged interval counts as forgotten
		}
		if err != nil {
			return nil, fmt.Errorf("topic id %v: %w", k.id, err)
		}
		out = append(out, i)
	}
	return out, nil
}
