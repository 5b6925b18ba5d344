package cluster

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rshub/rshub/internal/base/clock"
)

// Options are what a Keeper works with. Store, Worker and Self are required.
type Options struct {
	Store  Store
	Worker Worker
	Self   Node
	// Lease is how long the other hubs wait before they take over a dead hub's shards
	// (`--owner-lease`). Zero: leases do not end, as with Alone.
	Lease time.Duration
	// Drain is the time that the Worker has to finish with a shard.
	Drain time.Duration
	// Event is called with what happens. It must not block. Nil: it is not called.
	Event func(Event)
}

// Fixed limits.
const (
	startsAtOnce = 8           // shards that the Worker starts at a time
	longestTick  = time.Second // between heartbeats
	releaseTime  = 2 * time.Second
	// farewell is how much longer than Options.Drain a shutdown may last, to release the shards
	// that were finished last.
	farewell = 800 * time.Millisecond
	// startGrace is how much longer than a lease the start may wait for the first shard.
	startGrace = 5 * time.Second
)

// Tick is the time between two heartbeats of a hub with a lease.
func Tick(lease time.Duration) time.Duration { return min(longestTick, lease/30) }

// StartLimit is how long a hub with a lease may wait for its first shard.
func StartLimit(lease time.Duration) time.Duration { return lease + startGrace }

// Keeper keeps the leases on the shards that its hub should own. Its methods may be called
// from several goroutines. A shard goes through these states:
//
//	            due to this hub by Place, and free: Acquire
//	┌──────┐ ──────────────────────────────────────> ┌──────────┐
//	│ free │                                         │ starting │ Worker.Start, again after an error
//	└──────┘ <──────────┐                            └──────────┘
//	   ^  ^             │ due to another: Worker.Abort,  │  │
//	   │  │             └──────────── Release ───────────┘  │ started
//	   │  │ Release                                         v
//	   │  └───────────── ┌───────────┐  due to another   ┌─────────┐
//	   │   Worker.Finish │ finishing │ <──────────────── │ working │
//	   │      returned   └───────────┘  or the hub ends  └─────────┘
//	   │
//	   │ when no Start or Finish runs      ┌──────┐
//	   └────────────────────────────────── │ lost │ <── any but free: the lease is over by this
//	                        Worker.Abort   └──────┘     hub's clock, or the store says it is lost
//
// In starting, working and finishing the hub owns the shard: it has a lease, and renews it
// every third of its time. By the hub's monotonic clock a lease begins just before the
// store was asked for it, and lasts a tenth less than the store gives; that tenth is for
// aborting work. So it is over here before it is over in the store. If the shard is lost
// during a Start or Finish, the context of that call ends.
type Keeper struct {
	o     Options
	tick  time.Duration
	renew time.Duration // between renewals
	base  time.Time     // what monotonic times count from
	poke  chan struct{} // a lease may be over earlier than guard thinks
	ready chan struct{} // closed when begun is set
	slots chan struct{} // one for each Start at a time
	work  sync.WaitGroup

	until  [Shards]atomic.Int64 // end of the lease, nanoseconds since base; 0: none
	live   atomic.Int64
	begun  atomic.Bool
	ended  atomic.Int64 // when the context of Run ended; 0: it has not ended
	events events

	mu       sync.Mutex
	shards   [Shards]shard
	nodes    []Node // the live hubs by name, this one included
	placed   int64  // when the first placement was done; 0: not yet
	due      int    // shards that the latest placement gives to this hub
	balanced bool   // every owner was as Place says when last read

	// Only Run uses these: when owners were last read, and leases renewed.
	read, renewed int64
}

// shard is a shard as a Keeper sees it.
type shard struct {
	state    state
	cancel   context.CancelCauseFunc // of the Start or Finish that runs; nil: none
	unwanted context.CancelFunc      // says that a Start is no longer wanted
	// aborting: lose calls Abort. releasing: the store is being asked to end the lease.
	aborting, releasing bool
}

type state uint8

const (
	free state = iota
	starting
	working
	finishing
	lost
	states // how many there are
)

// owned reports whether there is a lease.
func (s state) owned() bool { return s == starting || s == working || s == finishing }

// New returns a Keeper that owns nothing until Run. It fails if a required option is missing.
func New(o Options) (*Keeper, error) {
	if o.Store == nil || o.Worker == nil || o.Self.ID == "" {
		return nil, errors.New("cluster: Options needs a Store, a Worker and a Self with an ID")
	}
	k := &Keeper{
		o: o, base: time.Now(), tick: longestTick, renew: time.Hour,
		poke: make(chan struct{}, 1), slots: make(chan struct{}, startsAtOnce),
		ready: make(chan struct{}), nodes: []Node{o.Self},
	}
	if o.Lease > 0 {
		k.tick, k.renew = Tick(o.Lease), o.Lease/3
	}
	if k.events.report = o.Event; o.Event == nil {
		k.events.report = func(Event) {}
	}
	k.live.Store(1)
	return k, nil
}

