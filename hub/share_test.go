package hub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/validate"
)

// alone is the number of hubs if there is only one.
func alone() int { return 1 }

// HUB-60: any hub records a ping, and the owner of the topic's partition fetches the topic within
// seconds.
func TestOnlyTheOwnerFetches_HUB60(t *testing.T) {
	var owned atomic.Bool
	inBed(t, func(b *bed) {
		b.web.set(topic, served("text/plain", "x"))
		b.pinged(topic)
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if n := len(b.web.times(topic)); n != 0 || !b.pingRecord(topic).Waiting() {
			t.Fatalf("%d fetches by a hub that does not own the partition; marked: %+v", n, b.pingRecord(topic))
		}
		owned.Store(true)
		time.Sleep(sweepSoon)
		synctest.Wait()
		if n := len(b.web.times(topic)); n != 1 || b.pingRecord(topic).Waiting() {
			t.Errorf("%d fetches by the owner; marked: %+v", n, b.pingRecord(topic))
		}
		// A ping that failed, and whose partition another hub owns since.
		b.web.set(topic, refusing(503, fmt.Errorf("no answer")))
		b.pinged(topic)
		n := len(b.web.times(topic))
		owned.Store(false)
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if got := len(b.web.times(topic)); got != n {
			t.Errorf("%d fetches of a partition that was lost", got-n)
		}
	}, func(o *Options) {
		o.Owns = func(int) bool { return owned.Load() }
		o.Live = func() int { return 2 }
	})
}

// HUB-60: pings from before this hub owned the partition are fetched as soon as it owns it. Each
// start of a hub is such a case.
func TestTakenPartitionsAreFetchedAtOnce_HUB60(t *testing.T) {
	var owned, broken atomic.Bool
	inBed(t, func(b *bed) {
		b.o.Pings = &brokenPings{pings: b.store, list: func() error {
			if broken.Load() {
				return errors.New("no route to host")
			}
			return nil
		}}
		b.web.set(topic, served("text/plain", "x"))
		b.pinged(topic)
		time.Sleep(time.Second)
		owned.Store(true)
		b.Acquired(journal.Partition(journal.TopicID(topic)))
		synctest.Wait()
		if n := len(b.web.times(topic)); n != 1 || b.pingRecord(topic).Waiting() {
			t.Errorf("%d fetches; marked: %+v", n, b.pingRecord(topic))
		}
		// If the store fails, only the store is waited for.
		owned.Store(false)
		b.pinged(topic)
		broken.Store(true)
		owned.Store(true)
		b.Acquired(journal.Partition(journal.TopicID(topic)))
		time.Sleep(time.Second)
		broken.Store(false)
		time.Sleep(2 * storeRest)
		synctest.Wait()
		if n := len(b.web.times(topic)); n != 2 || b.pingRecord(topic).Waiting() {
			t.Errorf("%d fetches after the store failed; marked: %+v", n, b.pingRecord(topic))
		}
	}, func(o *Options) { o.Owns = func(int) bool { return owned.Load() } })
}

// HUB-60: a ping that another hub took is seen within seconds, from the moment on
// when there is one, and hurries a fetch that failed as one that came here does.
func TestPingsAtOtherHubs_HUB60(t *testing.T) {
	live := new(atomic.Int64)
	live.Store(1)
	inBed(t, func(b *bed) {
		elsewhere := func() (at time.Time) {
			t.Helper()
			if err := b.store.Ping(b.t.Context(), time.Now(), []string{topic}); err != nil {
				t.Fatal(err)
			}
			return time.Now()
		}
		first := func(at time.Time) time.Duration {
			n := len(b.web.times(topic))
			for range 3600 {
				time.Sleep(time.Second)
				synctest.Wait()
				if times := b.web.times(topic); len(times) > n {
					return times[n].Sub(at)
				}
			}
			return time.Hour
		}
		b.web.set(topic, served("text/plain", "x"))
		live.Store(2)
		time.Sleep(time.Second)
		if took := first(elsewhere()); took > sweepSoon {
			t.Errorf("the first was fetched after %v", took)
		}
		b.web.set(topic, refusing(503, &validate.UnsureError{Reason: "the topic URI answered 503"}))
		b.pinged(topic)
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		n := len(b.web.times(topic))
		for len(b.web.times(topic)) == n { // just tried: the next is far off
			time.Sleep(time.Second)
			synctest.Wait()
		}
		b.web.set(topic, served("text/plain", "y"))
		if took := first(elsewhere()); took > sweepSoon+pingedAgain {
			t.Errorf("one that had failed was fetched after %v", took)
		}
	}, func(o *Options) { o.Live = func() int { return int(live.Load()) } })
}

