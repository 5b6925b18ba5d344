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

// Remembered is how many intervals of a topic are stored, to recognise a publish that came
// before. They outlive the bodies.
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
	// Reset says that the operator reset the topic: the next notification may start
	// anywhere.
	Reset bool
	// Epoch counts the Resets and Removes. Within one Epoch a head only goes forward. If it
	// goes back or vanishes, the store lost it.
	Epoch uint64
	// Last is the anchor of the newest entry, trimmed or not; ID, SHA256 and
	// ReceivedAt are that entry's.
	Last       Anchor
	ID         uuid.UUID
	SHA256     [32]byte
	ReceivedAt time.Time
	// Trimmed is the anchor of the newest entry that was trimmed.
	Trimmed Anchor
	// Removed is the anchor of the newest entry that Remove deleted; zero: the topic was
	// never removed.
	Removed Anchor
	// Gaps are the topic's own, oldest first, MaxGaps at most.
	Gaps []Gap
	// Entries and Bytes are what is retained.
	Entries, Bytes int64
}

// Interval is what stays stored of an accepted notification (Remembered).
type Interval struct {
	From, Until time.Time
	SHA256      [32]byte
	ID          uuid.UUID
	Position    Position
}

// Cut says what Trim deletes: entries received before Before, and the oldest ones until at
// most KeepBytes bytes of bodies are left. A zero Before and a negative KeepBytes delete
// nothing.
type Cut struct {
	Before    time.Time
	KeepBytes int64
}

// Appender stores notifications. It may be shared between goroutines.
type Appender interface {
	// Head returns the state of a topic; of one that never had an entry, a
	// Head with only Topic set.
	Head(ctx context.Context, topic string) (Head, error)
	// Interval looks among the Remembered latest timed entries of a topic for
	// the newest with this interval. ErrNotFound: there is none.
	Interval(ctx context.Context, topic string, from, until time.Time) (Interval, error)
	// Append stores e as the newest entry of topic if the head's version is
	// still ifHead, and returns it with the fields that the store sets. Three things can
	// happen. It returns nil, and the entry is durable. It returns ErrHeadMoved, or ErrFull
	// if the medium is at its high water, and nothing was stored. Or it returns another
	// error, and the entry may or may not have been stored; publish it again to find out.
	// The store copies the bytes of e.Body.
	Append(ctx context.Context, now time.Time, topic string, e Entry, ifHead Version) (Entry, error)
	// Reset lets the next notification of the topic start anywhere and be of any kind, if the
	// head's version is still ifHead; otherwise it returns ErrHeadMoved. A topic that never
	// had an entry stays as it is.
	Reset(ctx context.Context, topic string, ifHead Version) error
}

// Reader reads entries for delivery. It may be shared between goroutines.
type Reader interface {
	// Head is that of Appender.
	Head(ctx context.Context, topic string) (Head, error)
	// Find returns the notification with this id, without its body, and its
	// topic. ErrNotFound: there is none, or it was trimmed. *DamagedError: its entry
	// is damaged or missing.
	Find(ctx context.Context, id uuid.UUID) (topic string, e Entry, err error)
	// Read returns the entries after an anchor, oldest first: up to max of
	// them. They have bodies as long as these fit into maxBytes together; from the first
	// one that does not fit, Body is nil. No entries and no error: the anchor is the head.
	//
	// *TrimmedError: the entry after the anchor was trimmed.
	// *DamagedError: the entry after the anchor is damaged or missing, or its body
	// is, if that fits. Entries before a damaged one are returned without an error.
	// ErrRolledBack: the journal does not have the anchor's entry and did not
	// trim it, so it lost its tail since the anchor was read.
	// Any other error: the store did not answer. That says nothing about the entry, however
	// long it lasts.
	Read(ctx context.Context, topic string, after Anchor, max int, maxBytes int64) ([]Entry, error)
	// Body returns the payload of an entry that Read returned, after comparing its
	// length and its SHA-256. ErrNotFound: it was trimmed since. *DamagedError: it
	// is damaged or missing. Any other error is as with Read.
	Body(ctx context.Context, topic string, e Entry) ([]byte, error)
}

// Recorder stores gaps of a whole topic. It may be shared between goroutines.
type Recorder interface {
	// RecordGap joins g with the gaps of the topic's head, as Head.Lose says, and
	// is durable when it returns. A topic without a head stays as it is. RecordGap may
	// change the head's version.
	RecordGap(ctx context.Context, topic string, g Gap) error
}

// Watcher reports which topics changed.
type Watcher interface {
	// Changes returns the topics of a partition that got an entry since the
	// counter value since, and the value to ask with next time. With 0 it returns all topics of
	// the partition. It leaves out heads that cannot be read, as Trimmer.Topics does.
	Changes(ctx context.Context, partition int, since uint64) (topics []string, next uint64, err error)
	// Hints has f called with a hint of each topic that gets an entry, at once, until ctx ends. The goroutines
	// that store entries call f, several at once, so it must not wait. Hints may be lost; Changes never are.
	Hints(ctx context.Context, f func(Hint))
}

// Remover removes topics.
type Remover interface {
	// Remove deletes a topic with its entries, bodies, intervals, gaps and ping record, if
	// the head's version is still ifHead. Only Head.Tombstone stays. Entries go
	// first, in steps of bounded size; the last step is atomic and durable. After an
	// error the topic is still there, possibly with fewer entries: Remove it again.
	// ErrHeadMoved: somebody published meanwhile. A topic that never had an entry
	// loses its ping record and gets no head. Watchers get a hint of the topic.
	Remove(ctx context.Context, topic string, ifHead Version) error
}

// Trimmer deletes old entries for retention.
type Trimmer interface {
	// Topics lists the heads of a partition by topic id, after the given id,
	// up to limit of them. A store that was given a place to report damage to
	// leaves out heads that cannot be read.
	Topics(ctx context.Context, partition int, after uuid.UUID, limit int) ([]Head, error)
	// Trim deletes the oldest entries of a topic and returns its head after that. It is
	// idempotent. The time of a damaged entry is that of its position.
	Trim(ctx context.Context, topic string, cut Cut) (Head, error)
}

// Journal is everything that a store implements.
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
	// ErrFull is wrapped by the error of Append when the medium is at its high water.
	// Nothing was stored; try again later.
	ErrFull = errors.New("the store is full")
)

// TrimmedError says that entries after an anchor were trimmed. To is the newest of them:
// continue reading after it. Reason is that of the gap: GapRetention, or GapRemoved if
// their topic was removed.
type TrimmedError struct {
	To     Anchor
	Reason string
	// Again says that the changes between were received before: the Source sent them again after the journal lost them. Then
	// there is no gap.
	Again bool
}

func (e *TrimmedError) Error() string {
	return fmt.Sprintf("trimmed up to entry %d", e.To.Seq)
}
