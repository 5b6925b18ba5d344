package hub

import (
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"
)

// Rate is how many events are let through in how much time; all of them may come
// at once. The zero Rate is no limit.
type Rate struct {
	Events int
	Per    time.Duration
}

// String says it for a person: 600 per minute.
func (r Rate) String() string { return fmt.Sprintf("%d per %s", r.Events, r.unit()) }

func (r Rate) unit() string {
	switch r.Per {
	case time.Second:
		return "second"
	case time.Minute:
		return "minute"
	case time.Hour:
		return "hour"
	case 24 * time.Hour:
		return "day"
	}
	return r.Per.String()
}

// maxLimiters is how many keys are remembered for one rate. Who is forgotten
// starts anew with a full allowance.
const maxLimiters = 100_000

// limiters holds a limiter for each key. It may be shared between goroutines. A
// nil *limiters lets everything pass.
type limiters struct {
	rate  Rate
	least int        // what one hub lets through at once, however many share the rate
	live  func() int // how many they are
	mu    sync.Mutex
	keys  *simplelru.LRU[string, *rate.Limiter]
}

func newLimiters(r Rate, least int, live func() int) *limiters {
	if r.Events <= 0 || r.Per <= 0 {
		return nil
	}
	keys, _ := simplelru.NewLRU[string, *rate.Limiter](maxLimiters, nil) // fails for a size below 1 only
	return &limiters{rate: r, least: least, live: live, keys: keys}
}

// take counts one event of key; a *refusal says that there were too many, and
// when there is room again. What ends its sentence "Too many requests": who they
// came from, or where they go.
func (l *limiters) take(now time.Time, key, what string) error {
	c := l.claim(now, key, what, 1)
	_, err := c.refusal(now)
	if err != nil {
		c.giveBack(now)
	}
	return err
}

// claim is a number of events that were counted, over the limit or not.
type claim struct {
	rate Rate
	n    int
	what string
	r    *rate.Reservation // nil: there is no limit
}

// claim counts n events of key at once. Where they are too many they have to be
// given back.
func (l *limiters) claim(now time.Time, key, what string, n int) claim {
	if l == nil {
		return claim{}
	}
	return claim{rate: l.rate, n: n, what: what, r: l.of(now, key).ReserveN(now, n)}
}

// of is the limiter of a key, with this hub's part of the rate.
func (l *limiters) of(now time.Time, key string) *rate.Limiter {
	live := max(l.live(), 1)
	limit := rate.Limit(float64(l.rate.Events) / float64(live) / l.rate.Per.Seconds())
	burst := max((l.rate.Events+live-1)/live, min(l.least, l.rate.Events))
	l.mu.Lock()
	defer l.mu.Unlock()
	limiter, ok := l.keys.Get(key)
	switch {
	case !ok:
		limiter = rate.NewLimiter(limit, burst)
		l.keys.Add(key, limiter)
	case limiter.Limit() != limit: // hubs came or went
		limiter.SetLimitAt(now, limit)
		limiter.SetBurstAt(now, burst)
	}
	return limiter
}

// room is nil where key may take n bytes now, of which it counts none; else a
// *refusal says when it may. What ends its sentence "Too many bytes".
func (l *limiters) room(now time.Time, key, what string, n int64) error {
	if l == nil {
		return nil
	}
	if n > int64(l.rate.Events) {
		return refuse(rateLimited, "These are %d bytes, and the limit %s is %d a %s. Send less at once.", n, what, l.rate.Events, l.rate.unit()).retryAfter(l.rate.Per)
	}
	limiter := l.of(now, key)
	n = min(n, int64(limiter.Burst())) // all that it can have at once
	missing := float64(n) - limiter.TokensAt(now)
	if missing <= 0 {
		return nil
	}
	wait := time.Duration(missing / float64(limiter.Limit()) * float64(time.Second))
	return refuse(rateLimited, "Too many bytes %s: the limit is %d a %s. Wait and try again.", what, l.rate.Events, l.rate.unit()).retryAfter(max(wait, time.Second))
}

// spend counts n bytes of key, whether there was room for them or not: what is
// over the limit has to be waited for by the next one.
func (l *limiters) spend(now time.Time, key string, n int64) {
	if l != nil && n > 0 {
		limiter := l.of(now, key)
		limiter.ReserveN(now, int(min(n, int64(limiter.Burst()))))
	}
}

// refusal is nil, or says that the events are too many and how long it takes
// until there is room for them.
func (c claim) refusal(now time.Time) (time.Duration, error) {
	switch {
	case c.r == nil:
		return 0, nil
	case !c.r.OK():
		return c.rate.Per, refuse(rateLimited, "This counts as %d requests %s, and the limit is %s. Send less at once.", c.n, c.what, c.rate).retryAfter(c.rate.Per)
	}
	wait := c.r.DelayFrom(now)
	if wait == 0 {
		return 0, nil
	}
	return wait, refuse(rateLimited, "Too many requests %s: the limit is %s. Wait and try again.", c.what, c.rate).retryAfter(wait)
}

// giveBack makes the events not have been.
func (c claim) giveBack(now time.Time) {
	if c.r != nil {
		c.r.CancelAt(now)
	}
}

// addressKey and topicHostKey are what publishes are counted by, where no
// publisher is known. Those with a token have an allowance of their own at a
// topic's host, so that strangers can't use it up.
func addressKey(addr netip.Addr) string { return "address " + network(addr) }

func topicHostKey(host string, known bool) string { return fmt.Sprintf("%t %s", known, host) }

// network is what counts as one requester: an IPv4 address, or an IPv6 /64,
// since that much belongs to one household.
func network(addr netip.Addr) string {
	if !addr.Is6() || addr.Is4In6() {
		return addr.String()
	}
	p, err := addr.Prefix(64)
	if err != nil {
		return addr.String()
	}
	return p.String()
}
