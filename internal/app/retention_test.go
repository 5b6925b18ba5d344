package app

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/storetest"
)

// Of several hubs each trims the partitions that it owns, with its part of the
// total, and together they keep to the total.
func TestRetentionOfSeveralHubs(t *testing.T) {
	store := storetest.NewMemory()
	const topics, size, total = 1000, 100, 50_000
	name := func(n int) string { return fmt.Sprint("https://example.org/", n) }
	for n := range topics {
		e := journal.Entry{Kind: journal.KindContent, Body: make([]byte, size)}
		if _, err := store.Append(t.Context(), time.Now(), name(n), e, ""); err != nil {
			t.Fatal(err)
		}
	}
	kept := func() (bytes [3]int64) {
		for n := range topics {
			head, err := store.Head(t.Context(), name(n))
			if err != nil {
				t.Fatal(err)
			}
			bytes[journal.Partition(journal.TopicID(name(n)))%3] += head.Bytes
		}
		return bytes
	}
	before := kept()
	hub := func(n int) *retention {
		return &retention{
			store: store, log: zap.NewNop(), rule: journal.Retention{PerTopic: size, Total: total},
			owns: func(partition int) bool { return partition%3 == n },
		}
	}
	if err := hub(0).trim(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	after := kept()
	if after[0] > total/3+size || after[1] != before[1] || after[2] != before[2] {
		t.Errorf("one of three hubs left %v of %v bytes", after, before)
	}
	for _, n := range []int{1, 2} {
		if err := hub(n).trim(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if after = kept(); after[0]+after[1]+after[2] > total {
		t.Errorf("all together left %v bytes of %d", after, total)
	}
	// What grows in another hub's partition is left to it.
	other := &retention{store: store, log: zap.NewNop(), rule: journal.Retention{PerTopic: 1}, owns: func(int) bool { return false }}
	if err := other.trim(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	for n := range topics {
		if err := other.bound(t.Context(), name(n)); err != nil {
			t.Fatal(err)
		}
	}
	if got := kept(); got != after {
		t.Errorf("a hub that owns nothing trimmed %v to %v", after, got)
	}
}

// What is over the limits at a start is trimmed as soon as partitions are owned, and
// not a minute after it.
func TestRetentionBeginsWithThePartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, owned := storetest.NewMemory(), new(atomic.Bool)
		const topic = "https://example.org/"
		for range 2 {
			head, err := store.Head(t.Context(), topic)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := store.Append(t.Context(), time.Now(), topic, journal.Entry{Kind: journal.KindContent, Body: make([]byte, 100)}, head.Version); err != nil {
				t.Fatal(err)
			}
		}
		r := &retention{store: store, log: zap.NewNop(), rule: journal.Retention{PerTopic: 100}, owns: func(int) bool { return owned.Load() }}
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.run(ctx) }()
		time.Sleep(time.Second)
		owned.Store(true)
		time.Sleep(retentionBusy)
		synctest.Wait()
		if head, err := store.Head(t.Context(), topic); err != nil || head.Bytes > 100 {
			t.Errorf("%d bytes are kept (%v)", head.Bytes, err)
		}
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// trimCounter counts what a store is asked to trim.
type trimCounter struct {
	*storetest.Memory
	trims int
}

func (c *trimCounter) Trim(ctx context.Context, topic string, cut journal.Cut) (journal.Head, error) {
	c.trims++
	return c.Memory.Trim(ctx, topic, cut)
}

// Every topic is asked for what is too old in a while, and meanwhile those alone
// that have too much.
func TestRetentionAsksFewTopics(t *testing.T) {
	store := &trimCounter{Memory: storetest.NewMemory()}
	const topics, age = 50, 100 * time.Hour
	begin := time.Now()
	put := func(n, size int) {
		t.Helper()
		topic := fmt.Sprint("https://example.org/", n)
		head, err := store.Head(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		e := journal.Entry{Kind: journal.KindContent, Body: make([]byte, size)}
		if _, err := store.Append(t.Context(), begin, topic, e, head.Version); err != nil {
			t.Fatal(err)
		}
	}
	for n := range topics {
		put(n, 10)
	}
	r := &retention{store: store, log: zap.NewNop(), rule: journal.Retention{Age: age, PerTopic: 100}}
	for _, step := range []struct {
		at    time.Duration
		trims int
		what  string
	}{
		{0, topics, "at the start all"},
		{time.Minute, 0, "a minute later none"},
		{age / ageParts, topics, "after a hundredth of the age all"},
		{age / ageParts, 1, "then the one that has too much"},
		{age + age/ageParts, topics, "when they are too old all"},
	} {
		if step.trims == 1 {
			put(7, 95)
		}
		store.trims = 0
		if err := r.trim(t.Context(), begin.Add(step.at)); err != nil {
			t.Fatal(err)
		}
		if store.trims != step.trims {
			t.Errorf("%s are asked for: %d of %d", step.what, store.trims, topics)
		}
	}
	for n := range topics {
		if head, err := store.Head(t.Context(), fmt.Sprint("https://example.org/", n)); err != nil || head.Entries != 0 {
			t.Errorf("topic %d keeps %d notifications that are too old, %v", n, head.Entries, err)
		}
	}
}
