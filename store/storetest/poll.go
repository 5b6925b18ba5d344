package storetest

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// numbers returns 0 to n-1.
func numbers(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// RunPoll checks a question about all partitions and shards at once: it finds exactly those
// of which Changes or Changed have something new, given the values that these returned. The
// store is empty.
func RunPoll(t T, s Store, poll func(ctx context.Context, partitions, shards map[int]uint64) (moved, changed []int, err error)) {
	k := &kit{T: t, h: &Harness{Store: s}}
	partitions, shards := map[int]uint64{}, map[int]uint64{}
	ask := func(ofPartitions, ofShards []int) {
		t.Helper()
		for _, n := range ofPartitions {
			_, partitions[n] = k.changes(n, partitions[n])
		}
		for _, n := range ofShards {
			_, shards[n] = k.changed(n, 0)
		}
	}
	want := func(when string, moved, changed []int) {
		t.Helper()
		gotMoved, gotChanged, err := poll(t.Context(), partitions, shards)
		k.ok(err, "Poll")
		k.same("partitions "+when, gotMoved, moved)
		k.same("shards "+when, gotChanged, changed)
	}
	all := numbers(journal.Partitions)
	publish := func(i int) int {
		topic := fmt.Sprint(topicName, i)
		k.fill(topic, 1)
		return journal.Partition(journal.TopicID(topic))
	}
	subscribe := func(i int) int { return subscriptions.Shard(k.subscribed(i).ID) }

	ask(all, all)
	want("of an empty store", nil, nil)
	moved, changed := map[int]bool{}, map[int]bool{}
	for i := range 40 {
		moved[publish(i)], changed[subscribe(i)] = true, true
	}
	want("after the first changes", slices.Sorted(maps.Keys(moved)), slices.Sorted(maps.Keys(changed)))
	ask(all, all)
	want("when all is known", nil, nil)
	p, n := publish(3), subscribe(3)
	want("after one more", []int{p}, []int{n})
	ask([]int{p}, []int{n})
	want("when that is known", nil, nil)
	k.ok(s.Ping(t.Context(), at(1), []string{topicName + "pinged"}), "Ping")

	// Nothing is returned that was not asked for.
	partitions, shards = map[int]uint64{p: 0}, map[int]uint64{n: 0}
	want("of one each", []int{p}, []int{n})
	partitions, shards = nil, nil
	want("of none", nil, nil)
}
