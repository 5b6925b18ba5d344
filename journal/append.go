package journal

import (
	"crypto/rand"
	"encoding/binary"
	"strconv"
	"time"
)

// What every store does with an entry and the head of its topic, as pure functions: a
// store only reads, compares the version, and writes what they return.

// Random returns 64 random bits.
func Random() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return binary.BigEndian.Uint64(b[:])
}

// NewVersion returns a version that no head had before.
func NewVersion() Version { return Nonce(Random()).Version() }

// Version is that of the head whose newest entry has this nonce.
func (n Nonce) Version() Version { return Version(strconv.FormatUint(uint64(n), 36)) }

// Received returns e with the fields that a store sets when it receives e at now: the
// time, a Nonce, the Size of the Body, and an ID that has the partition of the topic.
// Head.Place sets the others.
func (e Entry) Received(now time.Time, partition int) (Entry, error) {
	var err error
	if e.ID, err = NewID(now, partition); err != nil {
		return Entry{}, err
	}
	e.Nonce = Nonce(Random())
	e.ReceivedAt = now.Round(0).UTC()
	e.Size = int64(len(e.Body))
	return e, nil
}

// Interval is what is remembered of a timed entry.
func (e *Entry) Interval() Interval {
	return Interval{From: e.From, Until: e.Until, SHA256: e.SHA256, ID: e.ID, Position: e.Position}
}

// Place returns e as the entry after h, with its Position and its Seq. Its position is
// above used, which the store saw in the same partition.
func (h Head) Place(e Entry, used Position) Entry {
	e.Position = max(PositionAt(e.ReceivedAt), h.Last.Position, used) + 1
	e.Seq = h.Last.Seq + 1
	return e
}

// PositionAt is an instant as a position.
func PositionAt(t time.Time) Position { return Position(max(t.UnixNano(), 0)) }

// Append returns the head of a topic with e as its newest entry, under the version of its
// nonce.
func (h Head) Append(e Entry) Head {
	if e.Timed() {
		h.From, h.Until, h.Reset = e.From, e.Until, false
	}
	if e.Gap != nil {
		h.Gaps = AddGap(h.Gaps, *e.Gap)
	}
	h.Kind = h.Kind.Then(e.Kind)
	h.Version = e.Nonce.Version()
	h.Last, h.ID, h.SHA256, h.ReceivedAt = e.Anchor(), e.ID, e.SHA256, e.ReceivedAt
	h.Entries++
	h.Bytes += e.Size
	return h
}

// AfterReset returns the head of a topic after a Reset, under the version v.
func (h Head) AfterReset(v Version) Head {
	h.Reset, h.Kind, h.Version = true, "", v
	h.Epoch++
	return h
}

// Deletes reports whether the cut deletes the oldest entry of a topic. Received is when
// the hub received it, and retained is how many bytes of bodies the topic has.
func (c Cut) Deletes(received time.Time, retained int64) bool {
	return received.Before(c.Before) || // never before the zero time
		c.KeepBytes >= 0 && retained > c.KeepBytes
}

// Trim returns the head of a topic after its oldest entry, at an anchor and with a body of
// size bytes, was deleted. Entries before it that are missing count as deleted too.
func (h Head) Trim(at Anchor, size int64) Head {
	h.Trimmed = at
	h.Entries = int64(h.Last.Seq - min(at.Seq, h.Last.Seq)) //nolint:gosec // entries of one topic
	h.Bytes -= size
	return h
}
