package delivery

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/journal"
)

// The answer for a store that may have lost its tail and asks how far the subscriptions got.
func TestReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lanes = chunk + 10
		b := newBed(t)
		for n := range lanes {
			b.subscribe(topicA, cb(n))
		}
		b.set(cb(3), answers(503))
		b.run()
		defer b.end()
		var entries []journal.Entry
		for n := range 3 {
			entries = append(entries, b.publish(t, topicA, fmt.Append(nil, n)))
			pass(time.Second)
		}
		of := journal.Partition(journal.TopicID(topicA))
		got := b.d.Reached([]int{of, (of + 1) % journal.Partitions})
		want := []journal.Reached{{Topic: topicA, Greatest: entries[2].Anchor()}}
		if len(got) == 1 && got[0].Least.Position == 0 {
			got[0].Least = journal.Anchor{}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
		if got := b.d.Reached([]int{(of + 1) % journal.Partitions}); len(got) != 0 {
			t.Errorf("of another partition: %+v", got)
		}
	})
}
