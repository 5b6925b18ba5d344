package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/rshub/rshub/journal"
)

// The field "rev" of the ping records gets a new random value whenever one of them is
// stored. All other fields are topic ids of 16 bytes.

// readPingsScript returns the ping records of some topics, and those of all topics without
// a head.
//
//	KEYS    1 ping records, 2 heads
//	ARGV    1 whether to return those without a head: 1 or 0, 2.. topics
//	returns {revision or '', number of topics asked for; of each its ping record or '', 1 if it
//	        has a head, else 0; then of each ping record without a head: topic, ping record}
var readPingsScript = newScript(reads, `
local out = {redis.call('HGET', KEYS[1], 'rev') or '', #ARGV - 1}
for i = 2, #ARGV do
  out[#out + 1] = redis.call('HGET', KEYS[1], ARGV[i]) or ''
  out[#out + 1] = redis.call('HEXISTS', KEYS[2], ARGV[i])
end
if ARGV[1] == '1' then
  for _, topic in ipairs(redis.call('HKEYS', KEYS[1])) do
    if topic ~= 'rev' and redis.call('HEXISTS', KEYS[2], topic) == 0 then
      out[#out + 1] = topic
      out[#out + 1] = redis.call('HGET', KEYS[1], topic)
    end
  end
end
return out
`)

// pingScript and fetchedScript store ping records of one partition, unless one of its ping
// records was stored since they were read. PingScript stores a ping, and fetchedScript the
// result of earlier pings.
//
//	KEYS    1 ping records
//	ARGV    1 revision that they must have, 2 the next one, 3.. topic, ping record; an empty
//	        ping record deletes it
//	returns {1} they are stored; {0} there is another revision
var (
	pingScript    = newScript(grows, writePings)
	fetchedScript = newScript(bounded, writePings)
)

const writePings = `
local revision = redis.call('HGET', KEYS[1], 'rev') or ''
if revision == ARGV[2] then return {1} end
if revision ~= ARGV[1] then return {0} end
redis.call('HSET', KEYS[1], 'rev', ARGV[2])
for i = 3, #ARGV, 2 do
  if ARGV[i + 1] == '' then
    redis.call('HDEL', KEYS[1], ARGV[i])
  else
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
  end
end
return {1}
`

// pings stores the ping records of the topics that were pinged.
type pings struct {
	conn   *conn
	checks *checks
	memory *memory
	lister *lister
}

// pingRecords are ping records of one partition, as they were read together.
type pingRecords struct {
	revision string
	known    map[string]journal.PingRecord    // those of the topics in question, by topic; Pings 0: there is none
	unknown  int                              // how many of these topics have neither ping record nor head
	headless map[uuid.UUID]journal.PingRecord // those of topics without a head, by topic id; all or none
}

// readAll reads the ping records of some topics of a partition, and, if one of them has
// neither ping record nor head, those of all topics without a head.
func (p *pings) readAll(ctx context.Context, partition int, topics []string) (pingRecords, error) {
	m, err := p.read(ctx, partition, topics, false)
	if err == nil && m.unknown > 0 {
		m, err = p.read(ctx, partition, topics, true)
	}
	return m, err
}

// read reads the ping records of some topics of a partition, and if headless is true, those of
// all topics without a head. A ping record that cannot be read counts as none: the next ping
// replaces it.
func (p *pings) read(ctx context.Context, partition int, topics []string, headless bool) (m pingRecords, err error) {
	m = pingRecords{known: map[string]journal.PingRecord{}, headless: map[uuid.UUID]journal.PingRecord{}}
	args := []any{headless}
	for _, topic := range topics {
		id := journal.TopicID(topic)
		args = append(args, id[:])
	}
	v, err := p.conn.run(ctx, readPingsScript, []string{p.conn.key.partition(partition, namePings), p.conn.key.partition(partition, nameHeads)}, args...).Slice()
	if err != nil {
		return m, err
	}
	m.revision = textOf(v[0])
	v = v[2:]
	for i, topic := range topics {
		m.known[topic] = journal.PingRecord{Topic: topic}
		raw := textOf(v[2*i])
		if raw == "" {
			if v[2*i+1] == int64(0) {
				m.unknown++
			}
			continue
		}
		ping, err := openPingRecord(raw)
		switch {
		case err == nil:
			m.known[topic] = ping
		case !journal.Unreadable(err):
			return m, err
		}
	}
	for pair := range slices.Chunk(v[2*len(topics):], 2) {
		id, err := uuid.FromBytes([]byte(textOf(pair[0])))
		if err != nil {
			continue // an entry that no hub wrote
		}
		ping, err := openPingRecord(textOf(pair[1]))
		if err != nil && !journal.Unreadable(err) {
			return m, err
		}
		m.headless[id] = ping
	}
	return m, nil
}

func openPingRecord(raw string) (journal.PingRecord, error) {
	m, err := journal.UnpackPingRecord([]byte(raw))
	if err != nil {
		return journal.PingRecord{}, fmt.Errorf("the ping record of a topic: %w", err)
	}
	return m, nil
}

