package embedstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/journal"
)

// Head implements journal.Appender and journal.Reader.
func (t *topics) Head(ctx context.Context, topic string) (journal.Head, error) {
	h, err := read(ctx, t.folder, func(tx *boltfile.Tx) (headRecord, error) {
		return readHead(tx, keyOf(journal.TopicID(topic)), topic)
	})
	return h.Head, err
}

// headIs returns journal.ErrHeadMoved unless a topic has the version ifHead.
func (t *topics) headIs(ctx context.Context, topic string, ifHead journal.Version) error {
	_, err := read(ctx, t.folder, func(tx *boltfile.Tx) (headRecord, error) {
		return readHeadIf(tx, keyOf(journal.TopicID(topic)), topic, ifHead)
	})
	return err
}

// headRecord is what is stored of a topic.
type headRecord struct {
	journal.Head
	// timed counts the entries that had an interval, and so says which of the
	// remembered intervals is the oldest.
	timed uint64
}

// readHead returns the record of a topic; of one that has none, with only Topic
// set.
func readHead(tx *boltfile.Tx, key []byte, topic string) (headRecord, error) {
	v := tx.Bucket(bucketHeads).Get(key)
	if v == nil {
		return headRecord{Head: journal.Head{Topic: topic}}, nil
	}
	return openHead(key, v)
}

// readHeadIf is readHead with journal.ErrHeadMoved for a topic that has another version than ifHead.
func readHeadIf(tx *boltfile.Tx, key []byte, topic string, ifHead journal.Version) (headRecord, error) {
	h, err := readHead(tx, key, topic)
	if err == nil && h.Version != ifHead {
		err = journal.ErrHeadMoved
	}
	return h, err
}

// openHead reads the value of a topic: timed, then the packed head.
func openHead(key, v []byte) (h headRecord, err error) {
	timed, n := binary.Uvarint(v)
	h.timed = timed
	h.Head, err = journal.UnpackHead(v[max(n, 0):])
	if err != nil {
		return headRecord{}, fmt.Errorf("topic id %x: %w", key[1:], err)
	}
	return h, nil
}

func writeHead(tx *boltfile.Tx, key []byte, h headRecord) error {
	return tx.Bucket(bucketHeads).Put(key, append(binary.AppendUvarint(nil, h.timed), journal.PackHead(h.Head, formatOf(tx))...))
}

// Interval implements journal.Appender.
func (t *topics) Interval(ctx context.Context, topic string, from, until time.Time) (journal.Interval, error) {
	return read(ctx, t.folder, func(tx *boltfile.Tx) (found journal.Interval, err error) {
		key := keyOf(journal.TopicID(topic))
		err = scan(tx.Bucket(bucketIntervals), key, key, func(_, v []byte) (bool, error) {
			i, err := journal.UnpackInterval(v)
			if journal.Unreadable(err) {
				return true, nil // a damaged interval counts as forgotten
			}
			if err == nil && i.From.Equal(from) && i.Until.Equal(until) && i.Position > found.Position {
				found = i
			}
			return true, err
		})
		if err == nil && found.Position == 0 {
			err = journal.ErrNotFound
		}
		return found, err
	})
}

// Append implements journal.Appender.
func (t *topics) Append(ctx context.Context, now time.Time, topic string, e journal.Entry, ifHead journal.Version) (journal.Entry, error) {
	id := journal.TopicID(topic)
	key := keyOf(id)
	body := e.Body
	var err error
	if e, err = e.Received(now, journal.Partition(id)); err != nil {
		return journal.Entry{}, err
	}
	e.Body = nil

	inline, inFile := body, e.Size > inlineMax
	if inFile {
		if err := t.writeBody(ctx, topic, e.ID, body, ifHead); err != nil {
			return journal.Entry{}, err
		}
		inline = nil
	}
	var stored journal.Entry
	var after journal.Anchor
	err = t.folder.do(ctx, &boltfile.Op{Grows: true, Bytes: int64(len(inline)), Run: func(tx *boltfile.Tx) (err error) {
		stored, after, err = appendEntry(tx, key, topic, e, inline, ifHead)
		return err
	}})
	if err != nil {
		t.report(id, journal.Hint{Topic: topic}, err)
		if inFile && !boltfile.MayBeStored(err) {
			t.bodies.remove(e.ID)
		}
		return journal.Entry{}, err
	}
	stored.Body = body
	t.report(id, journal.Hint{Topic: topic, After: after, Entry: &stored}, nil)
	return stored, nil
}

// writeBody stores a large body in its file, unless the head has moved already. The append checks the
// head again.
func (t *topics) writeBody(ctx context.Context, topic string, id uuid.UUID, body []byte, ifHead journal.Version) error {
	if err := t.headIs(ctx, topic, ifHead); err != nil {
		return err
	}
	if err := t.folder.room(int64(len(body))); err != nil {
		return err
	}
	return t.bodies.write(id, body)
}

// appendEntry is the one atomic step of invariant 2. It returns the entry with its place, and the one after which it is.
func appendEntry(tx *boltfile.Tx, key []byte, topic string, e journal.Entry, inline []byte, ifHead journal.Version) (_ journal.Entry, after journal.Anchor, _ error) {
	h, err := readHeadIf(tx, key, topic, ifHead)
	if err != nil {
		return e, after, err
	}
	after = h.Last
	e = h.Place(e, 0) // the head outlives its entries, so its position is the highest seen
	at := positionKey(key, e.Position)
	err = errors.Join(tx.Bucket(bucketEntries).Put(at, entryValue(e, inline)), tx.Bucket(bucketIDs).Put(e.ID[:], at))
	if e.Timed() {
		err = errors.Join(err, remember(tx, key, h.timed, e.Interval()))
		h.timed++
	}
	h.Head = h.Append(e)
	return e, after, errors.Join(err, writeHead(tx, key, h))
}

// remember stores the interval of the n-th timed entry of a topic, in the place of the one that is
// journal.Remembered older.
func remember(tx *boltfile.Tx, key []byte, n uint64, i journal.Interval) error {
	return tx.Bucket(bucketIntervals).Put(append(bytes.Clone(key), byte(n%journal.Remembered)), journal.PackInterval(i))
}

// Reset implements journal.Appender. A topic that never had an entry has
// nothing to forget and stays without a head.
func (t *topics) Reset(ctx context.Context, topic string, ifHead journal.Version) error {
	key := keyOf(journal.TopicID(topic))
	return t.folder.do(ctx, &boltfile.Op{Run: func(tx *boltfile.Tx) error {
		h, err := readHeadIf(tx, key, topic, ifHead)
		if err != nil || h.Version == "" {
			return err
		}
		h.Head = h.AfterReset(journal.NewVersion())
		return writeHead(tx, key, h)
	}})
}

// RecordGap implements journal.Recorder.
func (t *topics) RecordGap(ctx context.Context, topic string, g journal.Gap) error {
	key := keyOf(journal.TopicID(topic))
	return t.folder.do(ctx, &boltfile.Op{Run: func(tx *boltfile.Tx) error {
		h, err := readHead(tx, key, topic)
		if err != nil || h.Version == "" {
			return err
		}
		head, news := h.Lose(g)
		if !news {
			return nil
		}
		h.Head = head
		return writeHead(tx, key, h)
	}})
}
