package embedstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/journal"
)

// Ping implements journal.Pings. It counts all of the topics or none.
func (p *pings) Ping(ctx context.Context, now time.Time, topics []string) error {
	o := &boltfile.Op{Grows: true, Run: func(tx *boltfile.Tx) error { return pingTopics(tx, now, topics) }}
	for _, topic := range topics {
		o.Bytes += int64(len(topic))
	}
	return p.folder.do(ctx, o)
}

func pingTopics(tx *boltfile.Tx, now time.Time, topics []string) error {
	// Read everything and find room before the first write.
	pings := make(map[string]journal.PingRecord, len(topics)) // by key
	var headless []string
	for _, topic := range topics {
		key := keyOf(journal.TopicID(topic))
		m, ok := pings[string(key)]
		if !ok {
			var err error
			if m, err = readPingRecord(tx, key, topic); err != nil {
				return err
			}
			if m.Pings == 0 && tx.Bucket(bucketHeads).Get(key) == nil {
				headless = append(headless, string(key))
			}
		}
		pings[string(key)] = m.Pinged(now)
	}
	partitions := make(map[byte]*newTopics)
	for _, key := range headless {
		p := partitions[key[0]]
		if p == nil {
			var err error
			if p, err = readNewTopics(tx, prefixOf(int(key[0])), pings); err != nil {
				return err
			}
			partitions[key[0]] = p
		}
		if !p.makeRoom() {
			return journal.ErrTooManyPings
		}
	}
	b := tx.Bucket(bucketPings)
	var err error
	for _, p := range partitions {
		for _, key := range p.forgotten {
			err = errors.Join(err, b.Delete(key))
		}
	}
	for key, m := range pings {
		err = errors.Join(err, b.Put([]byte(key), journal.PackPingRecord(m)))
	}
	return err
}

// newTopics are the topics of one partition that have a ping record and no head.
type newTopics struct {
	n         int
	done      []pingedTopic // those that do not wait, by the time of their last ping
	forgotten [][]byte      // keys
}

type pingedTopic struct {
	key      []byte
	pingedAt time.Time
}

// readNewTopics reads those of a partition. Pinged topics make no room.
func readNewTopics(tx *boltfile.Tx, prefix []byte, pinged map[string]journal.PingRecord) (*newTopics, error) {
	p := &newTopics{}
	heads := tx.Bucket(bucketHeads)
	err := scan(tx.Bucket(bucketPings), prefix, prefix, func(k, v []byte) (bool, error) {
		if heads.Get(k) != nil {
			return true, nil
		}
		p.n++
		m, err := openPingRecord(k, v)
		if journal.Unreadable(err) {
			m, err = journal.PingRecord{}, nil // the first to make room
		}
		if _, stays := pinged[string(k)]; err == nil && !m.Waiting() && !stays {
			p.done = append(p.done, pingedTopic{bytes.Clone(k), m.PingedAt})
		}
		return true, err
	})
	slices.SortFunc(p.done, func(a, b pingedTopic) int { return a.pingedAt.Compare(b.pingedAt) })
	return p, err
}

// makeRoom makes room for one more, and reports whether it could.
func (p *newTopics) makeRoom() bool {
	if p.n < journal.MaxPingRecords {
		p.n++
		return true
	}
	if len(p.done) == 0 {
		return false
	}
	p.forgotten = append(p.forgotten, p.done[0].key)
	p.done = p.done[1:]
	return true
}

// readPingRecord returns the ping record of a topic; of one that has none, with only Topic
// set. A ping record that cannot be read counts as none: the next ping makes it anew.
func readPingRecord(tx *boltfile.Tx, key []byte, topic string) (journal.PingRecord, error) {
	v := tx.Bucket(bucketPings).Get(key)
	if v == nil {
		return journal.PingRecord{Topic: topic}, nil
	}
	m, err := openPingRecord(key, v)
	if journal.Unreadable(err) {
		return journal.PingRecord{Topic: topic}, nil
	}
	return m, err
}

func openPingRecord(key, v []byte) (journal.PingRecord, error) {
	m, err := journal.UnpackPingRecord(v)
	if err != nil {
		return journal.PingRecord{}, fmt.Errorf("topic id %x: %w", key[1:], err)
	}
	return m, nil
}

// PingRecord implements journal.Pings.
func (p *pings) PingRecord(ctx context.Context, topic string) (journal.PingRecord, error) {
	return read(ctx, p.folder, func(tx *boltfile.Tx) (journal.PingRecord, error) {
		return readPingRecord(tx, keyOf(journal.TopicID(topic)), topic)
	})
}

// PingRecords implements journal.Pings.
func (p *pings) PingRecords(ctx context.Context, partition int, after uuid.UUID, limit int) ([]journal.PingRecord, error) {
	return list(ctx, p.folder, bucketPings, partition, after, limit, openPingRecord)
}

// SetFetched implements journal.Pings.
func (p *pings) SetFetched(ctx context.Context, m journal.PingRecord) error {
	return p.change(ctx, m.Topic, func(b boltfile.Bucket, key []byte, old journal.PingRecord) error {
		if next, ok := old.AfterFetch(m); ok {
			return b.Put(key, journal.PackPingRecord(next))
		}
		return nil
	})
}

// DeletePingRecord implements journal.Pings.
func (p *pings) DeletePingRecord(ctx context.Context, m journal.PingRecord) error {
	return p.change(ctx, m.Topic, func(b boltfile.Bucket, key []byte, old journal.PingRecord) error {
		if old.Pings != m.Pings || !old.PingedAt.Equal(m.PingedAt) {
			return nil
		}
		return b.Delete(key)
	})
}

// change has change write what becomes of a topic's ping record, if it has one.
func (p *pings) change(ctx context.Context, topic string, change func(b boltfile.Bucket, key []byte, old journal.PingRecord) error) error {
	key := keyOf(journal.TopicID(topic))
	return p.folder.do(ctx, &boltfile.Op{Run: func(tx *boltfile.Tx) error {
		old, err := readPingRecord(tx, key, topic)
		if err != nil || old.Pings == 0 {
			return err
		}
		return change(tx.Bucket(bucketPings), key, old)
	}})
}
