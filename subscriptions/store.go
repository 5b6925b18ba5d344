package subscriptions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
)

// Record is all that is stored of one (topic, callback): what is in force, and
// the request that waits to change it. Either may be nil.
type Record struct {
	Subscription *Subscription
	Request      *Request
}

// Grows reports whether a change of a record stores something new: a request that
// was not there, or a record. A store at its high water refuses that (Space), and
// does everything else: results of deliveries, ends with the denials that follow,
// activations, and what becomes of the requests that it has.
func Grows(old, next Record) bool {
	if r := next.Request; r != nil && r.Denied == "" {
		return old.Request == nil || old.Request.ID != r.ID
	}
	return old == (Record{}) && next != (Record{})
}

// Change returns what Registry.Update stores under id where r is stored and change is
// called: what change returns, with the greater of both cursors. Grows reports of it
// what Grows does. An error is that of change.
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

// ErrChangesLost says that a store does not know a counter value that it gave: what
// changed since then is too long ago, or the store lost its tail.
var ErrChangesLost = errors.New("the store does not know any more which subscriptions changed")

// Registry reads and changes records. It may be shared between goroutines;
// what it returns belongs to the caller.
type Registry interface {
	// Get returns a record; of an id that is not stored, the zero Record.
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
	// limit of them. What cannot be read of them is left out, so that the rest
	// goes on, where the store was given somebody to tell; else it is an error.
	List(ctx context.Context, shard int, after uuid.UUID, limit int) ([]Record, error)
	// Changed returns the ids of a shard whose record was changed by Update, or
	// ended by Commit, since the counter value since, and the value to ask with
	// next time. Asked with 0 it returns all. It may return more than changed.
	// ErrChangesLost: the store does not know since, and neither what changed, nor
	// what was deleted or lost.
	Changed(ctx context.Context, shard int, since uint64) (ids []uuid.UUID, next uint64, err error)
}

// History is what is kept of the deliveries to one subscription.
type History interface {
	// Attempts returns the kept attempts, oldest first, MaxAttempts at most.
	Attempts(ctx context.Context, id uuid.UUID) ([]Attempt, error)
}

// Commit is what delivery has to say of one subscription.
type Commit struct {
	ID     uuid.UUID
	Cursor journal.Cursor
	// Attempts, Gaps and an End take effect only together with the cursor:
	// where the stored cursor is already as great, they are dropped, so that a
	// commit that comes twice counts once.
	Attempts []Attempt
	Gaps     []journal.Gap
	// End, where not empty, ends the subscription for this reason at EndedAt.
	// Lease is the VerifiedAt of the lease that it ends: the one that was in force
	// when the exchange began. If that lease is over when the commit is stored,
	// the whole commit has no effect (Subscription.Apply).
	End            string
	EndedAt, Lease time.Time
}

// CommitError says of which subscriptions commits were not stored, or may not have
// been, and why. An error that wraps journal.ErrPacked says that what is stored of
// the subscription cannot be read: giving the commit again is of no use. Failed has
// at least one.
type CommitError struct{ Failed map[uuid.UUID]error }

// Error names a few of them.
func (e *CommitError) Error() string {
	const named = 5
	var text strings.Builder
	for n, id := range slices.SortedFunc(maps.Keys(e.Failed), func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }) {
		if n == named {
			fmt.Fprintf(&text, "; and %d more", len(e.Failed)-named)
			break
		}
		if n > 0 {
			text.WriteString("; ")
		}
		fmt.Fprintf(&text, "subscription %v: %v", id, e.Failed[id])
	}
	return text.String()
}

// Unwrap returns all errors.
func (e *CommitError) Unwrap() []error { return slices.Collect(maps.Values(e.Failed)) }

// Committer stores what delivery did. It may be shared between goroutines.
type Committer interface {
	// Commit merges cursors (journal.Merge) and stores the rest, durable when it
	// returns. It never creates a subscription: a commit for an id that has none
	// is dropped. The commits of one subscription are stored in their order: where
	// one is not stored, none after it is.
	//
	// A *CommitError says that all were stored, except those of the subscriptions
	// that it names. Any other error says nothing of any of them: the store is away,
	// or broken.
	// After either, the same commits may be given again, however many of them were
	// stored. One that cannot be stored keeps no other one from it.
	Commit(ctx context.Context, commits []Commit) error
}

// Space is what a store knows of its room. It may be shared between goroutines.
type Space interface {
	// Room returns nil where the store takes new requests, and an error that wraps
	// journal.ErrFull where it is at its high water. It may be a moment late.
	Room(ctx context.Context) error
}

// Store is all of it, as a store offers it.
type Store interface {
	Registry
	Committer
	History
	Space
}