// HUB-61: content that a hub was still fetching when its partition went to another,
// which fetched something newer, does not go out after that.
func TestOvertakenFetch_HUB61(t *testing.T) {
	owner := new(atomic.Int64)
	inBed(t, func(a *bed) {
		slow, first := make(chan struct{}), new(sync.Once)
		a.web.set(topic, func(ctx context.Context) (validate.Fetched, error) {
			f, err := served("text/plain", "one")(ctx)
			first.Do(func() { <-slow })
			return f, err
		})
		a.pinged(topic)
		b := &bed{store: a.store, web: &web{serve: map[string]func(context.Context) (validate.Fetched, error){}, fetched: map[string][]time.Time{}}}
		b.start(a.t, func(o *Options) {
			o.Owns = func(int) bool { return owner.Load() == 1 }
			o.Live = func() int { return 2 }
		})
		defer func() { b.stop() }()
		owner.Store(1)
		b.web.set(topic, served("text/plain", "two"))
		b.pinged(topic)
		time.Sleep(10 * time.Second)
		close(slow)
		time.Sleep(time.Minute)
		synctest.Wait()
		var got []string
		for _, e := range a.entries() {
			got = append(got, string(e.Body))
		}
		if !slices.Equal(got, []string{"two"}) || a.pingRecord(topic).Waiting() {
			t.Errorf("the journal has %q; marked: %+v", got, a.pingRecord(topic))
		}
	}, func(o *Options) {
		o.Owns = func(int) bool { return owner.Load() == 0 }
		o.Live = func() int { return 2 }
	})
}

// Each of several hubs admits its fraction of a rate, from the moment when the number of hubs
// changes. A body of full length is always admitted at once.
func TestRatesAreShared(t *testing.T) {
	live := 1
	l := newLimiters(Rate{60, time.Minute}, 1, func() int { return live })
	passed := func(at time.Time) (n int) {
		for l.allow(at, "k", "") == nil {
			n++
		}
		return n
	}
	now := noon
	var got []int
	for _, hubs := range []int{1, 4, 7, 1, 0} {
		live = hubs
		got = append(got, passed(now))
		now = now.Add(30 * time.Second)
		got = append(got, passed(now))
		now = now.Add(time.Hour)
	}
	// The allowance at once, and what returns in half a minute. A hub that gets the whole rate back
	// had a full allowance of its fraction before.
	if want := []int{60, 30, 15, 7, 9, 4, 9, 30, 60, 30}; !slices.Equal(got, want) {
		t.Errorf("let through %v, want %v", got, want)
	}
	live = 10
	bytes := newLimiters(Rate{1000, time.Minute}, 400, func() int { return live })
	if err := bytes.check(noon, "k", "", 400); err != nil {
		t.Errorf("a body of full length: %v", err)
	}
	bytes.spend(noon, "k", 400)
	if err := bytes.check(noon.Add(time.Minute), "k", "", 400); err == nil {
		t.Error("400 bytes again after a minute, of 100 a minute")
	}
	if err := bytes.check(noon.Add(4*time.Minute), "k", "", 400); err != nil {
		t.Errorf("400 bytes after 4 minutes: %v", err)
	}
}
