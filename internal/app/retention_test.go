package app

import (
	"fmt"
	"testing"
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
