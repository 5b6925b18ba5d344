package hub

import (
	"cmp"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"

	"github.com/rshub/rshub/internal/base/ingress"
)

// Rate is how many events are allowed in how much time; all of them may come at once.
// The zero Rate is no limit.
type Rate struct {
	Events int
	Per    time.Duration
}

// String says it for a person: 600 per minute.
func (r Rate) String() string { return fmt.Sprintf("%d per %s", r.Events, r.unit()) }

var units = map[time.Duration]string{time.Second: "second", time.Minute / 4: "15 seconds", time.Minute: "minute", time.Hour: "hour", 24 * time.Hour: "day"}

func (r Rate) unit() string { return cmp.Or(units[r.Per], r.Per.String()) }

// maxLimiters is how many keys are remembered for one rate. A key that was forgotten
// begins with its full rate again.
const maxLimiters = 100_000

// limiters has a limiter for each key. It may be shared between goroutines. A nil
// *limiters allows everything.
type limiters struct {
	rate  Rate
	least int        // what one hub allows at once, however many share the rate
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

// allow counts one event of key. A *refusal says that there were too many, and when
// the next one is allowed. Which ends the beginning "Too many requests" of its sentence:
// where they come from, or where they go.
func (l *limiters) allow(now time.Time, key, which string) error {
	r := l.reserve(now, key, which, 1)
	_, err := r.refusal(now)
	if err != nil {
		r.cancel(now)
	}
	return err
}

// reservation is a number of events that were counted, over the limit or not.
type reservation struct {
	rate  Rate
	n     int
	which string            // ends the sentence of its refusal, as for allow
	r     *rate.Reservation // nil: there is no limit
}

// reserve counts n events of key at once. If they are too many, the caller cancels the
// reservation.
func (l *limiters) reserve(now time.Time, key, which string, n int) reservation {
	if l == nil {
		return reservation{}
	}
	return reservation{rate: l.rate, n: n, which: which, r: l.of(now, key).ReserveN(now, n)}
}

// of is the limiter of a key, with this hub's fraction of the rate.
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

// check returns nil if key may send n bytes now, else a *refusal that says when it may. It
// counts none of them. Which ends the beginning "Too many bytes" of its sentence.
func (l *limiters) check(now time.Time, key, which string, n int64) error {
	if l == nil {
		return nil
	}
	if n > int64(l.rate.Events) {
		return refuse(rateLimited, "These are %d bytes, and the limit %s is %d per %s. Send less at once.", n, which, l.rate.Events, l.rate.unit()).retryAfter(l.rate.Per)
	}
	limiter := l.of(now, key)
	n = min(n, int64(limiter.Burst())) // all that it can have at once
	missing := float64(n) - limiter.TokensAt(now)
	if missing <= 0 {
		return nil
	}
	wait := time.Duration(missing / float64(limiter.Limit()) * float64(time.Second))
	return refuse(rateLimited, "Too many bytes %s: the limit is %d per %s. Wait and try again.", which, l.rate.Events, l.rate.unit()).retryAfter(max(wait, time.Second))
}

// spend counts n bytes of key, over the limit or not: if they are over it, the next ones
// wait longer.
func (l *limiters) spend(now time.Time, key string, n int64) {
	if l != nil && n > 0 {
		limiter := l.of(now, key)
		limiter.ReserveN(now, int(min(n, int64(limiter.Burst()))))
	}
}

// refusal returns nil, or how long to wait because the events are too many, and the error
// that says so.
func (r reservation) refusal(now time.Time) (time.Duration, error) {
	switch {
	case r.r == nil:
		return 0, nil
	case !r.r.OK():
		return r.rate.Per, refuse(rateLimited, "This counts as %d requests %s, and the limit is %s. Send less at once.", r.n, r.which, r.rate).retryAfter(r.rate.Per)
	}
	wait := r.r.DelayFrom(now)
	if wait == 0 {
		return 0, nil
	}
	return wait, refuse(rateLimited, "Too many requests %s: the limit is %s. Wait and try again.", r.which, r.rate).retryAfter(wait)
}

// cancel makes the events not count.
func (r reservation) cancel(now time.Time) {
	if r.r != nil {
		r.r.CancelAt(now)
	}
}

// addressKey and topicHostKey are the keys that publishes without a known publisher count
// for. Publishers with a token have a rate of their own at a topic's host, so that
// strangers cannot use it up.
func addressKey(addr netip.Addr) string { return "address " + ingress.Network(addr) }

func topicHostKey(host string, known bool) string { return fmt.Sprintf("%t %s", known, host) }
