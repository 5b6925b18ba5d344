package publisher

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path"
	"strings"
	"time"
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
	// above says that it is about a document whose notifications have the Source
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
// are an interval and the parts that it was split into, by until.
func (i interval) key() []byte { return append(instantKey(i.From), instantKey(i.Until)...) }

const intervalLength = 1 + 1 + 8 + 8 + 8 + 4 + 32

func (i interval) pack() []byte {
	b := make([]byte, 0, intervalLength)
	b = append(b, version, 0)
	if i.InFile {
		b[1] = 1
	}
	b = append(b, instantKey(i.Cut)...)
	b = append(b, instantKey(i.Done)...)
	b = binary.BigEndian.AppendUint64(b, uint64(max(i.Size, 0)))
	b = binary.BigEndian.AppendUint32(b, uint32(min(max(i.Entries, 0), math.MaxInt32)))
	return append(b, i.SHA256[:]...)
}

// unpackInterval reads what key and pack wrote.
func unpackInterval(key, b []byte) (interval, error) {
	if len(key) != 16 || len(b) != intervalLength || b[0] != version || b[1] > 1 {
		return interval{}, errDamaged
	}
	i := interval{
		From: instantOf(key), Until: instantOf(key[8:]), InFile: b[1] == 1,
		Cut: instantOf(b[2:]), Done: instantOf(b[10:]),
		Size:    int64(min(binary.BigEndian.Uint64(b[18:]), math.MaxInt64)),
		Entries: int(binary.BigEndian.Uint32(b[26:])),
	}
	copy(i.SHA256[:], b[30:])
	if i.From.After(i.Until) || i.Entries > math.MaxInt32 {
		return interval{}, errDamaged
	}
	return i, nil
}

// nameLayout is how the name of a copy has the beginning of its interval.
const nameLayout = "20060102T150405.000000000Z"

// nameHash is how many digits of its SHA-256 the name has: what is cut again
// after a backup was restored gets another name, as its bytes are others.
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
	if !isXML || !dashed || len(hash) != nameHash || path.Base(name) != name {
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

func unpackCursor(b []byte) (m hubCursor, err error) {
	if err := json.Unmarshal(b, &m); err != nil || m.Refused < 0 {
		return hubCursor{}, errDamaged
	}
	return m, nil
}

// moveTo is the cursor after the hub said that it has what comes before an instant.
func (m hubCursor) moveTo(until time.Time) hubCursor {
	if m.Until = until; until.After(m.Reached) {
		m.Reached = until
	}
	return m
}

// state is what an outbox knows beside its queue and its intervals.
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
	// Delivered is the beginning of the oldest interval that some hub lacks, or
	// before it.
	Delivered time.Time `json:"settled,omitzero"`
}

func unpackState(b []byte) (s state, err error) {
	if err := json.Unmarshal(b, &s); err != nil {
		return state{}, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return s, nil
}

// pack is for records that have no form of their own.
func pack(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // numbers, strings and times of four-digit years always encode
	}
	return b
}
