package delivery

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/journal"
)

// Two hubs pass their shards to and fro while notifications come and callbacks
// fail: everything is delivered, first deliveries are in order, and a hub never
// has two exchanges with one subscription.
func TestShardsGoToAndFro(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newBed(t, sweeping), newBed(t, sweeping)
		b.memory, b.wire = a.memory, a.wire
		b.readFrom(a.memory)
		b.d.shards.store, b.d.sender.client.poster = a.memory, over(a.wire)
		b.d.bodies.reader, b.d.commits[0].store = a.memory, a.memory
		const callbacks, notifications = 60, 40
		var twice atomic.Int64
		for n := range callbacks {
			a.subscribe(topicA, cb(n))
			var busy, calls atomic.Int64
			a.set(cb(n), func(r *http.Request, body []byte) (*http.Response, error) {
				if busy.Add(1) > 1 {
					twice.Add(1)
				}
				defer busy.Add(-1)
				if calls.Add(1)%5 == 0 {
					return status(503), nil
				}
				return takes(time.Duration(n)*5*time.Millisecond)(r, body)
			})
		}
		a.runAlone()
		b.runAlone()
		ctx, cancel := context.WithCancel(t.Context())
		var keepers sync.WaitGroup
		for _, shards := range [][2]int{{0, 128}, {128, journal.Partitions}} {
			keepers.Go(func() { toAndFro(ctx, t, [2]*Dispatcher{a.d, b.d}, shards) })
		}
		var all []journal.Entry
		for n := range notifications {
			all = append(all, a.publish(t, topicA, fmt.Append(nil, n)))
			pass(200 * time.Millisecond)
		}
		pass(10 * time.Minute)
		cancel()
		keepers.Wait()
		a.end()
		b.end()
		if twice.Load() > 0 {
			t.Errorf("%d times a subscription had two exchanges", twice.Load())
		}
		for n := range callbacks {
			a.wantFirsts(cb(n), all)
		}
	})
}

// toAndFro has each shard now in one hub, now in the other, yielded or cut.
func toAndFro(ctx context.Context, t *testing.T, hubs [2]*Dispatcher, shards [2]int) {
	for round := 0; ctx.Err() == nil; round++ {
		for n := shards[0]; n < shards[1]; n++ {
			owner := hubs[(n+round)%2]
			if err := owner.Start(ctx, n); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
		hold := time.Duration(700+round*37%900) * time.Millisecond
		if round > 60 {
			hold *= 10 // the last retries are minutes apart
		}
		time.Sleep(hold)
		for n := shards[0]; n < shards[1]; n++ {
			owner := hubs[(n+round)%2]
			if (n+round)%3 == 0 {
				owner.Abort(n)
				continue
			}
			within, cancel := context.WithTimeout(ctx, time.Duration(n%4)*100*time.Millisecond)
			owner.Finish(within, n)
			cancel()
		}
		time.Sleep(time.Millisecond) // what was cut off ends
	}
}

// wantFirsts complains unless a URL got all, each for the first time in order.
func (b *bed) wantFirsts(url string, all []journal.Entry) {
	b.t.Helper()
	seen, next := map[string]bool{}, 0
	for _, r := range b.at(url) {
		if seen[r.id] {
			continue
		}
		seen[r.id] = true
		if next >= len(all) || r.id != all[next].ID.String() {
			b.t.Errorf("%s got %s as number %d", url, r.id, next)
			return
		}
		next++
	}
	if next != len(all) {
		b.t.Errorf("%s got %d of %d", url, next, len(all))
	}
}
