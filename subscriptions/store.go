package subscriptions

import (
	"context"
	"errors"
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
	// (journal.Merge), never replaced. A record with two nils is deleted.
	Update(ctx context.Context, id uuid.UUID, change func(Record) (Record, error)) (Record, error)
	// List returns records of a shard ordered by id, after the given one, up to
	// limit of them. What cannot be read of them is left out, so that the rest
	// goes on, where the store was given somebody to tell; else it is an error.
	List(ctx context.Context, shard int, after uuid.UUID, limit int) ([]Record, error)
	// Requests lists the pending requests of a shard by subscription id, after
	// the given one, up to limit of them. It leaves out what List does.
	Requests(ctx context.Context, shard int, after uuid.UUID, limit int) ([]Request, error)
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
	// End, where not empty, ends the subscription for this reason at EndedAt,
	// unless its stored generation is another one by now.
	End     string
	EndedAt time.Time
}

// Committer stores what delivery did. It may be shared between goroutines.
type Committer interface {
	// Commit merges cursors (journal.Merge) and stores the rest, durable when it
	// returns. It never creates a subscription: a commit for an id that has none
	// is dropped. An error says that some or all may not have been stored; the
	// same commits may be given again. One that wraps journal.ErrPacked says that
	// some are for records that cannot be read, and that all others were stored.
	Commit(ctx context.Context, commits []Commit) error
}

// Store is all of it, as a store offers it.
type Store interface {
	Registry
	Committer
	History
}
