package subscriptions

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/base/clock"
)

// A machine's clock that jumps by a day and comes back ends no subscription, and one
// that is verified meanwhile gets its whole lease.
func TestClockThatJumpsEndsNothing(t *testing.T) {
	const before, during = "https://callback.example/before", "https://callback.example/during"
	for _, jump := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
		t.Run(fmt.Sprint(jump), func(t *testing.T) {
			virtual(t, Options{ResumeWithin: time.Minute, LeaseDefault: 2 * time.Hour}, func(t *testing.T, w *world) {
				var off atomic.Int64
				w.o.Clock = clock.New(func() time.Time { return time.Now().Add(time.Duration(off.Load())) })
				defer w.run(t)()
				w.accept(t, subscribe(before))
				elapse(time.Minute)
				off.Store(int64(jump))
				w.accept(t, subscribe(during))
				elapse(time.Hour) // in which it goes round all shards
				off.Store(0)
				elapse(50 * time.Minute)
				for _, callback := range []string{before, during} {
					if s := w.record(callback).Subscription; s == nil || !s.Live(time.Now()) || len(s.Gaps) > 0 {
						t.Errorf("%s: %+v", callback, s)
					}
				}
				// In their time both end, but for what the jump gave.
				elapse(48 * time.Hour)
				for _, callback := range []string{before, during} {
					if s := w.record(callback).Subscription; s.EndReason != EndExpired {
						t.Errorf("%s: %+v", callback, s)
					}
				}
			})
		})
	}
}

// A hub whose machine's clock is wrong when it starts ends nothing, where the store has
// a clock of its own that knows better.
func TestClockThatIsWrongFromTheStartEndsNothing(t *testing.T) {
	const callback = "https://callback.example/cb"
	virtual(t, Options{ResumeWithin: time.Minute, LeaseDefault: 24 * time.Hour}, func(t *testing.T, w *world) {
		stop := w.run(t)
		w.accept(t, subscribe(callback))
		elapse(time.Minute)
		stop()
		var off atomic.Int64
		off.Store(int64(30 * 24 * time.Hour))
		w.o.Clock = clock.New(func() time.Time { return time.Now().Add(time.Duration(off.Load())) })
		var away atomic.Bool
		away.Store(true)
		w.o.StoreTime = func(context.Context) (time.Time, error) {
			if away.Load() {
				return time.Time{}, errors.New("the store is down")
			}
			return time.Now(), nil
		}
		defer w.run(t)()
		elapse(10 * time.Minute) // in which it goes round all shards
		away.Store(false)
		elapse(10 * time.Minute)
		off.Store(0)
		elapse(10 * time.Minute)
		if s := w.record(callback).Subscription; s == nil || !s.EndedAt.IsZero() || len(s.Gaps) > 0 {
			t.Errorf("before its lease is over: %+v", s)
		}
		elapse(24 * time.Hour)
		if s := w.record(callback).Subscription; s.EndReason != EndExpired {
			t.Errorf("when its lease is over: %+v", s)
		}
	})
}