// change changes ping records of some topics of a partition. It calls change with the stored
// ones, perhaps several times, and stores by pingScript or fetchedScript what change returns,
// by topic id. A ping record with Pings 0 is deleted. If change returns none, nothing is stored.
func (p *pings) change(ctx context.Context, script *redis.Script, partition int, topics []string, change func(m pingRecords) (map[uuid.UUID]journal.PingRecord, error)) error {
	if err := errors.Join(ctx.Err(), p.checks.writable()); err != nil {
		return err
	}
	revision := newRevision()
	for range maxTries {
		m, err := p.readAll(ctx, partition, topics)
		if err != nil {
			return err
		}
		next, err := change(m)
		if err != nil || len(next) == 0 {
			return err
		}
		args := []any{m.revision, revision}
		for id, ping := range next {
			var raw []byte
			if ping.Pings > 0 {
				raw = journal.PackPingRecord(ping)
			}
			args = append(args, id[:], raw)
		}
		s, err := readSwapped(p.conn.run(ctx, script, []string{p.conn.key.partition(partition, namePings)}, args...))
		if err != nil || s.stored {
			return err
		}
	}
	return errBusy
}

// newRevision is the revision of ping records that are about to be stored.
func newRevision() []byte { return binary.BigEndian.AppendUint64(nil, journal.Random()) }

// Ping implements journal.Pings. It counts all topics of one partition, or none.
func (p *pings) Ping(ctx context.Context, now time.Time, topics []string) error {
	if err := p.memory.full(); err != nil {
		return err
	}
	partitions := map[int][]string{}
	for _, topic := range topics {
		n := journal.Partition(journal.TopicID(topic))
		partitions[n] = append(partitions[n], topic)
	}
	for n, topics := range partitions {
		distinct := slices.Compact(slices.Sorted(slices.Values(topics)))
		err := p.change(ctx, pingScript, n, distinct, func(m pingRecords) (map[uuid.UUID]journal.PingRecord, error) {
			return pinged(m, now, topics)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// pinged returns the ping records to store after one more ping for each of some topics
// of a partition.
func pinged(m pingRecords, now time.Time, topics []string) (map[uuid.UUID]journal.PingRecord, error) {
	next := map[uuid.UUID]journal.PingRecord{}
	for _, topic := range topics {
		id := journal.TopicID(topic)
		ping, ok := next[id]
		if !ok {
			ping = m.known[topic]
		}
		next[id] = ping.Pinged(now)
	}
	old, err := journal.PingRecordsToDelete(m.headless, m.unknown, func(id uuid.UUID) bool { return next[id].Pings > 0 })
	for _, id := range old {
		next[id] = journal.PingRecord{}
	}
	return next, err
}

// PingRecord implements journal.Pings.
func (p *pings) PingRecord(ctx context.Context, topic string) (journal.PingRecord, error) {
	m, err := p.read(ctx, p.conn.key.topic(topic).partition, []string{topic}, false)
	return m.known[topic], err
}

// PingRecords implements journal.Pings.
func (p *pings) PingRecords(ctx context.Context, partition int, after uuid.UUID, limit int) (pings []journal.PingRecord, err error) {
	if err := journal.CheckPartition(partition); err != nil {
		return nil, err
	}
	err = p.lister.page(ctx, p.conn.key.partition(partition, namePings), after, limit, func(raw string) error {
		m, err := openPingRecord(raw)
		if err == nil {
			pings = append(pings, m)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return pings, nil
}

// SetFetched implements journal.Pings.
func (p *pings) SetFetched(ctx context.Context, m journal.PingRecord) error {
	return p.changeOne(ctx, m.Topic, func(old journal.PingRecord) (journal.PingRecord, bool) { return old.AfterFetch(m) })
}

// DeletePingRecord implements journal.Pings.
func (p *pings) DeletePingRecord(ctx context.Context, m journal.PingRecord) error {
	return p.changeOne(ctx, m.Topic, func(old journal.PingRecord) (journal.PingRecord, bool) {
		return journal.PingRecord{}, old.Pings == m.Pings && old.PingedAt.Equal(m.PingedAt)
	})
}

// changeOne stores what change makes of the ping record of a topic, if there is one and
// change returns true.
func (p *pings) changeOne(ctx context.Context, topic string, change func(old journal.PingRecord) (journal.PingRecord, bool)) error {
	return p.change(ctx, fetchedScript, p.conn.key.topic(topic).partition, []string{topic}, func(m pingRecords) (map[uuid.UUID]journal.PingRecord, error) {
		old := m.known[topic]
		if old.Pings == 0 {
			return nil, nil
		}
		next, ok := change(old)
		if !ok {
			return nil, nil
		}
		return map[uuid.UUID]journal.PingRecord{journal.TopicID(topic): next}, nil
	})
}
