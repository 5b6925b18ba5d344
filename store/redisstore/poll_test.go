package redisstore

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/storetest"
	"github.com/rshub/rshub/subscriptions"
)

// known are the values that a hub has of all partitions and shards.
type known struct{ partitions, shards map[int]uint64 }

// ask asks for the values of some.
func (k known) ask(t *testing.T, s *Store, partitions, shards []int) {
	t.Helper()
	for _, n := range partitions {
		_, next, err := s.Changes(t.Context(), n, k.partitions[n])
		if err != nil {
			t.Fatal(err)
		}
		k.partitions[n] = next
	}
	for _, n := range shards {
		_, next, err := s.Changed(t.Context(), n, 0)
		if err != nil {
			t.Fatal(err)
		}
		k.shards[n] = next
	}
}

// poll asks what is new, and wants just that.
func (k known) poll(t *testing.T, s *Store, what string, partitions, shards []int) {
	t.Helper()
	moved, changed, err := s.Poll(t.Context(), k.partitions, k.shards)
	if err != nil || !slices.Equal(moved, partitions) || !slices.Equal(changed, shards) {
		t.Fatalf("%s: partitions %v and not %v, shards %v and not %v, %v", what, moved, partitions, changed, shards, err)
	}
}

// One question about all partitions and shards finds what Changes and Changed report for
// each, even after Redis lost its latest writes.
func TestPollFindsWhatChanged(t *testing.T) {
	eachTopology(t, func(t *testing.T, url string) {
		s := openStore(t, Options{URL: url, Prefix: freshPrefix(), Timeout: patience})
		storetest.RunPoll(t, s, s.Poll)
		var all []int
		for n := range journal.Partitions {
			all = append(all, n)
		}
		k := known{map[int]uint64{}, map[int]uint64{}}

		publish := func(topic string) {
			t.Helper()
			h, err := s.Head(t.Context(), topic)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Append(t.Context(), time.Now(), topic, entry(int(h.Last.Seq), "body"), h.Version); err != nil {
				t.Fatal(err)
			}
		}
		change := func(i int) {
			t.Helper()
			sub := subscriptionNo(i)
			sub.VerifiedAt = time.Now()
			set(t, s, sub.ID, subscriptions.Record{Subscription: &sub})
		}
		publish(fmt.Sprint(topicName, 3))
		change(3)
		k.ask(t, s, all, all)
		k.poll(t, s, "when all is known", nil, nil)

		// A tail that is lost, and what comes instead.
		topic, client := fmt.Sprint(topicName, 3), admin(t, url)
		p, n := s.conn.key.topic(topic).partition, subscriptions.Shard(subscriptionNo(3).ID)
		var restores []func() error
		for _, tag := range []string{fmt.Sprintf("p:%d", p), s.conn.key.records(n).tag} {
			restore, err := snapshot(t.Context(), client, fmt.Sprintf("%s:{%s}", s.conn.key, tag))
			if err != nil {
				t.Fatal(err)
			}
			restores = append(restores, restore)
		}
		publish(topic)
		change(3)
		k.poll(t, s, "after one more", []int{p}, []int{n})
		k.ask(t, s, []int{p}, []int{n})
		k.poll(t, s, "when that is known", nil, nil)
		for _, restore := range restores {
			if err := restore(); err != nil {
				t.Fatal(err)
			}
		}
		k.poll(t, s, "after that was lost", []int{p}, []int{n})
		publish(topic)
		change(3)
		k.poll(t, s, "after something else came instead", []int{p}, []int{n})
	})
}

// The ids before changes.
func TestBeforeChange(t *testing.T) {
	for value, want := range map[uint64]string{
		0: "0-0", 1: "0-0", 5 << changeShift: "4-18446744073709551615", 5<<changeShift | 7: "5-6",
	} {
		if got := beforeChange(value); got != want {
			t.Errorf("%d: %s, not %s", value, got, want)
		}
	}
}
