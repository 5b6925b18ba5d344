package journal_test

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/storetest"
)

// A program that embeds a hub calls Trim every minute or so. Subscribers that lag more than three days get a gap for
// what was deleted.
func ExampleRetention() {
	ctx, store := context.Background(), storetest.NewMemory() // or any other store
	now := time.Date(2026, 1, 10, 0, 0, 0, 0, time.UTC)
	topic := "https://source.example/changes/"
	for _, day := range []int{5, 6, 8, 9} {
		head, err := store.Head(ctx, topic)
		if err != nil {
			fmt.Println(err)
			return
		}
		e := journal.Entry{Kind: journal.KindContent, MediaType: "text/plain", Body: []byte("news")}
		if _, err := store.Append(ctx, time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC), topic, e, head.Version); err != nil {
			fmt.Println(err)
			return
		}
	}

	fmt.Println(Trim(ctx, store, journal.Retention{Age: 72 * time.Hour, PerTopic: 1 << 30, Total: 8 << 30}, now))
	head, err := store.Head(ctx, topic)
	fmt.Println(head.Entries, "left", err)
	// Output:
	// <nil>
	// 2 left <nil>
}

// Trim deletes from all topics of a store what a rule does not keep.
func Trim(ctx context.Context, store journal.Trimmer, rule journal.Retention, now time.Time) error {
	const page = 256
	var topics []string
	var sizes []int64
	for partition := range journal.Partitions {
		for after := uuid.Nil; ; {
			heads, err := store.Topics(ctx, partition, after, page)
			if err != nil {
				return err
			}
			for _, head := range heads {
				topics, sizes = append(topics, head.Topic), append(sizes, head.Bytes)
				after = journal.TopicID(head.Topic)
			}
			if len(heads) < page {
				break
			}
		}
	}
	cut := rule.Cut(now, sizes)
	for _, topic := range topics {
		if _, err := store.Trim(ctx, topic, cut); err != nil {
			return err
		}
	}
	return nil
}
