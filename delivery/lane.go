package delivery

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// state of a lane; doc.go draws them.
type state uint8

const (
	idle     state = iota // at the head of its topic, out of its lease, or paused
	ready                 // in a queue
	inFlight              // with a sender
	waiting               // in scheduler.timers
	parked                // waits for memory, or for a sender that a large body may have
	gone                  // ended: a ring or a sender that still has it drops it
)

// lane is one subscription that has not ended. A million of them are kept, so it is small, has few
// pointers, and has the 160 bytes of a size class of Go. The lock of sharedScheduler guards it.
type lane struct {
	id              uuid.UUID
	topic           *topicLanes
	host            *host
	texts           texts
	expires         int64 // Unix nanoseconds
	lease           int64 // the same; when it was verified, which names the lease
	cursor          cursor
	timer           int32 // its place in scheduler.timers, or -1
	inTopic, inHost int32 // its places among the lanes of topic and host
	state           state
	paused          bool // by the operator
	retryAfter      bool // its time in the timers comes from a Retry-After, and nothing shortens it
}

func (l *lane) slot() *int32 { return &l.timer }

// retrying reports whether the lane's next attempt is not the first of its
// notification.
func (l *lane) retrying() bool { return l.cursor.attempt > 0 }

// set copies what a lane needs of a subscription, except the cursor.
func (l *lane) set(s *subscriptions.Subscription) {
	if l.texts == (texts{}) || l.texts.secret() != s.Secret {
		l.texts = newTexts(s.Callback, s.Secret, l.host.origin)
	}
	l.expires, l.lease = nanos(s.ExpiresAt), nanos(s.VerifiedAt)
	l.paused = !s.PausedAt.IsZero()
}

// callback returns the callback as it was given.
func (l *lane) callback() string { return l.texts.callback(l.host.origin) }

// texts are the callback and the secret of a lane. A copy stays as it is when the lane gets others.
type texts struct {
	both  string // the callback after the origin of its host, and the secret
	cut   uint32 // where the secret begins
	whole bool   // both has the whole callback, which does not begin with that origin
}

func newTexts(callback, secret, origin string) texts {
	rest, ok := strings.CutPrefix(callback, origin)
	return texts{rest + secret, uint32(len(rest)), !ok} //nolint:gosec // the length of a URL
}

func (t texts) secret() string { return t.both[t.cut:] }

// callback returns the callback as it was given.
func (t texts) callback(origin string) string {
	if t.whole {
		return t.both[:t.cut]
	}
	return origin + t.both[:t.cut]
}

// inForce reports whether the lane may get deliveries at now, in Unix nanoseconds.
func (l *lane) inForce(now int64) bool { return !l.paused && l.expires > now }

// anchor is a journal.Anchor in 40 bytes and without a pointer.
type anchor struct {
	position journal.Position
	nonce    journal.Nonce
	seq      uint64
	until    int64 // Unix seconds
	untilNs  int32
}

func packAnchor(a journal.Anchor) anchor {
	return anchor{a.Position, a.Nonce, a.Seq, a.Until.Unix(), int32(a.Until.Nanosecond())} //nolint:gosec // below 1e9
}

func (a anchor) unpack() journal.Anchor {
	return journal.Anchor{Position: a.position, Nonce: a.nonce, Seq: a.seq, Until: a.instant()}
}

// instant is the anchor's until.
func (a anchor) instant() time.Time { return time.Unix(a.until, int64(a.untilNs)).UTC() }

// same reports whether two anchors name the same entry. The nonce of one that is damaged
// may not be known, and is zero then.
func (a anchor) same(b anchor) bool {
	return a.position == b.position && (a.nonce == b.nonce || a.nonce == 0 || b.nonce == 0)
}

// cursor is a journal.Cursor in 72 bytes and without a pointer. It has the fields of an anchor, and
// not an anchor: that would end with an unused hole.
type cursor struct {
	position       journal.Position
	nonce          journal.Nonce
	seq            uint64
	until          int64
	untilNs        int32
	nudge, attempt uint32
	step           uint16
	status         int16
	generation     uint64
	next, first    int64 // Unix nanoseconds, 0 for none
}

