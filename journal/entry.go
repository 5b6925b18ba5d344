package journal

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/google/uuid"
)

// Partitions is the number of topic partitions, and of subscription shards, in
// every store. It is part of the stored format.
const Partitions = 256

// Position orders the entries of one topic. It is the store's clock in
// nanoseconds since the Unix epoch when the entry was appended, increased if needed so that
// it only grows: max(clock, highest seen) + 1. Zero is before the first entry.
type Position uint64

// Time returns about when the entry at p was appended.
func (p Position) Time() time.Time {
	return time.Unix(0, int64(p)).UTC() //nolint:gosec // a clock, until the year 2262
}

// Nonce is a random number in each entry. If a store lost its tail and used a position
// again, the nonce distinguishes the new entry from the lost one.
type Nonce uint64

// Kind says what a topic carries. Empty: the next entry may be of any kind.
type Kind string

// The kinds of a topic.
const (
	KindChange    Kind = "change"    // ResourceSync Change Notifications
	KindFramework Kind = "framework" // ResourceSync Framework Notifications
	KindContent   Kind = "content"   // any other WebSub content
)

// Then returns the kind of a topic of kind k after an entry of kind next. The first
// notification determines it for good. Content does not, because an anonymous ping is enough
// to make the hub find some (HUB-57, HUB-60).
func (k Kind) Then(next Kind) Kind {
	if next == "" || k != "" && k != KindContent {
		return k
	}
	return next
}

// Anchor names one entry of a topic. With it a reader can continue after the entry, notice
// that the journal lost it, and count the entries between two anchors. The zero Anchor is
// before a topic's first entry.
type Anchor struct {
	Position Position
	// Nonce is that of the entry. If it is zero and Position is not, the entry is damaged
	// and its nonce unknown; then no reader compares it.
	Nonce Nonce
	// Seq numbers the entries of a topic densely from 1, so that lag and gaps
	// can be counted after a trim.
	Seq uint64
	// Until is the end of the entry's interval or, if it has none, the time it was received.
	Until time.Time
}

// Counts are how many entries of a notification report which type of change. The fields are
// those of resourcesync.Counts.
type Counts struct {
	Created uint32 `json:"created"`
	Updated uint32 `json:"updated"`
	Deleted uint32 `json:"deleted"`
}

// Entry is one accepted notification.
//
// A caller of Append fills in From to Gap and Body; the store sets the rest.
type Entry struct {
	ID         uuid.UUID // UUIDv7; its last byte is the topic's partition
	Position   Position
	Seq        uint64
	Nonce      Nonce
	ReceivedAt time.Time

	// From and Until are the notification's interval. Both are zero for plain
	// content and for a framework notification that lacks either of them.
	From, Until time.Time
	Kind        Kind
	MediaType   string   // the publisher's Content-Type, byte for byte
	Links       []string // the link-values relayed beside self and hub, each as `<target>; rel="..."`
	SHA256      [32]byte // of Body
	Counts      Counts
	Size        int64 // bytes of Body
	// Gap is the gap between the previous entry and this one, if it was accepted
	// (`--continuity=flag`, a reset). It is stored with the head of the topic.
	Gap *Gap

	// Body is the payload. It is nil if it did not fit the limit of Read; then Reader.Body
	// reads it. Bodies are shared: never write to one.
	Body []byte
}

// Anchor returns the anchor of e.
func (e *Entry) Anchor() Anchor {
	return Anchor{Position: e.Position, Nonce: e.Nonce, Seq: e.Seq, Until: e.End()}
}

// Timed reports whether e has an interval, and so takes part in continuity.
func (e *Entry) Timed() bool { return !e.From.IsZero() && !e.Until.IsZero() }

// End is Until, or ReceivedAt if the entry has no interval.
func (e *Entry) End() time.Time {
	if e.Timed() {
		return e.Until
	}
	return e.ReceivedAt
}

