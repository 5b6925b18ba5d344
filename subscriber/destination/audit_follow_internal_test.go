package destination

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// An audit begins when its time has come since the last one, also over a restart; it waits for a
// copy and for a sync that runs, and a sync waits for it.
func TestAuditsHaveTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		var last atomic.Pointer[time.Time]
		last.Store(&time.Time{})
		at := make(chan time.Duration, 10)
		var ready atomic.Bool
		a := &auditor{every: time.Hour, last: func() time.Time { return *last.Load() }, ready: func() error {
			if !ready.Load() {
				return errors.New("no baseline yet")
			}
			return nil
		}}
		a.audit = func(context.Context) {
			at <- time.Since(began).Round(time.Minute)
			time.Sleep(10 * time.Minute)
			now := time.Now()
			last.Store(&now)
		}
		go a.run(ctx)
		time.Sleep(65 * time.Minute)
		ready.Store(true) // the audit has waited for 5 minutes
		time.Sleep(2 * time.Minute)
		a.sync(ctx, func() {
			if since := time.Since(began).Round(time.Minute); since != 75*time.Minute {
				t.Errorf("a sync began after %v, beside the audit", since)
			}
			time.Sleep(2 * time.Hour) // a long baseline: the next audit is due in it
		})
		time.Sleep(15 * time.Minute)
		cancel()
		synctest.Wait()
		time.Sleep(20 * time.Minute)
		ctx, cancel = context.WithCancel(t.Context())
		go a.run(ctx)
		time.Sleep(60 * time.Minute)
		cancel()
		synctest.Wait()
		close(at)
		var got []time.Duration
		for since := range at {
			got = append(got, since)
		}
		if want := []time.Duration{65 * time.Minute, 195 * time.Minute, 265 * time.Minute}; !slices.Equal(got, want) {
			t.Errorf("audits began after %v, want %v", got, want)
		}
	})
}
