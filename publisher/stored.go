package publisher

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
)

// version is the first byte of each packed record.
const version = 1

// damagedAdvice says what to do about a damaged outbox.
const damagedAdvice = "put a backup of its folder in its place, or move it away to begin with an empty one"

var errDamaged = errors.New("the outbox is damaged: " + damagedAdvice)

// The instants that can be a key: nanoseconds of Unix that are not negative.
var (
	firstInstant = time.Unix(0, 0).UTC()
	lastInstant  = time.Unix(0, math.MaxInt64).UTC()
)

// isStorable reports whether a time can be a key.
func isStorable(t time.Time) bool { return !t.Before(firstInstant) && t.Before(lastInstant) }

// instantKey is a time as part of a key, in the order of time. The zero Time is
// before all others.
func instantKey(t time.Time) []byte {
	var key [8]byte
	if t.After(firstInstant) {
		binary.BigEndian.PutUint64(key[:], uint64(t.UnixNano()))
	}
	return key[:]
}

func instantOf(key []byte) time.Time {
	n := binary.BigEndian.Uint64(key)
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(min(n, math.MaxInt64))).UTC()
}

// queued is a change that waits to be cut: its text as it goes out.
type queued struct {
	at time.Time
	// above says that it is about a document with notifications that have the Source
	// Description above them, and not a Capability List (DOC-20).
	above bool
	text  []byte
}

const queuedHead = 1 + 1 + 8

func (q queued) pack() []byte {
	b := make([]byte, 0, queuedHead+len(q.text))
	b = append(b, version, 0)
	if q.above {
		b[1] = 1
	}
	b = append(b, instantKey(q.at)...)
	return append(b, q.text...)
}

// unpackQueued reads what pack wrote. The text is that of b.
func unpackQueued(b []byte) (queued, error) {
	if len(b) <= queuedHead || b[0] != version || b[1] > 1 {
		return queued{}, errDamaged
	}
	return queued{at: instantOf(b[2:]), above: b[1] == 1, text: b[queuedHead:]}, nil
}

// readQueued reads a value of the queue. The text is that of v.
func readQueued(queue boltfile.Bucket, k, v []byte) queued {
	q, err := unpackQueued(v)
	if err != nil {
		queue.Refuse(k, err)
	}
	return q
}

// interval is one that was cut. Its bytes never change.
type interval struct {
	From, Until time.Time
	Cut         time.Time
	Done        time.Time // when every hub had it; zero: not yet
	Size        int64
	Entries     int
	SHA256      [32]byte
	InFile      bool // else the bytes are in the database
}

// key orders intervals by from, and those that begin at the same instant, which
// are an interval and the parts that it was divided into, by until.
func (i interval) key() []byte { return append(instantKey(i.From), instantKey(i.Until)...) }

// intervalValue is the value of an interval in the database, in this order and big-endian.
type intervalValue struct {
	Version   uint8
	InFile    bool
	Cut, Done [8]byte // instantKey
	Size      int64
	Entries   int32
	SHA256    [32]byte
}

func (i interval) pack() []byte {
	v := intervalValue{version, i.InFile, [8]byte(instantKey(i.Cut)), [8]byte(instantKey(i.Done)), i.Size, int32(min(i.Entries, math.MaxInt32)), i.SHA256} //nolint:gosec // it fits
	b, _ := binary.Append(nil, binary.BigEndian, v)                                                                                                        // a value of fixed size is always encoded
	return b
}

// unpackInterval reads what key and pack wrote.
func unpackInterval(key, b []byte) (interval, error) {
	var v intervalValue
	if n, err := binary.Decode(b, binary.BigEndian, &v); err != nil || n != len(b) || len(key) != 16 || v.Version != version {
		return interval{}, errDamaged
	}
	i := interval{
		From: instantOf(key), Until: instantOf(key[8:]), InFile: v.InFile, Cut: instantOf(v.Cut[:]), Done: instantOf(v.Done[:]),
		Size: v.Size, Entries: int(v.Entries), SHA256: v.SHA256,
	}
	if i.From.After(i.Until) || i.Entries < 0 || i.Size < 0 {
		return interval{}, errDamaged
	}
	return i, nil
}

// nameLayout is how the name of a copy has the beginning of its interval.
const nameLayout = "20060102T150405.000000000Z"

// nameHash is how many digits of its SHA-256 the name has. An interval that is cut again
// after a backup was restored has other bytes, so it gets another name.
const nameHash = 32

// name is the last segment of the URL of the interval's immutable copy, and the
// name of its file.
func (i interval) name() string {
	return i.From.Format(nameLayout) + "-" + hex.EncodeToString(i.SHA256[:])[:nameHash] + ".xml"
}

// parseName returns where the interval of such a name begins.
func parseName(name string) (from time.Time, ok bool) {
	stem, isXML := strings.CutSuffix(name, ".xml")
	at, hash, dashed := strings.Cut(stem, "-")
	if !isXML || !dashed || len(hash) != nameHash || strings.Trim(hash, "0123456789abcdef") != "" {
		return time.Time{}, false
	}
	from, err := time.Parse(nameLayout, at)
	if err != nil || from.Before(firstInstant) || from.After(lastInstant) || from.Format(nameLayout) != at {
		return time.Time{}, false
	}
	return from, true
}

// hubCursor is how far a hub is, as it is stored.
type hubCursor struct {
	// Until is the watermark; zero: before all intervals.
	Until time.Time `json:"until,omitzero"`
	// Reached is the latest that the watermark was since Resume; zero: Until.
	Reached time.Time `json:"reached,omitzero"`
	// Refused is the size of the smallest notification that was too large for the
	// hub, in bytes; 0: none was.
	Refused int64 `json:"refused,omitempty"`
}

// moveTo is the cursor after the hub acknowledged everything before an instant.
func (m hubCursor) moveTo(until time.Time) hubCursor {
	if m.Until = until; until.After(m.Reached) {
		m.Reached = until
	}
	return m
}

// state is stored in an outbox beside its queue and its intervals.
type state struct {
	Topic string `json:"topic"`
	Kind  Kind   `json:"kind"`
	// Until is where the next interval begins, and Begun whether there was one.
	Until time.Time `json:"until"`
	Begun bool      `json:"begun,omitempty"`
	// Last is the time of the last change.
	Last time.Time `json:"last,omitzero"`
	// Recorded is the highest Seq.
	Recorded uint64 `json:"recorded,omitempty"`
	// RecordedAt is the time of the change with this Seq, as the caller gave it; zero: unknown.
	RecordedAt time.Time `json:"recorded_at,omitzero"`
	// Delivered is the beginning of the oldest interval that some hub lacks, or
	// before it.
	Delivered time.Time `json:"settled,omitzero"`
}
