package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Version is the opaque version of a topic's head. It changes with each Append,
// Reset and Remove. The empty Version is that of a topic that has no head yet.
type Version string

// Remembered is how many intervals of a topic are remembered for recognising a
// publish that came before. They outlive the bodies.
const Remembered = 64

// Head is the state of a topic. It outlives the entries.
type Head struct {
	Topic   string
	Version Version // empty: the topic has had no entry
	// Kind goes from content to notifications and never back, as Kind.Then says,
	// until Reset or Remove clears it.
	Kind Kind
	// From and Until are the interval of the newest timed entry, zero before
	// there was one.
	From, Until time.Time
	// Reset says that the operator told the hub to forget Until: the next
	// notification may start anywhere.
	Reset bool
	// Epoch counts how often the topic was made to forget on purpose: Reset and
	// Remove raise it. Within one Epoch a head only goes forward; one that goes back or vanishes
	// was lost by the store.
	Epoch uint64
	// Last is the anchor of the newest entry, trimmed or not; ID, SHA256 and
	// ReceivedAt are that entry's.
	Last       Anchor
	ID         uuid.UUID
	SHA256     [32]byte
	ReceivedAt time.Time
	// Trimmed is the anchor of the newest entry that was trimmed.
	Trimmed Anchor
	// Removed is the anchor of the newest entry that Remove took away with all
	// before it; zero: the topic was never removed.
	Removed Anchor
	// Gaps are the topic's own, oldest first, MaxGaps at most.
	Gaps []Gap
	// Entries and Bytes are what is retained.
	Entries, Bytes int64
}

// Interval is what is remembered of an accepted notification.
type Interval struct {
	From, Until time.Time
	SHA256      [32]byte
	ID          uuid.UUID
	Position    Position
}

// Cut says what Trim takes away: entries received before Before, and the oldest
// ones until at most KeepBytes bytes of bodies are left. A zero Before and a
// negative KeepBytes take nothing.
type Cut struct {
	Before    time.Time
	KeepBytes int64
}

// Appender is what accepts notifications. It may be shared between goroutines.
type Appender interface {
	// Head returns the state of a topic; of one that never had an entry, a
	// Head with only Topic set.
	Head(ctx context.Context, topic string) (Head, error)
	// Interval looks among the Remembered latest timed entries of a topic for
	// the newest with this interval. ErrNotFound: there is none.
	Interval(ctx context.Context, topic string, from, until time.Time) (Interval, error)
	// Append stores e as the newest entry of topic if the head's version is
	// still ifHead, and returns it with what the store set. Three things can
	// happen: the entry is durable and nil comes back; ErrHeadMoved, or ErrFull
	// where the medium is at its high water, comes back and nothing was stored;
	// another error comes back and the entry may or may not have been stored,
	// which publishing it again will tell.
	// The store keeps e.Body's bytes, not the slice.
	Append(ctx context.Context, now time.Time, topic string, e Entry, ifHead Version) (Entry, error)
	// Reset makes the topic forget where its next notification has to start, and of
	// which kind, if the head's version is still ifHead, else ErrHeadMoved. A topic that
	// never had an entry stays as it is.
	Reset(ctx context.Context, topic string, ifHead Version) error
}

// Reader is what delivers. It may be shared between goroutines.
type Reader interface {
	// Head is that of Appender.
	Head(ctx context.Context, topic string) (Head, error)
	// Find returns the notification with this id, without its body, and its
	// topic. ErrNotFound: there is none, or it was trimmed. *DamagedError: its entry
	// is damaged or missing.
	Find(ctx context.Context, id uuid.UUID) (topic string, e Entry, err error)
	// Read returns the entries after an anchor, oldest first: up to max of
	// them, with bodies as long as these fit into maxBytes together; from the
	// first that does not fit on, Body is nil. No entries and no error: the
	// anchor is the head.
	//
	// *TrimmedError: the entry after the anchor was trimmed.
	// *DamagedError: the entry after the anchor is damaged or missing, or its body
	// is, if that fits. Entries before a damaged one come back without an error.
	// ErrRolledBack: the journal does not have the anchor's entry and did not
	// trim it, so it lost its tail since the anchor was read.
	// Any other error: the store could not answer, which says nothing about the
	// entry, however long it lasts.
	Read(ctx context.Context, topic string, after Anchor, max int, maxBytes int64) ([]Entry, error)
	// Body returns the payload of an entry that Read gave, after comparing its
	// length and its SHA-256. ErrNotFound: it was trimmed since. *DamagedError: it
	// is damaged or missing. Any other error is as with Read.
	Body(ctx context.Context, topic string, e Entry) ([]byte, error)
}

// Recorder keeps the gaps of a topic as a whole. It may be shared between
// goroutines.
type Recorder interface {
	// RecordGap joins g with the gaps of the topic's head, as Head.Lose says, and
	// is durable when it returns. A topic without a head stays as it is. The head's
	// version may change by it.
	RecordGap(ctx context.Context, topic string, g Gap) error
}

// Watcher tells which topics moved.
type Watcher interface {
	// Changes returns the topics of a partition that got an entry since the
	// counter value since, and the value to ask with next time. Asked with 0 it
	// returns all topics of the partition.
	Changes(ctx context.Context, partition int, since uint64) (topics []string, next uint64, err error)
	// Hints gives the topics that get an entry, as soon as they do, until ctx
	// ends and the channel is closed. Hints may be lost; Changes never are.
	Hints(ctx context.Context) <-chan string
}

// Remover forgets topics.
type Remover interface {
	// Remove forgets a topic with its entries, bodies, intervals, gaps and ping record, if
	// the head's version is still ifHead. Only Head.Tombstone stays. Entries go
	// first, in steps of bounded size; the last step is atomic and durable. After an
	// error the topic is still there, possibly with fewer entries: Remove it again.
	// ErrHeadMoved: somebody published meanwhile. A topic that never had an entry
	// loses its ping record and gets no head. Who watches hears of the topic.
	Remove(ctx context.Context, topic string, ifHead Version) error
}

// Trimmer is what retention works on.
type Trimmer interface {
	// Topics lists the heads of a partition by topic id, after the given id,
	// up to limit of them. A store that was given a place to report damage to
	// leaves out heads that cannot be read.
	Topics(ctx context.Context, partition int, after uuid.UUID, limit int) ([]Head, error)
	// Trim takes the oldest entries of a topic away and returns its head after
	// that. It is idempotent. For a damaged entry, its position stands for the time
	// when it was received.
	Trim(ctx context.Context, topic string, cut Cut) (Head, error)
}

// Journal is all of it, as a store offers it.
type Journal interface {
	Appender
	Reader
	Watcher
	Trimmer
	Recorder
	Remover
}

// Errors of a journal.
var (
	ErrHeadMoved  = errors.New("the topic's head has moved")
	ErrNotFound   = errors.New("not found")
	ErrRolledBack = errors.New("the journal was rolled back: it no longer has the entry that was read last")
	// ErrFull is wrapped by what Append returns when the medium is at its high
	// water. Nothing was stored; it may be tried again later.
	ErrFull = errors.New("the store is full")
)

// TrimmedError says that entries after a cursor were trimmed. To is the newest
// one that was: reading goes on after it. Reason is that of the gap: GapRetention,
// or GapRemoved where they went with their topic.
type TrimmedError struct {
	To     Anchor
	Reason string
}

func (e *TrimmedError) Error() string {
	return fmt.Sprintf("trimmed up to entry %d", e.To.Seq)
}
