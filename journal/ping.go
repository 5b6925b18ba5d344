package journal

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
)

// PingRecord says that a ping announced something new at a topic (HUB-60), and what the
// result of fetching it was. Each topic that was pinged has one.
type PingRecord struct {
	Topic string
	// Pings counts the pings, and Fetched those that the last finished fetch covers. After a
	// ping during a fetch, Pings is greater, so one more fetch follows.
	Pings, Fetched uint64
	PingedAt       time.Time // the latest
	// Tries counts the failures of the fetch that waits, and NextAt is when it may be tried
	// again; zero: at once.
	Tries  int
	NextAt time.Time
	// Last is the result of the latest try; zero: there was none yet.
	Last Fetch
}

// Waiting reports whether the topic has to be fetched.
func (m PingRecord) Waiting() bool { return m.Pings > m.Fetched }

// Pinged returns m after one more ping.
func (m PingRecord) Pinged(now time.Time) PingRecord {
	m.Pings++
	m.PingedAt = now.Round(0).UTC()
	return m
}

// AfterFetch returns the stored record m after SetFetched(done), and whether that changes it.
// A result that is older than m changes nothing. Nor does one that counts pings that m does
// not have: it belongs to a record that was deleted since.
func (m PingRecord) AfterFetch(done PingRecord) (PingRecord, bool) {
	if done.Fetched < m.Fetched || done.Fetched > m.Pings {
		return m, false
	}
	m.Fetched, m.Tries, m.NextAt, m.Last = done.Fetched, done.Tries, done.NextAt, done.Last
	return m, true
}

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

// MaxPingRecords is how many topics without a head may have a ping record in one partition
// (invariant 12). Nothing was accepted of these topics yet, so anyone can name them. The
// number of the others is bounded by the heads.
const MaxPingRecords = 128

// PingRecordsToDelete returns the topic ids of the ping records that a store deletes, so that n
// more topics of a partition can have one. Headless are the ping records of its topics without a
// head, by topic id; the zero PingRecord stands for one that cannot be read. Those of topics that
// are pinged now stay, as do those that wait. Of the others, the ones that were pinged longest ago
// go. If these are not enough, the error is ErrTooManyPings.
func PingRecordsToDelete(headless map[uuid.UUID]PingRecord, n int, pinged func(id uuid.UUID) bool) ([]uuid.UUID, error) {
	over := len(headless) + n - MaxPingRecords
	if n == 0 || over <= 0 {
		return nil, nil
	}
	var done []uuid.UUID
	for id, m := range headless {
		if !m.Waiting() && !pinged(id) {
			done = append(done, id)
		}
	}
	if len(done) < over {
		return nil, ErrTooManyPings
	}
	slices.SortFunc(done, func(a, b uuid.UUID) int {
		return cmp.Or(headless[a].PingedAt.Compare(headless[b].PingedAt), bytes.Compare(a[:], b[:]))
	})
	return done[:over], nil
}

// PingRecordKeep is how long the ping record of a topic without a head is stored after its
// last ping, so that the operator can see its result.
const PingRecordKeep = 7 * 24 * time.Hour

// ErrTooManyPings says that a topic's partition has MaxPingRecords topics without a
// head that all wait to be fetched.
var ErrTooManyPings = errors.New("too many topics wait to be fetched")

// Pings stores the ping records. It may be shared between goroutines.
type Pings interface {
	// Ping counts a ping for each of the topics, and is durable when it returns nil. After an
	// error, such as ErrTooManyPings or ErrFull, the pings of some partitions may be stored:
	// of each partition all or none. Pinging again does no harm.
	//
	// A partition has at most MaxPingRecords ping records of topics without a head. A new one
	// replaces the one that was pinged longest ago, of those that do not wait. If all wait, the
	// error is ErrTooManyPings.
	Ping(ctx context.Context, now time.Time, topics []string) error
	// PingRecord returns that of a topic; of one that was never pinged, a PingRecord with
	// only Topic set.
	PingRecord(ctx context.Context, topic string) (PingRecord, error)
	// PingRecords lists those of a partition by topic id, after the given one, up to
	// limit of them.
	PingRecords(ctx context.Context, partition int, after uuid.UUID, limit int) ([]PingRecord, error)
	// SetFetched stores the result of a try: Fetched, Tries, NextAt and Last of m,
	// as PingRecord.AfterFetch says. It changes no pings, and creates no ping record.
	SetFetched(ctx context.Context, m PingRecord) error
	// DeletePingRecord deletes the ping record of a topic, unless it was pinged since m was read.
	DeletePingRecord(ctx context.Context, m PingRecord) error
}