// Owns reports whether this hub owns a shard now. It is cheap. Ask it before sending
// anything that another hub may send as well.
func (k *Keeper) Owns(shard int) bool { return k.now() < k.until[shard].Load() }

// Live is the number of live hubs, this one included. Limits that all hubs share are
// divided by it.
func (k *Keeper) Live() int { return int(k.live.Load()) }

// Owned is how many shards this hub owns.
func (k *Keeper) Owned() (n int) {
	for shard := range Shards {
		if k.Owns(shard) {
			n++
		}
	}
	return n
}

// Nodes returns the hubs that were live when the store was last asked.
func (k *Keeper) Nodes() []Node {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.nodes)
}

// now is the monotonic time. It is never 0.
func (k *Keeper) now() int64 { return int64(time.Since(k.base)) + 1 }

// limit bounds one request to the store, so that a renewal may fail twice before a lease is
// over.
func (k *Keeper) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if k.o.Lease == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, k.o.Lease/6)
}

// Run owns the shards that are due to this hub until ctx ends. Then it informs the other hubs,
// finishes all shards within Options.Drain, and releases them. It returns at most a second later,
// even if the store does not answer: then EventKept names the shards that other hubs get only
// when the lease is over. Run may be called once. It always returns nil, because it retries
// whatever fails.
func (k *Keeper) Run(ctx context.Context) error {
	// Renew leases, and notice their ends, until everything is released.
	keeping, done := context.WithCancel(context.WithoutCancel(ctx))
	var guard sync.WaitGroup
	guard.Go(func() { k.guard(keeping) })
	defer guard.Wait()
	defer done()
	defer context.AfterFunc(ctx, k.leaving)() // a request to the store may still be under way

	ticker := time.NewTicker(k.tick)
	defer ticker.Stop()
	ready := k.ready
	for ctx.Err() == nil {
		k.step(ctx)
		select {
		case <-ctx.Done():
		case <-ticker.C:
		case <-ready: // report it now, not at the next tick
			ready = nil
		}
	}
	k.leaving()
	k.leave(keeping, ticker.C)
	return nil
}

// leaving records that the shutdown has begun.
func (k *Keeper) leaving() { k.ended.CompareAndSwap(0, k.now()) }

// left is how much of a time is left. It begins to run out when the shutdown begins.
func (k *Keeper) left(of time.Duration) time.Duration {
	if at := k.ended.Load(); at != 0 {
		return of - time.Duration(k.now()-at)
	}
	return of
}

// step does the work of one tick.
func (k *Keeper) step(ctx context.Context) {
	unrenewed := k.renewLeases(ctx)
	nodes, err := k.heartbeat(ctx, k.o.Lease)
	if err == nil {
		k.setNodes(nodes)
		err = k.rebalance(ctx)
	}
	if ctx.Err() == nil {
		k.events.store(cmp.Or(unrenewed, err))
	}
	k.mu.Lock()
	k.checkBegun() // its time may be over
	k.mu.Unlock()
	k.events.flush(k.Owned())
}

func (k *Keeper) heartbeat(ctx context.Context, ttl time.Duration) ([]Node, error) {
	ctx, cancel := k.limit(ctx)
	defer cancel()
	return k.o.Store.Heartbeat(ctx, k.o.Self, ttl)
}

// in returns the shards in certain states.
func (k *Keeper) in(which func(state) bool) (shards []int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for shard := range k.shards {
		if which(k.shards[shard].state) {
			shards = append(shards, shard)
		}
	}
	return shards
}

// leave releases everything, within one time limit that counts from the beginning of the
// shutdown.
func (k *Keeper) leave(ctx context.Context, tick <-chan time.Time) {
	ctx, cancel := context.WithTimeout(ctx, k.left(k.o.Drain+farewell))
	defer cancel()
	k.work.Go(func() { k.sayGoodbye(ctx) })
	for _, shard := range k.in(state.owned) {
		k.handBack(ctx, shard)
	}
	ended := make(chan struct{})
	go func() { k.work.Wait(); close(ended) }()
	for {
		select {
		case <-ended:
			k.events.flush(k.Owned())
			return
		case <-ctx.Done(): // the Worker did not keep to its time
			k.reportUnreleased()
			k.events.flush(k.Owned())
			return
		case <-tick:
			_ = k.renewLeases(ctx) // tried again at the next tick, or the leases end
		}
	}
}

// reportUnreleased records the shards whose leases the store has not ended yet.
func (k *Keeper) reportUnreleased() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for shard := range k.shards {
		if sh := &k.shards[shard]; sh.state.owned() || sh.releasing {
			k.events.shard(EventKept, shard)
		}
	}
}

// sayGoodbye informs the other hubs that this one ends. Without it they notice when its
// heartbeat expires.
func (k *Keeper) sayGoodbye(ctx context.Context) {
	for ctx.Err() == nil {
		if _, err := k.heartbeat(ctx, 0); err == nil {
			return
		}
		clock.Sleep(ctx, k.tick)
	}
}