// Reasons of a gap.
const (
	GapRetention   = "retention"    // trimmed before it was delivered
	GapGaveUp      = "gave_up"      // --give-up passed, or refused five times
	GapGone        = "gone"         // the callback answered 410
	GapUnsubscribe = "unsubscribed" // a confirmed unsubscribe
	GapExpired     = "expired"      // the lease ran out and was not renewed in time
	GapRemoved     = "removed"      // ended, or removed with its topic, by the operator
	GapSource      = "source"       // the Source left it out, accepted under --continuity=flag
	GapReset       = "reset"        // the operator reset the topic
	GapRolledBack  = "rolled_back"  // the store lost its tail
	GapDamaged     = "damaged"      // the stored entry is damaged
)

// MaxGaps is how many gaps a subscription, or a topic's head, has at most.
const MaxGaps = 100

// Gap is an interval whose notifications were not delivered, or not received.
type Gap struct {
	From, Until time.Time // zero: unknown
	Count       uint64    // notifications in it; 0: unknown
	Reason      string
	At          time.Time // when it was recorded; of joined gaps, the latest time
	// Position and Seq, in a topic's own gap, are those of the newest known entry when it
	// was recorded. Subscriptions that began there or before have the gap, whatever the
	// clocks of the hubs say. Zero: unknown.
	Position Position
	Seq      uint64
	// After, in a topic's own gap of GapRolledBack, is the newest entry before it that the
	// journal still had, or an older one. A reader whose newest entry is in the gap reads on
	// after it. Zero: unknown. Only PackHead packs it.
	After Anchor
}

// AddGap records g in gaps, oldest first, and returns the result. A gap that
// begins where the last one of the same reason ended is joined with it. If there are more
// than MaxGaps, the two oldest are joined over the whole interval, with the reason of the
// newer one. So the count stays right and no loss is hidden.
func AddGap(gaps []Gap, g Gap) []Gap {
	if n := len(gaps); n > 0 && gaps[n-1].Reason == g.Reason && gaps[n-1].Until.Equal(g.From) {
		out := append([]Gap(nil), gaps...)
		out[n-1] = join(out[n-1], g)
		return out
	}
	out := append(append(make([]Gap, 0, len(gaps)+1), gaps...), g)
	if len(out) > MaxGaps {
		out[1] = join(out[0], out[1])
		out = out[1:]
	}
	return out
}

func join(a, b Gap) Gap {
	return Gap{
		From: a.From, Until: b.Until, Count: a.Count + b.Count, Reason: b.Reason, At: b.At,
		Position: max(a.Position, b.Position), Seq: max(a.Seq, b.Seq), After: older(a.After, b.After),
	}
}

// older returns the anchor with the lower position. An unknown one is the lowest.
func older(a, b Anchor) Anchor {
	if b.Position < a.Position {
		return b
	}
	return a
}

// TopicID returns the id of a topic: the UUIDv5 of its URL in the URL namespace.
func TopicID(topic string) uuid.UUID { return uuid.NewSHA1(uuid.NameSpaceURL, []byte(topic)) }

// Partition returns the partition of a topic id, or the shard of a subscription id: the
// FNV-32a hash of its 16 bytes modulo Partitions.
func Partition(id uuid.UUID) int {
	h := fnv.New32a()
	_, _ = h.Write(id[:]) // a hash never fails
	return int(h.Sum32() % Partitions)
}

// CheckPartition returns an error if no partition or shard has this number. The methods of a store
// that take one return it.
func CheckPartition(n int) error {
	if n < 0 || n >= Partitions {
		return fmt.Errorf("there is no partition or shard %d: they are numbered from 0 to %d", n, Partitions-1)
	}
	return nil
}

// NewID returns a new id of a notification: a UUIDv7 of now whose last byte is the partition
// of its topic, so that Find needs only the id.
func NewID(now time.Time, partition int) (uuid.UUID, error) {
	id, err := uuid.NewRandom()
	if err != nil {
		return uuid.UUID{}, err
	}
	ms := uint64(max(now.UnixMilli(), 0))
	// 48 bits of time, 4 of the version, and 12 of the random ones.
	binary.BigEndian.PutUint64(id[:], ms<<16|0x7000|uint64(id[6]&0x0f)<<8|uint64(id[7]))
	id[15] = byte(partition) //nolint:gosec // below Partitions
	return id, nil
}

// IDPartition returns the partition in an id of NewID.
func IDPartition(id uuid.UUID) int { return int(id[15]) }
