package subscriptions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
)

// Record is everything that is stored for a pair of topic and callback: the subscription, and
// the request that waits to change it. Either may be nil.
type Record struct {
	Subscription *Subscription
	Request      *Request
}

// Grows reports whether a change of a record stores something new: a new request, or a new
// record. A store at its high water refuses that (Space). It accepts all other changes:
// results of deliveries, ends with their denials, activations, and the results of the
// requests that it has.
func Grows(old, next Record) bool {
	if r := next.Request; r != nil && r.Denied == "" {
		return old.Request == nil || old.Request.ID != r.ID
	}
	return old == (Record{}) && next != (Record{})
}

// Change returns what Registry.Update stores under id if r is stored there: the result of
// change, with the greater of both cursors. The result grows is that of Grows. An error is
// that of change.
func (r Record) Change(id uuid.UUID, change func(Record) (Record, error)) (next Record, grows bool, err error) {
	was := r.Subscription != nil
	var cursor journal.Cursor // change may write into r
	if was {
		cursor = r.Subscription.Cursor
	}
	if next, err = change(r); err != nil {
		return Record{}, false, err
	}
	if next.Subscription != nil {
		sub := *next.Subscription
		if sub.ID = id; was {
			sub.Cursor = journal.Merge(cursor, sub.Cursor)
		}
		next.Subscription = &sub
	}
	return next, Grows(r, next), nil
}

// ErrChangesLost says that a store does not know a counter value that it returned: that was
// too long ago, or the store lost its tail.
var ErrChangesLost = errors.New("the store does not know any more which subscriptions changed")

// FromNow is the counter value with which Registry.Changed returns no ids, but only the value to ask
// with next time. To list a shard of many subscriptions once more would cost as much as to read them.
const FromNow uint64 = math.MaxUint64

// Registry reads and changes records. It may be shared between goroutines. The caller owns
// the results.
type Registry interface {
	// Get returns a record. For an id that is not stored, it is the zero Record.
	Get(ctx context.Context, id uuid.UUID) (Record, error)
	// Update reads the record of id, hands it to change, and stores what that
	// returns in one step with the reading: durable when Update returns. An
	// error of change is returned as it is and nothing is stored. Change may be
	// called several times, though not after Update has returned, and has no effect
	// but its result. The stored cursor is merged with the returned one
	// (journal.Merge), never replaced. A record with two nils is deleted. Where the
	// store is at its high water, it refuses a change that Grows, with an error that
	// wraps journal.ErrFull.
	Update(ctx context.Context, id uuid.UUID, change func(Record) (Record, error)) (Record, error)
	// List returns records of a shard ordered by id, after the given one, up to
	// limit of them. If the store has a function to report damage to, it reports records
	// that cannot be read, and leaves them out. Otherwise they are an error.
	List(ctx context.Context, shard int, after uuid.UUID, limit int) ([]Record, error)
	// Changed returns the ids of a shard whose record was changed by Update, or
	// ended by Commit, since the counter value since, and the value to ask with
	// next time. With 0 it returns all ids, with FromNow none. It may return ids that did not change.
	// ErrChangesLost: the store does not know since, so it does not know what was changed,
	// deleted or lost.
	Changed(ctx context.Context, shard int, since uint64) (ids []uuid.UUID, next uint64, err error)
}

// History reads the stored delivery attempts of subscriptions.
type History interface {
	// Attempts returns the kept attempts, oldest first, MaxAttempts at most.
	Attempts(ctx context.Context, id uuid.UUID) ([]Attempt, error)
}

// Commit is the result of deliveries to one subscription.
type Commit struct {
	ID     uuid.UUID
	Cursor journal.Cursor
	// Attempts, Gaps and End take effect only together with the cursor. If the stored cursor
	// is already as great, they are dropped, so a commit that comes twice counts once.
	Attempts []Attempt
	Gaps     []journal.Gap
	// End, if not empty, ends the subscription for this reason at EndedAt.
	// Lease is the VerifiedAt of the lease that it ends: the one that was in force
	// when the exchange began. If that lease is over when the commit is stored,
	// the whole commit has no effect (Subscription.Apply).
	End            string
	EndedAt, Lease time.Time
}

// CommitError says for which subscriptions commits were not stored, or may not have been
// stored, and why. If an error wraps journal.ErrPacked, the stored subscription cannot be
// read, and repeating the commit does not help. Failed has at least one entry.
type CommitError struct{ Failed map[uuid.UUID]error }

// Error names a few of them, and says each reason once.
func (e *CommitError) Error() string {
	const named = 5
	ids := slices.SortedFunc(maps.Keys(e.Failed), func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	var reasons []string
	failed := map[string]string{} // which subscriptions, by the reason
	for _, id := range ids[:min(len(ids), named)] {
		switch reason := e.Failed[id].Error(); failed[reason] {
		case "":
			reasons = append(reasons, reason)
			failed[reason] = id.String()
		default:
			failed[reason] += ", " + id.String()
		}
	}
	for i, reason := range reasons {
		reasons[i] = "subscription " + failed[reason] + ": " + reason
	}
	if more := len(ids) - named; more > 0 {
		reasons = append(reasons, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(reasons, "; ")
}

// Unwrap returns all errors.
func (e *CommitError) Unwrap() []error { return slices.Collect(maps.Values(e.Failed)) }

// Committer stores the results of deliveries. It may be shared between goroutines.
type Committer interface {
	// Commit merges cursors (journal.Merge) and stores the rest, durable when it
	// returns. It never creates a subscription: it drops a commit for an id that is not
	// stored. It stores the commits of one subscription in order: if one is not stored, none
	// after it is.
	//
	// A *CommitError says that all were stored, except those of the subscriptions that it
	// names. After any other error, any of them may be stored: the store is unavailable or
	// broken. After both, the same commits may be repeated, however many of them were
	// stored. A commit that cannot be stored does not block those of other subscriptions.
	Commit(ctx context.Context, commits []Commit) error
}

// Space says whether a store has room. It may be shared between goroutines.
type Space interface {
	// Room returns nil if the store accepts new requests, and an error that wraps
	// journal.ErrFull if it is at its high water. It may be a moment late.
	Room(ctx context.Context) error
}

// Store is everything that a store implements.
type Store interface {
	Registry
	Committer
	History
	Space
}
