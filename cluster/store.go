package cluster

import (
	"context"
	"errors"
	"time"
)

// Node is a hub as it tells of itself to the others.
type Node struct {
	// ID is of one run of a hub, and no other run ever has it: the leases are in
	// this name.
	ID string `json:"id"`
	// Name is what its operator calls it (`--node-id`).
	Name string `json:"name"`
	// Public and Admin are the addresses of its listeners, host:port, and HubURL
	// the hub URI, which is the same for all hubs of a store.
	Public  string `json:"public"`
	Admin   string `json:"admin"`
	HubURL  string `json:"hub_url"`
	Version string `json:"version"`
	// StartedAt is by its own clock.
	StartedAt time.Time `json:"started_at"`
	// SeenAt is when its latest heartbeat was stored, by the store's clock. The
	// store fills it in.
	SeenAt time.Time `json:"-"`
}

// Store is where hubs meet. Every time is the store's: a ttl runs from when the
// store does what it is asked for, which is never before it was asked. It may be
// shared between goroutines.
type Store interface {
	// Heartbeat says that self lives, for ttl from now, and returns all hubs of
	// which that holds, in no order. A ttl of zero says that it lives no more.
	Heartbeat(ctx context.Context, self Node, ttl time.Duration) ([]Node, error)
	// Owners returns the id of the owner of each of the given shards, in their
	// order; an empty one: nobody has a lease.
	Owners(ctx context.Context, shards []int) ([]string, error)
	// Acquire gives owner a lease of ttl on those of the shards that nobody has
	// one on, or that it has one on itself, and returns which these are. What it
	// returns holds also where there is an error, which says that it is not known
	// of all.
	Acquire(ctx context.Context, owner string, shards []int, ttl time.Duration) (got []int, err error)
	// Renew makes the leases that owner has last for ttl from now. Lost are those
	// of the shards on which it has none any more; of a shard that is in neither
	// list it is not known, and the error says why.
	Renew(ctx context.Context, owner string, shards []int, ttl time.Duration) (kept, lost []int, err error)
	// Release ends the leases that owner has on the shards. One that it does not
	// have is no error.
	Release(ctx context.Context, owner string, shards []int) error
}

// Part is something that works on the shards that this hub owns. Calls for one
// shard never overlap, except that Cut may come during a Take or Yield whose
// context ends at that moment; then it comes once more after that has returned.
// Calls for different shards do overlap.
type Part interface {
	// Take begins to work on a shard and returns when it does. After an error it is
	// called again. When its context has ended, a Cut follows; else a Yield may follow
	// at once.
	Take(ctx context.Context, shard int) error
	// Yield finishes what is in flight of a shard, stores what came of it, forgets
	// the shard, and returns at the latest when ctx ends. Nothing may go out of it
	// after that.
	Yield(ctx context.Context, shard int)
	// Cut stops all work on a shard now, as another hub may have taken it over:
	// exchanges are broken off, and what is not stored is given up.
	Cut(shard int)
}

// Alone is for a store that one process has to itself: all shards are this hub's,
// and no lease ends. Options.Lease is to be zero with it.
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

// errors with which the context of a Take or Yield ends.
var (
	errLost     = errors.New("the lease on the shard is over")
	errUnwanted = errors.New("the shard is another hub's to take")
)
