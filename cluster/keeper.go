package cluster

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Options are what a Keeper works with. Store, Part and Self are required.
type Options struct {
	Store Store
	Part  Part
	Self  Node
	// Lease is how long a share of a hub that died waits for another one
	// (`--owner-lease`). Zero: leases do not end, as with Alone.
	Lease time.Duration
	// Drain is how long the Part may take to yield a shard.
	Drain time.Duration
	// Event is told what happens. It must not wait. Nil: nobody is told.
	Event func(Event)
}

// Limits that are no settings.
const (
	takesAtOnce = 8           // shards that the Part is told to take at a time
	longestTick = time.Second // between looks at who lives
	releaseTime = 2 * time.Second
	// farewell is what the end may take beyond Options.Drain, to hand back what
	// was yielded last.
	farewell = 800 * time.Millisecond
	// startGrace is what the start may wait, beyond the time of a lease, for the
	// first shard.
	startGrace = 5 * time.Second
)

// Tick is the time between two heartbeats of a hub with a lease.
func Tick(lease time.Duration) time.Duration { return min(longestTick, lease/30) }

// StartLimit is how long a hub with a lease may wait for its first shard.
func StartLimit(lease time.Duration) time.Duration { return lease + startGrace }

// Keeper holds the shards that its hub should own. Its methods may be called
// from several goroutines. A shard goes through these states:
//
//	            its own by Place, and free: Acquire
//	┌──────┐ ──────────────────────────────────────> ┌────────┐
//	│ free │                                         │ taking │ Part.Take, again after an error
//	└──────┘ <──────────┐                            └────────┘
//	   ^  ^             │ another's by Place: Part.Cut,  │  │
//	   │  │             └──────────── Release ───────────┘  │ done
//	   │  │ Release                                         v
//	   │  └───────── ┌──────────┐  another's by Place   ┌──────┐
//	   │  Part.Yield │ yielding │ <──────────────────── │ held │
//	   │     is done └──────────┘  or the hub ends      └──────┘
//	   │
//	   │ when no Take or Yield goes on     ┌──────┐
//	   └────────────────────────────────── │ lost │ <── any but free: the lease is over by the
//	                        Part.Cut       └──────┘     own clock, or the store says it is lost
//
// In taking, held and yielding the shard is owned: there is a lease, and every
// third of its time it is renewed. By the hub's monotonic clock it lasts from the
// moment before the store was asked for it, and a tenth less than the store gives,
// in which work is broken off; so it is over here before it is over there. A Take or
// Yield under way has its context ended when the shard is lost.
type Keeper struct {
	o     Options
	tick  time.Duration
	renew time.Duration // between renewals
	base  time.Time     // what monotonic times count from
	poke  chan struct{} // a lease may be over earlier than guard thinks
	ready chan struct{} // closed when begun is set
	slots chan struct{} // one for each Take at a time
	work  sync.WaitGroup

	until [Shards]atomic.Int64 // end of the lease, nanoseconds since base; 0: none
	live  atomic.Int64
	begun atomic.Bool
	ended atomic.Int64 // when the context of Run ended; 0: it has not

	mu      sync.Mutex
	shares  [Shards]share
	nodes   []Node // that live, by name; self is among them
	placed  int64  // when the first placement was done; 0: not yet
	due     int    // shards that the latest placement gives to this hub
	settled bool   // everything was as Place says when last looked at
	trouble trouble
	news    [len(newsOf)][]int // shards, until they are told of

	// Run's alone: when owners were read last, and leases renewed.
	looked, renewed int64
}

// share is a shard as seen by a Keeper.
type share struct {
	state   state
	cancel  context.CancelCauseFunc // of the Take or Yield that goes on; nil: none does
	leave   context.CancelFunc      // says that a Take is not wanted any more
	cutting bool                    // lose calls Cut
	// releasing: the store is being asked to end the lease.
	releasing bool
}

type state uint8

const (
	free state = iota
	taking
	held
	yielding
	lost
	states // how many there are
)

// owned tells whether there is a lease.
func (s state) owned() bool { return s == taking || s == held || s == yielding }

// New returns a Keeper that owns nothing until Run.
func New(o Options) *Keeper {
	k := &Keeper{
		o: o, base: time.Now(), tick: longestTick, renew: time.Hour,
		poke: make(chan struct{}, 1), slots: make(chan struct{}, takesAtOnce),
		ready: make(chan struct{}), nodes: []Node{o.Self},
	}
	if o.Lease > 0 {
		k.tick, k.renew = Tick(o.Lease), o.Lease/3
	}
	if k.o.Event == nil {
		k.o.Event = func(Event) {}
	}
	k.live.Store(1)
	return k
}

