package delivery

import (
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/subscriptions"
)

// The machine's clock jumps by an hour and comes back. Every attempt is made when it would have
// been made without the jump: first attempts, retries, retries after a Retry-After, attempts of
// leases that are shorter than the jump, probes of suspect hosts, and deliveries of notifications
// that are published meanwhile.
func TestClockThatJumpsMovesNoAttempt(t *testing.T) {
	want := attemptsUnder(t, 0, 0)
	for name, jumps := range map[string][2]time.Duration{
		"an hour forth and back": {time.Hour, 0}, "an hour back and forth": {-time.Hour, 0},
		"forth, and further back": {time.Hour, -time.Hour}, "a year forth and back": {365 * 24 * time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(want, attemptsUnder(t, jumps[0], jumps[1])); diff != "" {
				t.Errorf("attempts at each callback, without the jumps (-) and with them (+):\n%s", diff)
			}
		})
	}
	for n := range 5 {
		if len(want[cb(n)]) < 2 {
			t.Errorf("callback %d shows nothing: %v", n, want[cb(n)])
		}
	}
}

// attemptsUnder returns when each callback got what, where the clock is first so far
// ahead after five minutes and again after ten.
func attemptsUnder(t *testing.T, first, second time.Duration) map[string][]time.Duration {
	at := make(map[string][]time.Duration)
	synctest.Test(t, func(t *testing.T) {
		var off atomic.Int64
		b := newBed(t, func(o *Options) {
			o.Clock = clock.New(func() time.Time { return time.Now().Add(time.Duration(off.Load())) })
		})
		soon := func(s *subscriptions.Subscription) { s.ExpiresAt = time.Now().Add(50 * time.Minute) }
		b.subscribe(topicA, cb(0), soon)
		b.subscribe(topicA, cb(1), soon, served)
		b.subscribe(topicA, cb(2), soon)
		b.subscribe(topicA, cb(3), soon)
		b.subscribe(topicB, cb(4), soon)
		b.set(cb(1), answers(http.StatusInternalServerError))
		b.set(cb(2), func(*http.Request, []byte) (*http.Response, error) {
			return status(http.StatusTooManyRequests, "Retry-After", time.Now().Add(3*time.Minute).UTC().Format(http.TimeFormat)), nil
		})
		b.set(cb(3), down)
		b.run()
		defer b.end()
		begun := time.Now()
		for minute := range 40 {
			switch minute {
			case 5:
				off.Store(int64(first))
			case 10:
				off.Store(int64(second))
			case 15:
				off.Store(0)
			}
			if minute%3 == 0 {
				b.publish(t, topicA, []byte("a"))
			}
			if minute%7 == 6 {
				b.publish(t, topicB, []byte("b"))
			}
			pass(time.Minute)
		}
		for n := range 5 {
			for _, got := range b.attempts(cb(n)) {
				at[cb(n)] = append(at[cb(n)], got.at.Sub(begun))
			}
		}
	})
	return at
}