func packCursor(c journal.Cursor) cursor {
	return cursor{
		nudge: c.Nudge, attempt: c.Attempt,
		step:       uint16(min(c.Step, math.MaxUint16)),
		status:     int16(max(math.MinInt16, min(c.LastStatus, math.MaxInt16))),
		generation: c.Generation,
		next:       nanos(c.NextAttemptAt), first: nanos(c.FirstAttemptAt),
	}.at(packAnchor(c.Anchor))
}

func (c cursor) anchor() anchor { return anchor{c.position, c.nonce, c.seq, c.until, c.untilNs} }

// at is the cursor with another anchor.
func (c cursor) at(a anchor) cursor {
	c.position, c.nonce, c.seq, c.until, c.untilNs = a.position, a.nonce, a.seq, a.until, a.untilNs
	return c
}

func (c cursor) unpack() journal.Cursor {
	return journal.Cursor{
		Generation: c.generation, Anchor: c.anchor().unpack(),
		Nudge: c.nudge, Attempt: c.attempt, Step: uint32(c.step),
		NextAttemptAt: instant(c.next), FirstAttemptAt: instant(c.first),
		LastStatus: int(c.status),
	}
}

// moveTo is the cursor after the notification that ends at a was delivered or
// passed over. The caller sets the step of the ladder.
func (c cursor) moveTo(a anchor) cursor {
	c.nudge, c.attempt, c.next, c.first = 0, 0, 0, 0
	return c.at(a)
}

// failures is how often e failed, the entry after the cursor. What failed before the hub accepted e was
// another entry in its place, which the store has lost.
func (c cursor) failures(e *journal.Entry) uint32 {
	if c.first < nanos(e.ReceivedAt) {
		return 0
	}
	return c.attempt
}

// nanos is t in Unix nanoseconds, and 0 for the zero time.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func instant(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// members are the lanes of a topic or a host. A walk goes from the last to the first. To remove
// a lane moves the last one into its place, so a walk in progress misses none.
type members struct {
	lanes []*lane
	walk  int // lanes[:walk] are still to be walked
}

func (m *members) add(l *lane, at *int32) {
	*at = int32(len(m.lanes)) //nolint:gosec // lanes in memory
	m.lanes = append(m.lanes, l)
}

// remove removes the lane at i; place returns where a lane keeps its index.
func (m *members) remove(i int32, place func(*lane) *int32) {
	last := len(m.lanes) - 1
	moved := m.lanes[last]
	m.lanes[i] = moved
	*place(moved) = i
	m.lanes[last] = nil
	m.lanes = m.lanes[:last]
	m.walk = min(m.walk, last)
}

// next returns the next lane of the walk, nil at its end.
func (m *members) next() *lane {
	if m.walk == 0 {
		return nil
	}
	m.walk--
	return m.lanes[m.walk]
}

func inTopic(l *lane) *int32 { return &l.inTopic }
func inHost(l *lane) *int32  { return &l.inHost }

// byID are the lanes of a shard in the order of their ids: a map of as many would need five times
// the memory. Stores list subscriptions in this order, mostly, so that most come last.
type byID []*lane

func (b byID) find(id uuid.UUID) (int, bool) {
	if n := len(b); n == 0 || bytes.Compare(b[n-1].id[:], id[:]) < 0 {
		return n, false // while a shard is read
	}
	return slices.BinarySearchFunc(b, id, func(l *lane, id uuid.UUID) int { return bytes.Compare(l.id[:], id[:]) })
}

// get returns the lane of a subscription; nil: there is none.
func (b byID) get(id uuid.UUID) *lane {
	if i, ok := b.find(id); ok {
		return b[i]
	}
	return nil
}

// add adds a lane that is not there.
func (b *byID) add(l *lane) {
	i, _ := b.find(l.id)
	*b = slices.Insert(*b, i, l)
}

// remove removes a lane, if it is there.
func (b *byID) remove(l *lane) {
	if i, ok := b.find(l.id); ok && (*b)[i] == l {
		*b = slices.Delete(*b, i, i+1)
	}
}

// all yields the lanes.
func (b *byID) all(yield func(*lane) bool) { slices.Values(*b)(yield) }