// Owns tells whether this hub owns a shard now. It costs next to nothing, and is
// to be asked before anything goes out that another hub may send as well.
func (k *Keeper) Owns(shard int) bool { return k.now() < k.until[shard].Load() }

// Live is how many hubs live, this one included: by it limits are divided that
// are for all of them together.
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

// Nodes returns the hubs that lived when the store was asked last.
func (k *Keeper) Nodes() []Node {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.nodes)
}

// now is the monotonic time. It is never 0.
func (k *Keeper) now() int64 { return int64(time.Since(k.base)) + 1 }

// limit bounds one question to the store, so that a renewal may fail twice before
// a lease is over.
func (k *Keeper) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if k.o.Lease == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, k.o.Lease/6)
}

// Run owns what it should until ctx ends. Then it tells the other hubs, has
// everything yielded within Options.Drain, and hands it back. It returns at most
// a second after that, also when the store does not answer: EventKept then names
// the shards that other hubs get only when the lease is over. Run may be called
// once. It returns nil: what it can't do now it does later.
func (k *Keeper) Run(ctx context.Context) error {
	// Leases are kept, and their ends minded, until everything is handed back.
	keeping, done := context.WithCancel(context.WithoutCancel(ctx))
	var guard sync.WaitGroup
	guard.Go(func() { k.guard(keeping) })
	defer guard.Wait()
	defer done()
	defer context.AfterFunc(ctx, k.leaving)() // a question to the store may still be under way

	ticker := time.NewTicker(k.tick)
	defer ticker.Stop()
	ready := k.ready
	for ctx.Err() == nil {
		k.step(ctx)
		select {
		case <-ctx.Done():
		case <-ticker.C:
		case <-ready: // it is told of without a tick's delay
			ready = nil
		}
	}
	k.leaving()
	k.leave(keeping, ticker.C)
	return nil
}

// leaving notes that the end has begun.
func (k *Keeper) leaving() { k.ended.CompareAndSwap(0, k.now()) }

// left is how much of a time is left: all of it, but at the end what is left of it
// since that began.
func (k *Keeper) left(of time.Duration) time.Duration {
	if at := k.ended.Load(); at != 0 {
		return of - time.Duration(k.now()-at)
	}
	return of
}

// step is what is done every tick.
func (k *Keeper) step(ctx context.Context) {
	unrenewed := k.renewLeases(ctx)
	nodes, err := k.heartbeat(ctx, k.o.Lease)
	if err == nil {
		k.meet(nodes)
		err = k.settle(ctx)
	}
	if ctx.Err() == nil {
		k.note(cmp.Or(unrenewed, err))
	}
	k.mu.Lock()
	k.countBegun() // its time may be over
	k.mu.Unlock()
	k.tell()
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
	for shard := range k.shares {
		if which(k.shares[shard].state) {
			shards = append(shards, shard)
		}
	}
	return shards
}

// leave hands everything back. All of it has one time, counted from when the end
// began.
func (k *Keeper) leave(ctx context.Context, tick <-chan time.Time) {
	ctx, cancel := context.WithTimeout(ctx, k.left(k.o.Drain+farewell))
	defer cancel()
	k.work.Go(func() { k.sayGoodbye(ctx) })
	for _, shard := range k.in(state.owned) {
		k.give(ctx, shard)
	}
	ended := make(chan struct{})
	go func() { k.work.Wait(); close(ended) }()
	for {
		select {
		case <-ended:
			k.tell()
			return
		case <-ctx.Done(): // a Part that does not keep to its time is on its own
			k.hearUnreleased()
			k.tell()
			return
		case <-tick:
			_ = k.renewLeases(ctx) // at the next tick, or they end by themselves
		}
	}
}

// hearUnreleased notes the shards whose leases the store has not ended yet.
func (k *Keeper) hearUnreleased() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for shard := range k.shares {
		if sh := &k.shares[shard]; sh.state.owned() || sh.releasing {
			k.hearLocked(EventKept, shard)
		}
	}
}

// sayGoodbye tells the other hubs that this one ends, which they else see when its
// lease is over.
func (k *Keeper) sayGoodbye(ctx context.Context) {
	for ctx.Err() == nil {
		if _, err := k.heartbeat(ctx, 0); err == nil {
			return
		}
		pause(ctx, k.tick)
	}
}
