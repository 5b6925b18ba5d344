package egress

import (
	"context"
	"hash/maphash"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// maxBuckets bounds a Budget's memory. After a minute all places of a bucket are back, and it
// can be forgotten. To have one forgotten sooner takes more than a thousand requests a second
// to other hosts.
const maxBuckets = 1 << 16

// Budget bounds the requests that a stranger can make the hub send to a third
// party: verifications, denials, topic checks and fetches (`--verify-budget`).
// Each target has a number of places. A request takes one, which comes back as time passes,
// or at once if the target shows that it wanted the request: it echoed the challenge, or its
// topic names this hub.
//
// Some of a target's places are a reserve that strangers can't use (Asker). One requester
// gets a part of what strangers may use.
//
// A target is a host:port (HostPort), and for requests made with the context of
// Begin each address that is dialled as well, so that many names for one address
// share what the address has. A Budget may be shared between goroutines and
// should be: one for the whole hub. A nil Budget has no limits.
type Budget struct {
	// Refused is called for each request for which there was no place, to count it. It is
	// set before the first use, must not wait, and is called from many goroutines. Nil:
	// nothing is counted.
	Refused func(Refusal)
	// Live is the number of hubs that share the budget. Each has an equal part of it, rounded
	// up. It is set before the first use and must be cheap. Nil: 1.
	Live func() int

	perMinute int
	start     time.Time
	seed      maphash.Seed

	mu      sync.Mutex
	buckets *simplelru.LRU[uint64, *bucket] // by the hash of the target
}

// bucket holds the places of one target that are taken, in order of time; a minute
// later they have come back. There are never more than Budget.perMinute.
type bucket struct{ taken []*taken }

// NewBudget returns a Budget of perMinute unconfirmed requests to one target in
// any minute, all of which may be made at once. 0: no limits.
func NewBudget(perMinute int) *Budget {
	buckets, _ := simplelru.NewLRU[uint64, *bucket](maxBuckets, nil) // fails for a size below 1 only
	return &Budget{perMinute: perMinute, start: time.Now(), seed: maphash.MakeSeed(), buckets: buckets}
}

// Begin reserves a place of a host on behalf of the Asker of ctx, and returns the
// context for that one request. With it Client.Do also reserves a place of each address
// that it dials, and fails with a *BudgetError if there is none. Such a request has a
// connection of its own. Call confirm if the target wanted the request: it gives the
// places back, and may be called more than once. If the host has no place, wait is
// above 0 and says after how long there will be one, and confirm is nil.
func (b *Budget) Begin(ctx context.Context, now time.Time, host string) (_ context.Context, confirm func(), wait time.Duration) {
	if b == nil || b.perMinute <= 0 {
		return ctx, func() {}, 0 // nothing is counted
	}
	pl := &place{budget: b, asker: AskerOf(ctx), now: now, begun: time.Now()}
	if wait := pl.acquire("host " + host); wait > 0 {
		return ctx, nil, wait
	}
	return context.WithValue(ctx, placeKey{}, pl), pl.confirm, 0
}

// place is what one request reserved of a Budget.
type place struct {
	budget     *Budget
	asker      Asker
	now, begun time.Time // when it began, as the caller says and by our clock

	mu    sync.Mutex
	taken []*taken // bounded by maxAddresses + 1
}

// taken is one place of one target.
type taken struct {
	target    string
	at        time.Duration // since Budget.start
	requester uint64        // 0: not known
	reserve   uint64        // the hash of Asker.Reserve; 0: it is of the strangers' part
}

type placeKey struct{}

func placeOf(ctx context.Context) *place {
	pl, _ := ctx.Value(placeKey{}).(*place)
	return pl
}

// confirm gives back everything that the request reserved.
func (pl *place) confirm() {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	for _, t := range pl.taken {
		pl.budget.giveBack(t)
	}
	pl.taken = nil
}

// acquire acquires a place of a target and returns 0, or the time to wait for one. A
// place counts from when it is acquired: looking the name up may have taken a while.
// A nil place has no budget.
func (pl *place) acquire(target string) time.Duration {
	if pl == nil {
		return 0
	}
	t, wait := pl.budget.spend(pl.now.Add(time.Since(pl.begun)).Sub(pl.budget.start), target, pl.asker)
	if wait > 0 {
		if pl.budget.Refused != nil {
			pl.budget.Refused(RefusedBudget)
		}
		return wait
	}
	pl.mu.Lock()
	defer pl.mu.Unlock()
	pl.taken = append(pl.taken, t)
	return 0
}

// addrTarget and nameTarget are the targets as which an address, and a name behind a proxy,
// are counted.
func addrTarget(addr netip.Addr) string { return "addr " + addr.WithZone("").Unmap().String() }
func nameTarget(name string) string     { return "name " + name }

// spend returns the place that an Asker acquires of a target, or how long to wait for one.
func (b *Budget) spend(now time.Duration, target string, a Asker) (*taken, time.Duration) {
	t := &taken{target: target, at: now, requester: a.Requester}
	if a.Reserve != "" {
		t.reserve = max(maphash.String(b.seed, a.Reserve), 1)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.bucket(target)
	k.taken = slices.DeleteFunc(k.taken, func(u *taken) bool { return now-u.at >= time.Minute })
	if wait := k.claim(t, b.places()); wait > 0 {
		return nil, wait
	}
	if n := len(k.taken); n > 0 {
		t.at = max(now, k.taken[n-1].at) // the order stays if a clock goes back
	}
	k.taken = append(k.taken, t)
	return t, 0
}

// Of the places of a target at least openPlaces, and otherwise half, are for anybody,
// and the others are the reserve. One requester gets requesterPart of what is for
// anybody, and at least openPlaces: a topic check may need a HEAD and a GET.
const (
	openPlaces    = 2
	requesterPart = 2
)

// claim returns how long t has to wait if the target has so many places; 0: it may have one
// now. An Asker that already holds a place of the reserve gets its next one as a stranger
// would, so that one that keeps failing does not use up the reserve.
func (k *bucket) claim(t *taken, places int) time.Duration {
	wait := k.wait(t.at, places, func(*taken) bool { return true })
	if t.reserve != 0 && !slices.ContainsFunc(k.taken, func(u *taken) bool { return u.reserve == t.reserve }) {
		return wait
	}
	t.reserve = 0
	open := max(places-places/2, openPlaces)
	wait = max(wait, k.wait(t.at, open, func(u *taken) bool { return u.reserve == 0 }))
	if t.requester != 0 {
		each := max((open+requesterPart-1)/requesterPart, openPlaces)
		wait = max(wait, k.wait(t.at, each, func(u *taken) bool { return u.reserve == 0 && u.requester == t.requester }))
	}
	return wait
}

// wait returns how long it takes until fewer than limit of the places that count are
// taken; 0: fewer are.
func (k *bucket) wait(now time.Duration, limit int, counts func(*taken) bool) time.Duration {
	for i := len(k.taken) - 1; i >= 0; i-- {
		if counts(k.taken[i]) {
			if limit--; limit == 0 {
				return k.taken[i].at + time.Minute - now
			}
		}
	}
	return 0
}

// places is how many requests to one target this hub may make in a minute.
func (b *Budget) places() int {
	live := 1
	if b.Live != nil {
		live = max(b.Live(), 1)
	}
	return (b.perMinute + live - 1) / live
}

func (b *Budget) giveBack(t *taken) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if k, ok := b.buckets.Peek(maphash.String(b.seed, t.target)); ok {
		k.taken = slices.DeleteFunc(k.taken, func(u *taken) bool { return u == t }) // gone already if it came back by itself
	}
}

// bucket returns the bucket of a target, and forgets the one that was used least recently if
// there are too many.
func (b *Budget) bucket(target string) *bucket {
	key := maphash.String(b.seed, target) // names are foreign and may be long
	k, ok := b.buckets.Get(key)
	if !ok {
		k = new(bucket)
		b.buckets.Add(key, k)
	}
	return k
}
