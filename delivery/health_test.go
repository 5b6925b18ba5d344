package delivery

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/subscriptions"
)

// served is a subscription whose last delivery was accepted.
func served(s *subscriptions.Subscription) { s.Cursor.LastStatus = 200 }

// A host that answers quickly never waits for new hosts, however many of them turn out to be tar
// pits at once, or answer just before the time limit. A healthy new host waits only for its turn.
func TestNewAndSlowHostsLeaveAFifth(t *testing.T) {
	for name, evil := range map[string]callback{"never answer": hangs, "answer late": takes(14 * time.Second)} {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t, func(o *Options) { o.MaxInflight = 50 })
			for n := range 500 {
				url := cb(1000 + n)
				b.subscribe(topicA, url)
				b.set(url, evil)
			}
			quickly, fresh := b.subscribe(topicB, cb(0), served), b.subscribe(topicB, cb(1))
			b.run()
			defer b.end()
			b.publish(t, topicA, []byte("bait"))
			pass(time.Second) // as many of them as may are at it
			if n := b.d.Stats().InFlight; n != 40 {
				t.Errorf("%s: %d exchanges with new hosts at once, want 40 of 50", name, n)
			}
			for range 30 {
				b.publish(t, topicA, []byte("bait"))
				b.publish(t, topicB, []byte("x"))
				now := time.Now()
				pass(5 * time.Second)
				got := b.at(quickly.Callback)
				if len(got) == 0 || !got[len(got)-1].at.Equal(now) {
					t.Fatalf("%s: a callback that answers quickly had to wait", name)
				}
			}
			if got := b.at(fresh.Callback); len(got) != 30 || got[0].at.Sub(b.everything()[0].at) > 16*time.Second {
				t.Errorf("%s: a new callback got %d of 30, the first at %v", name, len(got), got[0].at)
			}
			b.wire.mu.Lock()
			most := b.most[""]
			b.wire.mu.Unlock()
			if most > 42 {
				t.Errorf("%s: %d exchanges at once", name, most)
			}
		})
	}
}

// The last result of a host decides its health, and a restarted hub knows it.
func TestHostHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, single)
		b.subscribe(topicA, cb(0), served)
		b.subscribe(topicA, cb(1))
		b.subscribe(topicA, cb(2), func(s *subscriptions.Subscription) { s.Cursor.LastStatus = -1 })
		b.run()
		defer b.end()
		synctest.Wait()
		want := func(when string, quickly ...bool) {
			t.Helper()
			b.d.only().mu.Lock()
			defer b.d.only().mu.Unlock()
			for n, q := range quickly {
				if got := b.d.only().s.hosts.byName[fmt.Sprintf("h%d.example:80", n)].health == quick; got != q {
					t.Errorf("%s, host %d is quick: %v", when, n, got)
				}
			}
		}
		want("at the start", true, false, false)
		b.set(cb(0), takes(2*time.Second))
		b.set(cb(2), answers(500))
		b.publish(t, topicA, []byte("x"))
		pass(3 * time.Second)
		want("after a delivery", false, true, true)
		b.set(cb(0), nil)
		b.set(cb(1), hangs)
		b.publish(t, topicA, []byte("x"))
		pass(17 * time.Second)
		want("after another", false, false, true)
		pass(probation)
		b.publish(t, topicA, []byte("x"))
		pass(time.Second)
		want("much later", true, false, true)
		if d := b.d; d.sched.limits.unproven.Load() != 0 {
			t.Errorf("%d exchanges are counted that are over", d.sched.limits.unproven.Load())
		}
	})
}

// A subscription whose host answered before makes that host quick. Deliveries there need no sender
// from those that slower hosts have occupied, and an idle sender starts them at once.
func TestHostThatBecomesQuickIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, func(o *Options) { o.MaxInflight = 5 })
		for n := range 10 {
			b.subscribe(topicA, cb(n))
			b.set(cb(n), takes(14*time.Second))
		}
		b.run()
		defer b.end()
		b.publish(t, topicA, []byte("small"))
		pass(time.Second)
		tried := func() (hosts int, waits string) {
			for n := range 10 {
				if len(b.attempts(cb(n))) > 0 {
					hosts++
				} else {
					waits = cb(n)
				}
			}
			return hosts, waits
		}
		hosts, waits := tried()
		if hosts != 4 {
			t.Fatalf("%d of 5 senders are at hosts that are not quick, want all but a fifth", hosts)
		}
		b.tell(b.subscribe(topicB, waits+"/other", served))
		pass(time.Second)
		if hosts, _ := tried(); hosts != 5 {
			t.Errorf("%d hosts were tried, want 5: a sender is idle", hosts)
		}
	})
}
