package embedstore

import (
	"context"
	"fmt"
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
	pings := make(map[uuid.UUID]journal.PingRecord, len(topics)) // by topic id
	b, heads := tx.Bucket(bucketPings), tx.Bucket(bucketHeads)
	unknown := make(map[int]int) // by partition, how many of the topics have neither ping record nor head
	for _, topic := range topics {
		id := journal.TopicID(topic)
		m, ok := pings[id]
		if !ok {
			var err error
			if m, err = readPingRecord(tx, keyOf(id), topic); err != nil {
				return err
			}
			if b.Get(keyOf(id)) == nil && heads.Get(keyOf(id)) == nil {
				unknown[journal.Partition(id)]++
			}
		}
		pings[id] = m.Pinged(now)
	}
	for partition, n := range unknown {
		headless, err := readHeadless(tx, partition)
		if err != nil {
			return err
		}
		old, err := journal.PingRecordsToDelete(headless, n, func(id uuid.UUID) bool { return pings[id].Pings > 0 })
		if err != nil {
			return err
		}
		for _, id := range old {
			pings[id] = journal.PingRecord{}
		}
	}
	for id, m := range pings {
		var err error
		if m.Pings == 0 {
			err = b.Delete(keyOf(id))
		} else {
			err = b.Put(keyOf(id), journal.PackPingRecord(m))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readHeadless returns the ping records of a partition's topics without a head, by topic id; the
// zero PingRecord for one that cannot be read.
func readHeadless(tx *boltfile.Tx, partition int) (map[uuid.UUID]journal.PingRecord, error) {
	headless := make(map[uuid.UUID]journal.PingRecord)
	heads, prefix := tx.Bucket(bucketHeads), prefixOf(partition)
	err := scan(tx.Bucket(bucketPings), prefix, prefix, func(k, v []byte) (bool, error) {
		id, err := uuid.FromBytes(k[1:])
		if err != nil || heads.Get(k) != nil {
			return true, nil //nolint:nilerr // a key that no hub wrote
		}
		m, err := openPingRecord(k, v)
		if err != nil && !journal.Unreadable(err) {
			return false, err
		}
		headless[id] = m
		return true, nil
	})
	return headless, err
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
