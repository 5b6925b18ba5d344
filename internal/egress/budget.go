package egress

import (
	"container/list"
	"context"
	"hash/maphash"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// maxBuckets bounds a Budget's memory. All places of a bucket are back, and it is
// as good as none, after a minute: to have one forgotten sooner takes more than a
// thousand requests a second to other hosts.
const maxBuckets = 1 << 16

// Budget bounds the requests that a stranger can make the hub send to a third
// party: verifications, denials, topic checks and fetches (`--verify-budget`).
// Each target has so many places; a request takes one, and a place comes back as
// time passes, or at once when the target shows that it wanted the request: it
// echoed the challenge, or its topic names this hub.
//
// A target is a host:port (HostPort), and for requests made with the context of
// Begin each address that is dialled as well, so that many names for one address
// share what the address has. A Budget may be shared between goroutines and
// should be: one for the whole hub. A nil Budget has no limits.
type Budget struct {
	// Refused is told of each request for which there was no place, to count it.
	// It is set before the first use, must not wait, and is called from many
	// goroutines. Nil: nobody is told.
	Refused func(Refusal)
	// Live is the number of hubs that share the budget: each has its part of it,
	// rounded up. It is set before the first use and must be cheap. Nil: 1.
	Live func() int

	perMinute int
	start     time.Time
	seed      maphash.Seed

	mu      sync.Mutex
	buckets map[uint64]*list.Element // of *bucket
	recent  list.List                // most recently used first
}

// bucket holds when the places of one target were taken, since Budget.start and
// in order; a minute later they have come back. There are never more than
// Budget.perMinute.
type bucket struct {
	key   uint64
	taken []time.Duration
}

// NewBudget returns a Budget of perMinute unconfirmed requests to one target in
// any minute, all of which may be made at once. 0: no limits.
func NewBudget(perMinute int) *Budget {
	return &Budget{
		perMinute: perMinute,
		start:     time.Now(),
		seed:      maphash.MakeSeed(),
		buckets:   map[uint64]*list.Element{},
	}
}

// Begin takes a place of a host, and returns a context under which Client.Do
// takes a place of each address that it dials, and fails with a *BudgetError
// where there is none. Such a request has a connection of its own. Confirm the
// Place if the target wanted the request. Where the host has no place, ok is
// false, the Place is nil, and wait says after how long there will be one.
func (b *Budget) Begin(ctx context.Context, now time.Time, host string) (_ context.Context, pl *Place, wait time.Duration, ok bool) {
	if b.unlimited() {
		return ctx, &Place{}, 0, true // there is nothing to count
	}
	pl = &Place{budget: b, now: now, begun: time.Now()}
	if wait := pl.take("host " + host); wait > 0 {
		return ctx, nil, wait, false
	}
	return context.WithValue(ctx, placeKey{}, pl), pl, 0, true
}

// Place is what one request took of a Budget.
type Place struct {
	budget     *Budget
	now, begun time.Time // when it began, as the caller says and by our clock

	mu    sync.Mutex
	taken []taken // bounded by maxAddresses + 1
}

type taken struct {
	target string
	at     time.Duration
}

type placeKey struct{}

func placeOf(ctx context.Context) *Place {
	pl, _ := ctx.Value(placeKey{}).(*Place)
	return pl
}

// Confirm gives everything back that the request took. It may be called more
// than once, and on nil.
func (pl *Place) Confirm() {
	if pl == nil {
		return
	}
	pl.mu.Lock()
	defer pl.mu.Unlock()
	for _, t := range pl.taken {
		pl.budget.giveBack(t)
	}
	pl.taken = nil
}

// take takes a place of a target and returns 0, or the time to wait for one. A
// place counts from when it is taken: looking the name up may have taken a while.
func (pl *Place) take(target string) time.Duration {
	if pl == nil || pl.budget.unlimited() {
		return 0
	}
	at, wait := pl.budget.take(pl.now.Add(time.Since(pl.begun)), target)
	if wait > 0 {
		return wait
	}
	pl.mu.Lock()
	defer pl.mu.Unlock()
	pl.taken = append(pl.taken, taken{target, at})
	return 0
}

// addrTarget and nameTarget are what an address, and a name behind a proxy, are
// counted as.
func addrTarget(addr netip.Addr) string { return "addr " + addr.WithZone("").Unmap().String() }
func nameTarget(name string) string     { return "name " + name }

func (b *Budget) unlimited() bool { return b == nil || b.perMinute <= 0 }

// take returns when the place counts as taken, or how long to wait for one.
func (b *Budget) take(now time.Time, target string) (at, wait time.Duration) {
	at, wait = b.spend(now.Sub(b.start), target)
	if wait > 0 && b.Refused != nil {
		b.Refused(RefusedBudget)
	}
	return at, wait
}

func (b *Budget) spend(now time.Duration, target string) (at, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.bucket(target)
	back := 0
	for back < len(t.taken) && now-t.taken[back] >= time.Minute {
		back++
	}
	t.taken = slices.Delete(t.taken, 0, back)
	n, places := len(t.taken), b.places()
	if n >= places {
		return 0, t.taken[n-places] + time.Minute - now
	}
	if n > 0 {
		now = max(now, t.taken[n-1]) // the order stays if a clock goes back
	}
	t.taken = append(t.taken, now)
	return now, 0
}

// places is how many requests to one target this hub may make in a minute.
func (b *Budget) places() int {
	live := 1
	if b.Live != nil {
		live = max(b.Live(), 1)
	}
	return (b.perMinute + live - 1) / live
}

func (b *Budget) giveBack(p taken) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.buckets[maphash.String(b.seed, p.target)]
	if !ok {
		return
	}
	t := bucketIn(e)
	if i, found := slices.BinarySearch(t.taken, p.at); found { // else it came back by itself
		t.taken = slices.Delete(t.taken, i, i+1)
	}
}

// bucket returns the bucket of a target, and forgets the one that was used least
// recently where there are too many.
func (b *Budget) bucket(target string) *bucket {
	key := maphash.String(b.seed, target) // names are foreign and may be long
	if e, ok := b.buckets[key]; ok {
		b.recent.MoveToFront(e)
		return bucketIn(e)
	}
	if len(b.buckets) >= maxBuckets {
		oldest := b.recent.Back()
		delete(b.buckets, bucketIn(oldest).key)
		b.recent.Remove(oldest)
	}
	t := &bucket{key: key}
	b.buckets[key] = b.recent.PushFront(t)
	return t
}

// bucketIn returns what an element of Budget.recent holds: never anything else.
func bucketIn(e *list.Element) *bucket {
	t, _ := e.Value.(*bucket)
	return t
}
