package cluster

import (
	"context"
	"errors"
	"time"
)

// Node is how a hub describes itself to the others.
type Node struct {
	// ID is unique to one run of a hub. It owns the leases.
	ID string `json:"id"`
	// Name is what its operator calls it (`--node-id`).
	Name string `json:"name"`
	// Public and Admin are the addresses of its listeners, host:port, and HubURL
	// the hub URI, which is the same for all hubs of a store.
	Public  string `json:"public"`
	Admin   string `json:"admin"`
	HubURL  string `json:"hub_url"`
	Version string `json:"version"`
	// Format is the newest format of the store that it knows (Formats). Versions that are older
	// than formats report none.
	Format int `json:"format,omitempty"`
	// StartedAt is by its own clock.
	StartedAt time.Time `json:"started_at"`
	// SeenAt is when the latest heartbeat was stored, by the store's clock. The store sets
	// it.
	SeenAt time.Time `json:"-"`
}

// Store is where hubs meet. All times are the store's: a ttl begins when the store executes
// the request, which is never before it was sent. It may be shared between goroutines.
type Store interface {
	// Heartbeat says that self is live, for ttl from now, and returns all live hubs, in no
	// order. A ttl of zero says that it is no longer live.
	Heartbeat(ctx context.Context, self Node, ttl time.Duration) ([]Node, error)
	// Owners returns the id of the owner of each of the shards, in their order; empty: there
	// is no lease.
	Owners(ctx context.Context, shards []int) ([]string, error)
	// Acquire gives owner a lease of ttl on those of the shards that are free, or that it
	// owns already, and returns them. The result is right even with an error, which says
	// that the answer for other shards is unknown.
	Acquire(ctx context.Context, owner string, shards []int, ttl time.Duration) (got []int, err error)
	// Renew makes the leases of owner last for ttl from now. Lost are the shards on which it
	// no longer has a lease. For a shard in neither list the answer is unknown, and the
	// error says why.
	Renew(ctx context.Context, owner string, shards []int, ttl time.Duration) (kept, lost []int, err error)
	// Release ends the leases of owner on the shards. A lease that it does not have is no
	// error.
	Release(ctx context.Context, owner string, shards []int) error
}

// Worker does the work of the shards that this hub owns. Calls for one shard never overlap,
// with one exception: Abort may come during a Start or Finish whose context ends at that
// moment, and comes once more after that call has returned. Calls for different shards
// overlap.
type Worker interface {
	// Start begins to work on a shard, and returns when the work has begun. After an error
	// it is called again. If its context ends, Abort follows; else Finish may follow at
	// once.
	Start(ctx context.Context, shard int) error
	// Finish completes what is in flight for a shard, stores the results, forgets the
	// shard, and returns when ctx ends at the latest. Nothing may be sent for the shard
	// after that.
	Finish(ctx context.Context, shard int)
	// Abort stops all work on a shard at once, because another hub may own it: it breaks
	// off exchanges, and drops results that are not stored.
	Abort(shard int)
}

// Alone is for a store that only one process uses: this hub owns all shards, and no lease
// ends. Options.Lease has to be zero with it.
var Alone Store = alone{}

type alone struct{}

func (alone) Heartbeat(_ context.Context, self Node, _ time.Duration) ([]Node, error) {
	self.SeenAt = time.Now()
	return []Node{self}, nil
}

func (alone) Owners(_ context.Context, shards []int) ([]string, error) {
	return make([]string, len(shards)), nil
}

func (alone) Acquire(_ context.Context, _ string, shards []int, _ time.Duration) ([]int, error) {
	return shards, nil
}

func (alone) Renew(_ context.Context, _ string, shards []int, _ time.Duration) (kept, lost []int, err error) {
	return shards, nil, nil
}

func (alone) Release(context.Context, string, []int) error { return nil }

// Causes with which the context of a Start or Finish ends.
var (
	errLost     = errors.New("the lease on the shard is over")
	errUnwanted = errors.New("the shard is due to another hub")
)

// Board is where hubs on one store show each other a short text about themselves. It may
// be shared between goroutines.
type Board interface {
	// Post replaces the text of the hub id. The text is shown until life is over.
	Post(ctx context.Context, id string, text []byte, life time.Duration) error
	// Posts returns the texts of these hubs, in no order. A hub without a text is left out.
	Posts(ctx context.Context, ids []string) ([][]byte, error)
}
