package delivery

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/journal"
)

// A paused subscription gets nothing, not even a delivery that is already in a queue. After it is
// resumed it gets everything, in order. The same is true in a hub that took over its shard
// meanwhile.
func TestPausedSubscriptionGetsNothing(t *testing.T) {
	for name, fails := range map[string]bool{"failing": true, "well": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t)
				sub := b.subscribe(topicA, cb(0))
				other := b.subscribe(topicA, cb(1))
				if fails {
					b.set(cb(0), answers(500))
				}
				b.run()
				defer b.end()
				one := b.publish(t, topicA, []byte("one"))
				pass(time.Minute)
				tried := len(b.attempts(cb(0)))
				if _, err := b.operator().Pause(t.Context(), sub.ID); err != nil {
					t.Fatal(err)
				}
				b.set(cb(0), nil)
				two := b.publish(t, topicA, []byte("two"))
				pass(3 * time.Hour)
				if r := b.d.LagReport(); r.Paused != 1 || r.Active != 1 || r.Failing != 0 || r.Oldest != 0 {
					t.Errorf("%d paused, %d active, %d failing, lag %v", r.Paused, r.Active, r.Failing, r.Oldest)
				}
				if n := b.d.Subscribers(topicA); n != 1 {
					t.Errorf("%d subscribers, want the other one", n)
				}
				for n := range journal.Partitions { // the shards go, and come back
					b.d.Abort(n)
				}
				b.take()
				pass(time.Hour)
				if n := len(b.attempts(cb(0))); n != tried {
					t.Errorf("%d attempts while it was paused", n-tried)
				}
				b.wantOrder(cb(1), one, two)
				if _, err := b.operator().Resume(t.Context(), sub.ID); err != nil {
					t.Fatal(err)
				}
				pass(time.Second)
				b.wantOrder(cb(0), one, two)
				if s, _ := b.stored(sub); len(s.Gaps) != 0 || !s.PausedAt.IsZero() {
					t.Errorf("stored %+v", s)
				}
				if s, _ := b.stored(other); !s.PausedAt.IsZero() {
					t.Error("the other one was paused as well")
				}
			})
		})
	}
}

// One that is paused while it waits for its turn is skipped right before the attempt.
func TestPauseInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, func(o *Options) { o.PerHost = 1 })
		b.set("h.example", takes(10*time.Second))
		first, second := b.subscribe(topicA, "http://h.example/0"), b.subscribe(topicA, "http://h.example/1")
		b.run()
		defer b.end()
		b.publish(t, topicA, []byte("one"))
		pass(5 * time.Second)
		for _, id := range [][16]byte{first.ID, second.ID} {
			if _, err := b.operator().Pause(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		pass(time.Hour)
		if n := len(b.everything()); n != 1 {
			t.Errorf("%d attempts, want the one that was under way", n)
		}
	})
}
