package egress

import (
	"container/list"
	"context"
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

// maxBuckets bounds a Budget's memory. A bucket is full again, and as good as
// none, after a minute: to have one forgotten sooner takes more than a thousand
// requests a second to other hosts.
const maxBuckets = 1 << 16

// Budget bounds the requests that a stranger can make the hub send to a third
// party: verifications, denials, topic checks and fetches (`--verify-budget`). Each target
// has so many places; a request takes one, and a place comes back as time
// passes, or at once when the target shows that it wanted the request: it
// echoed the challenge, or its topic names this hub.
//
// A target is a host:port (HostPort), and for requests made with the
// context of Begin each address that is dialled as well, so that many names for one
// address share what the address has. A Budget may be shared between
// goroutines and should be: one for the whole hub. A nil Budget has no limits.
type Budget struct {
	// Refused is told of each request for which there was no place, to count it.
	// It is set before the first use, must not wait, and is called from many
	// goroutines. Nil: nobody is told.
	Refused func(Refusal)

	perMinute float64
	seed      maphash.Seed

	mu      sync.Mutex
	buckets map[uint64]*list.Element // of *bucket
	recent  list.List                // most recently used first
}

// bucket is the token bucket of one target.
type bucket struct {
	key    uint64
	places float64
	at     time.Time // when places was worked out
}

// NewBudget returns a Budget of perMinute unconfirmed requests a minute to one
// target, all of which may be made at once. 0: no limits.
func NewBudget(perMinute int) *Budget {
	return &Budget{
		perMinute: float64(perMinute),
		seed:      maphash.MakeSeed(),
		buckets:   map[uint64]*list.Element{},
	}
}

// Take takes a place of a host. Where there is none, ok is false and wait says
// after how long there will be one.
func (b *Budget) Take(now time.Time, host string) (wait time.Duration, ok bool) {
	return b.take(now, "host "+host)
}

// Confirm gives a place of a host back.
func (b *Budget) Confirm(host string) { b.giveBack("host " + host) }

// Begin takes a place of a host as Take does, and returns a context under which
// Client.Do takes a place of each address that it dials, and fails with a
// *BudgetError where there is none. Such a request has a connection of its own. The Place is
// nil where ok is false. Confirm it if the target wanted the request.
func (b *Budget) Begin(ctx context.Context, now time.Time, host string) (_ context.Context, pl *Place, wait time.Duration, ok bool) {
	if b.unlimited() {
		return ctx, &Place{}, 0, true // there is nothing to count
	}
	if wait, ok := b.Take(now, host); !ok {
		return ctx, nil, wait, false
	}
	pl = &Place{budget: b, now: now, taken: []string{"host " + host}}
	return context.WithValue(ctx, placeKey{}, pl), pl, 0, true
}

// Place is what one request took of a Budget.
type Place struct {
	budget *Budget
	now    time.Time

	mu    sync.Mutex
	taken []string // bounded by maxAddresses + 1
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
	for _, target := range pl.taken {
		pl.budget.giveBack(target)
	}
	pl.taken = nil
}

// dialling takes a place of addr and returns 0, or the time to wait for one.
func (pl *Place) dialling(addr netip.Addr) time.Duration {
	if pl == nil {
		return 0
	}
	target := "addr " + addr.WithZone("").Unmap().String()
	wait, ok := pl.budget.take(pl.now, target)
	if !ok {
		return wait
	}
	pl.mu.Lock()
	defer pl.mu.Unlock()
	pl.taken = append(pl.taken, target)
	return 0
}

func (b *Budget) unlimited() bool { return b == nil || b.perMinute <= 0 }

func (b *Budget) take(now time.Time, target string) (wait time.Duration, ok bool) {
	if b.unlimited() {
		return 0, true
	}
	wait, ok = b.spend(now, target)
	if !ok && b.Refused != nil {
		b.Refused(RefusedBudget)
	}
	return wait, ok
}

func (b *Budget) spend(now time.Time, target string) (wait time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.bucket(now, target)
	if elapsed := now.Sub(t.at); elapsed > 0 {
		t.places = min(b.perMinute, t.places+elapsed.Minutes()*b.perMinute)
		t.at = now
	}
	// A place that is short of whole by rounding alone is one.
	if missing := 1 - t.places; missing > 1e-9 {
		return time.Duration(missing/b.perMinute*float64(time.Minute)).Truncate(time.Millisecond) + time.Millisecond, false
	}
	t.places--
	return 0, true
}

func (b *Budget) giveBack(target string) {
	if b.unlimited() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if e, ok := b.buckets[maphash.String(b.seed, target)]; ok {
		t := bucketIn(e)
		t.places = min(b.perMinute, t.places+1)
	}
}

// bucket returns the bucket of a target, full if it is a new one, and forgets the
// one that was used least recently where there are too many.
func (b *Budget) bucket(now time.Time, target string) *bucket {
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
	t := &bucket{key: key, places: b.perMinute, at: now}
	b.buckets[key] = b.recent.PushFront(t)
	return t
}

// bucketIn returns what an element of Budget.recent holds: never anything else.
func bucketIn(e *list.Element) *bucket {
	t, _ := e.Value.(*bucket)
	return t
}
