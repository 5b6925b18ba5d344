package journal

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
)

// Mark says that somebody told the hub by a ping that a topic has something new
// (HUB-60), and what came of fetching it. There is one for each topic that was
// pinged.
type Mark struct {
	Topic string
	// Pings counts the pings, Fetched those that the last fetch which is done
	// with covers. A ping that comes while the topic is fetched leaves Pings the
	// greater, and so one more fetch to do.
	Pings, Fetched uint64
	PingedAt       time.Time // the latest
	// Tries counts the failures of the fetch that is to be done, and NextAt is
	// when it may be tried again; zero: at once.
	Tries  int
	NextAt time.Time
	// Last is what came of the latest try; its zero value: there was none yet.
	Last Fetch
}

// Waiting reports whether the topic is still to be fetched.
func (m *Mark) Waiting() bool { return m.Pings > m.Fetched }

// Fetch is the outcome of asking a topic for its content.
type Fetch struct {
	At time.Time
	// Outcome is "accepted", "duplicate", or the way in which it was refused, as
	// a publish would have been (docs/problems.md).
	Outcome string
	Detail  string    // one sentence for a person; empty where all is well
	Status  int       // of the topic's answer; 0: there was none
	ID      uuid.UUID // of the notification that is in the journal for it
}

// MaxMarks is how many topics may wait to be fetched at once (invariant 12).
const MaxMarks = 10_000

// ErrTooManyMarks says that MaxMarks topics wait already. Nothing was stored.
var ErrTooManyMarks = errors.New("too many topics wait to be fetched")

// Marks keeps the pings. It may be shared between goroutines.
type Marks interface {
	// Ping counts a ping for each of the topics, all or none, durable when it
	// returns. ErrTooManyMarks, or ErrFull: none.
	Ping(ctx context.Context, now time.Time, topics []string) error
	// Mark returns that of a topic; of one that was never pinged, a Mark with
	// only Topic set.
	Mark(ctx context.Context, topic string) (Mark, error)
	// Marks lists those of a partition by topic id, after the given one, up to
	// limit of them.
	Marks(ctx context.Context, partition int, after uuid.UUID, limit int) ([]Mark, error)
	// SetFetched stores what came of a try: Fetched, Tries, NextAt and Last of m.
	// It comes to nothing where the stored Fetched is greater already, and never
	// changes the pings.
	SetFetched(ctx context.Context, m Mark) error
	// Unmark forgets the mark of a topic, if nobody pinged it since m was read.
	Unmark(ctx context.Context, m Mark) error
}
