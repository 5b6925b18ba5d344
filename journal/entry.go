package journal

import (
	"encoding/binary"
	"hash/fnv"
	"time"

	"github.com/google/uuid"
)

// Partitions is the number of topic partitions, and of subscription shards, in
// every store. It is part of the stored format.
const Partitions = 256

// Position orders the entries of one topic. It is the store's clock in
// nanoseconds since the Unix epoch when the entry was appended, moved up where
// needed so that it rises strictly: max(clock, highest seen) + 1. Zero stands
// before the first entry.
type Position uint64

// Time returns about when the entry at p was appended.
func (p Position) Time() time.Time {
	return time.Unix(0, int64(p)).UTC() //nolint:gosec // a clock, until the year 2262
}

// Nonce is drawn at random for each entry, so that a position which was used
// again after a store lost its tail is told from the one that was lost.
type Nonce uint64

// Kind says what a topic carries. Empty: nothing that counts, so that the next entry
// may be of any kind.
type Kind string

// The kinds of a topic.
const (
	KindChange    Kind = "change"    // ResourceSync Change Notifications
	KindFramework Kind = "framework" // ResourceSync Framework Notifications
	KindContent   Kind = "content"   // any other WebSub content
)

// Then returns the kind of a topic of kind k after next, where it takes that. The
// first notification settles it; content settles nothing, since an anonymous ping is
// enough to have the hub find some (HUB-57, HUB-60).
func (k Kind) Then(next Kind) Kind {
	if next == "" || k != "" && k != KindContent {
		return k
	}
	return next
}

// Anchor names one entry of a topic from the outside: enough to read on after
// it, to tell that the journal still has it, and to say what lies between two
// of them. The zero Anchor stands before a topic's first entry.
type Anchor struct {
	Position Position
	// Nonce is that of the entry. Zero at a Position that is not: the entry is
	// damaged, so that its nonce is not known, and no reader compares it.
	Nonce Nonce
	// Seq numbers the entries of a topic densely from 1, so that lag and gaps
	// can be counted after a trim.
	Seq uint64
	// Until is the end of the entry's interval, or the time it was received
	// where it has none.
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
	// Gap is what this entry leaves out after the one before it. It is set
	// where a gap was accepted (`--continuity=flag`, a reset) and is kept with
	// the head of the topic.
	Gap *Gap

	// Body is the payload. Read leaves it nil where it did not fit the
	// caller's limit; Reader.Body fetches it then. Bodies are shared: nobody
	// writes to one.
	Body []byte
}

// Anchor returns the anchor of e.
func (e *Entry) Anchor() Anchor {
	return Anchor{Position: e.Position, Nonce: e.Nonce, Seq: e.Seq, Until: e.End()}
}

// Timed reports whether e has an interval, and so takes part in continuity.
func (e *Entry) Timed() bool { return !e.From.IsZero() && !e.Until.IsZero() }

// End is Until, or ReceivedAt where the entry has no interval.
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
	GapExpired     = "expired"      // the lease ran out and was not taken up again in time
	GapRemoved     = "removed"      // ended, or removed with its topic, by the operator
	GapSource      = "source"       // the Source left it out, accepted under --continuity=flag
	GapReset       = "reset"        // the operator reset the topic
	GapRolledBack  = "rolled_back"  // the store lost its tail
	GapDamaged     = "damaged"      // what is stored of it is damaged
)

// MaxGaps is how many gaps a subscription, or a topic's head, keeps.
const MaxGaps = 100

// Gap is an interval whose notifications were not delivered, or not received.
type Gap struct {
	From, Until time.Time // either may be zero: not known
	Count       uint64    // notifications in it; 0 where it cannot be known
	Reason      string
	At          time.Time // when it was recorded, the latest time where several coalesced
	// Position and Seq, of a topic's own gap, are those of the newest entry that
	// was known when it was recorded: whoever began there or before lacks what the
	// gap names, whatever the clocks of the hubs say. Zero: not known.
	Position Position
	Seq      uint64
}

// AddGap records g in gaps, oldest first, and returns the result. A gap that
// begins where the last one of the same reason ended is joined with it. Over
// MaxGaps the two oldest are joined, under the reason of the newer and over
// the whole interval, so that the count is kept and nothing is lost silently.
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
		Position: max(a.Position, b.Position), Seq: max(a.Seq, b.Seq),
	}
}

// TopicID is the id of a topic: the UUIDv5 of its URL in the URL namespace.
func TopicID(topic string) uuid.UUID { return uuid.NewSHA1(uuid.NameSpaceURL, []byte(topic)) }

// Partition tells which of the Partitions a topic id belongs to, or which shard
// a subscription id: its 16 bytes' FNV-32a hash modulo Partitions.
func Partition(id uuid.UUID) int {
	h := fnv.New32a()
	_, _ = h.Write(id[:]) // a hash never fails
	return int(h.Sum32() % Partitions)
}

// NewID mints the id of a notification: a UUIDv7 of now whose last byte is the
// partition of its topic, so that the id alone leads to the partition.
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

// IDPartition is the partition that NewID put into id.
func IDPartition(id uuid.UUID) int { return int(id[15]) }
