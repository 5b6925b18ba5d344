package delivery

import (
	"fmt"
	"testing"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// The first lanes of a topic are ready when its head is known, and the loop makes the others ready. Behind the walk of
// another topic, a topic waits for its turn.
func TestFirstLanesWaitForNoLoop(t *testing.T) {
	const few, many = 3, firstLanes + 2*chunk
	woken := 0
	c := clocks{
		mono: func() int64 { return 0 },
		read: func() reading { return reading{0, 1_800_000_000e9, 1_800_000_000e9} },
	}
	s := newScheduler(&Options{PerHost: many}, c, newLimits(many), &troubles{}, newTopics(), 0)
	s.wake = func() { woken++ }
	for i := range s.sets {
		s.sets[i] = &laneSet{ctx: t.Context()}
	}
	first, second := anchor{position: 1, nonce: 1, seq: 1}, anchor{position: 2, nonce: 2, seq: 2}
	fill := func(topic string, lanes int) *topicLanes {
		for n := range lanes {
			callback := fmt.Sprintf("http://%s.example/%d", topic, n)
			sub := subscriptions.Subscription{
				ID: subscriptions.ID(topic, callback), Topic: topic, Callback: callback,
				ExpiresAt: time.Unix(0, c.read().wall).Add(time.Hour), Cursor: journal.Cursor{Anchor: first.unpack()},
			}
			if _, ok := s.apply(&sub, topic+".example"); !ok {
				t.Fatal("a new subscription was not accepted")
			}
		}
		s.setHead(s.topics[topic], first)
		for s.step() == 0 {
			continue
		}
		woken = 0
		return s.topics[topic]
	}
	ready := func(of *topicLanes) (n int) {
		for _, l := range of.lanes {
			if l.state == ready {
				n++
			}
		}
		return n
	}
	small, large, other := fill("small", few), fill("large", many), fill("other", few)

	if s.setHead(small, second); ready(small) != few || woken > 0 || small.walking {
		t.Errorf("%d of %d lanes are ready, and the loop was woken %d times", ready(small), few, woken)
	}
	if s.setHead(large, second); ready(large) != firstLanes || woken == 0 {
		t.Errorf("%d lanes are ready, and the loop was woken %d times", ready(large), woken)
	}
	if s.setHead(other, second); ready(other) != 0 {
		t.Error("a topic went before the walk of another one")
	}
	for s.step() == 0 {
		continue
	}
	if ready(large) != many || ready(other) != few {
		t.Errorf("%d and %d lanes are ready in the end", ready(large), ready(other))
	}
}
