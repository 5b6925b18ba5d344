package history

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"

	"github.com/rshub/rshub/journal"
)

// MaxTopics is how many topics a stream can have.
const MaxTopics = 32

// Position is the place of a reader: for each of its topics the anchor of the entry that it got
// last. Its text is opaque to readers. It may name an entry that the journal no longer has, or
// never had; that is a gap, and not an error.
type Position []Place

// Place is the place of a reader in one topic.
type Place struct {
	// Topic is the beginning of the topic's id, which is different for each topic of one stream.
	Topic uint64
	After journal.Anchor
}

// errPosition is the error for a text that no hub wrote.
var errPosition = errors.New("it is not a position that a hub gave out")

// positionFormat is the first byte of a position.
const positionFormat = 1

// topicKey is how a Position names a topic.
func topicKey(topic string) uint64 {
	id := journal.TopicID(topic)
	return binary.BigEndian.Uint64(id[:8])
}

// PositionOf returns the position after an entry of one topic.
func PositionOf(topic string, after journal.Anchor) Position {
	return Position{{topicKey(topic), after}}
}

// After returns the anchor of a topic, and whether p has one.
func (p Position) After(topic string) (journal.Anchor, bool) {
	key := topicKey(topic)
	for _, place := range p {
		if place.Topic == key {
			return place.After, true
		}
	}
	return journal.Anchor{}, false
}

// String writes p as letters, digits, "-" and "_": 54 characters for a topic.
func (p Position) String() string { return string(p.append(nil)) }

// appendLine appends the line of an event that has p as its id, and ends the event.
func (p Position) appendLine(text []byte) []byte {
	return append(p.append(append(text, "id: "...)), "\n\n"...)
}

// append appends what String returns.
func (p Position) append(text []byte) []byte {
	b := append(make([]byte, 0, 128), positionFormat)
	for _, place := range p {
		b = binary.BigEndian.AppendUint64(b, place.Topic)
		b = binary.AppendUvarint(b, uint64(place.After.Position))
		b = binary.BigEndian.AppendUint64(b, uint64(place.After.Nonce))
		b = binary.AppendUvarint(b, place.After.Seq)
		b = appendTime(b, place.After.Until)
	}
	return base64.RawURLEncoding.AppendEncode(text, b)
}

// appendTime packs an instant, which may be zero.
func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return binary.AppendUvarint(b, 0)
	}
	b = binary.AppendUvarint(b, uint64(t.Nanosecond())+1) //nolint:gosec // below a second
	return binary.AppendVarint(b, t.Unix())
}

// ParsePosition reads what Position.String wrote.
func ParsePosition(s string) (Position, error) {
	const longest = 4 + (1+MaxTopics*(8+10+8+10+5+10))*4/3
	if len(s) > longest {
		return nil, errPosition
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(b) == 0 || b[0] != positionFormat {
		return nil, errPosition
	}
	u := unpacker{b: b[1:]}
	var p Position
	for len(u.b) > 0 && !u.bad {
		place := Place{Topic: u.fixed()}
		place.After.Position = journal.Position(u.uvarint())
		place.After.Nonce = journal.Nonce(u.fixed())
		place.After.Seq = u.uvarint()
		place.After.Until = u.time()
		p = append(p, place)
	}
	if u.bad || len(p) == 0 || len(p) > MaxTopics {
		return nil, errPosition
	}
	return p, nil
}

// unpacker reads values in turn. After the end it returns zeros, and bad is set.
type unpacker struct {
	b   []byte
	bad bool
}

func (u *unpacker) skip(n int) {
	if n <= 0 {
		n, u.bad = len(u.b), true
	}
	u.b = u.b[n:]
}

func (u *unpacker) fixed() uint64 {
	if len(u.b) < 8 {
		u.skip(0)
		return 0
	}
	defer u.skip(8)
	return binary.BigEndian.Uint64(u.b)
}

func (u *unpacker) uvarint() uint64 {
	v, n := binary.Uvarint(u.b)
	u.skip(n)
	return v
}

func (u *unpacker) time() time.Time {
	nanos := u.uvarint()
	if nanos == 0 {
		return time.Time{}
	}
	seconds, n := binary.Varint(u.b)
	u.skip(n)
	const latest = 253402300799 // 9999-12-31T23:59:59Z
	if nanos > uint64(time.Second) || seconds < -latest || seconds > latest {
		u.bad = true
		return time.Time{}
	}
	return time.Unix(seconds, int64(nanos-1)).UTC()
}
