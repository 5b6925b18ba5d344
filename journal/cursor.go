package journal

import (
	"cmp"
	"time"
)

// Cursor says how far one subscription got in its topic's journal, and what retries of the
// next entry need.
//
// A commit of a cursor can come late, twice, or from a hub that lost its lease.
// Merge makes that harmless: cursors are ordered by Generation, Position,
// Nudge, Attempt and Nonce, and the greater one wins with all its fields.
type Cursor struct {
	// Generation grows (MintGeneration) with a new verified subscription, a verified renewal
	// with another secret, a replay, or a move back after a lost tail, and with nothing else. It lets the
	// position go back.
	Generation uint64
	// Anchor is the last entry that was delivered or passed over.
	Anchor
	// Nudge counts the operator's "retry now" at this position, the verified renewals, and
	// the first failures of an entry in the place of a lost one: a failure, or a 410, from
	// before them does not win over them.
	Nudge uint32
	// Attempt counts the failures of the entry after Position.
	Attempt uint32

	// The other fields come with the greater cursor.

	// Step is the step on the retry ladder. It outlives a pass-over.
	Step uint32
	// NextAttemptAt is when the entry after Position may be tried again, and
	// FirstAttemptAt when it was tried first; both are zero before a failure. With
	// Attempt 0, FirstAttemptAt is since when that entry is known to be damaged.
	NextAttemptAt, FirstAttemptAt time.Time
	// LastStatus is the HTTP status of the last attempt, one of the Status
	// constants where there was no answer, and 0 before any attempt.
	LastStatus int
}

// The values of LastStatus without an HTTP answer.
const (
	StatusTimeout = -1 // the exchange took too long
	StatusConnect = -2 // no connection could be made
	StatusRefused = -3 // the address is one that egress refuses
	StatusError   = -4 // the exchange broke off
)

// Compare orders two cursors of one subscription, as cmp.Compare does. The
// first five fields decide; the others only make the order total, so that
// Merge gives the same result whichever way round it is asked.
func (c Cursor) Compare(d Cursor) int {
	return cmp.Or(
		cmp.Compare(c.Generation, d.Generation),
		cmp.Compare(c.Position, d.Position),
		cmp.Compare(c.Nudge, d.Nudge),
		cmp.Compare(c.Attempt, d.Attempt),
		cmp.Compare(c.Nonce, d.Nonce),
		cmp.Compare(c.Step, d.Step),
		c.NextAttemptAt.Compare(d.NextAttemptAt),
		c.FirstAttemptAt.Compare(d.FirstAttemptAt),
		cmp.Compare(c.LastStatus, d.LastStatus),
		cmp.Compare(c.Seq, d.Seq),
		c.Until.Compare(d.Until),
	)
}

// Merge returns the greater of two cursors. It is commutative, associative and
// idempotent.
func Merge(c, d Cursor) Cursor {
	if c.Compare(d) >= 0 {
		return c
	}
	return d
}

// MintGeneration returns a generation above stored: the greater of stored + 1
// and the store's clock in microseconds.
func MintGeneration(stored uint64, now time.Time) uint64 {
	return max(stored+1, uint64(max(now.UnixMicro(), 0)))
}
