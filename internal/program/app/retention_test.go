package app

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/rshub/rshub/internal/base/clock"
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
	// A hub does not trim what grows in the partition of another hub.
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

// At a start, what exceeds the limits is trimmed as soon as the hub owns partitions, and not a minute
// later.
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
		r := &retention{store: store, log: zap.NewNop(), clock: clock.New(nil), rule: journal.Retention{PerTopic: 100}, owns: func(int) bool { return owned.Load() }}
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

// headCounter counts how often the head of a topic is read.
type headCounter struct {
	*storetest.Memory
	reads atomic.Int64
}

func (c *headCounter) Head(ctx context.Context, topic string) (journal.Head, error) {
	c.reads.Add(1)
	return c.Memory.Head(ctx, topic)
}

// A topic that grew beyond its limit is trimmed within a second, with one look for all that it got meanwhile.
func TestRetentionLooksAtATopicThatGrew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &headCounter{Memory: storetest.NewMemory()}
		const topic, published = "https://example.org/", 20
		r := &retention{store: store, log: zap.NewNop(), clock: clock.New(nil), rule: journal.Retention{PerTopic: 100}}
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.run(ctx) }()
		time.Sleep(time.Second)
		for range published {
			head, err := store.Memory.Head(t.Context(), topic)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := store.Append(t.Context(), time.Now(), topic, journal.Entry{Kind: journal.KindContent, Body: make([]byte, 60)}, head.Version); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		time.Sleep(retentionGrew)
		synctest.Wait()
		if head, err := store.Memory.Head(t.Context(), topic); err != nil || head.Bytes != 60 || store.reads.Load() != 1 {
			t.Errorf("%d bytes are kept after %d looks (%v)", head.Bytes, store.reads.Load(), err)
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

// Retention checks the age of every topic now and then. In between it looks only at topics that have
// too much.
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

// badTrim is a store that cannot trim some topics, and cannot list some partitions.
type badTrim struct {
	*storetest.Memory
	topics     map[string]error
	partitions map[int]error
}

func (b *badTrim) Trim(ctx context.Context, topic string, cut journal.Cut) (journal.Head, error) {
	if err := b.topics[topic]; err != nil {
		return journal.Head{}, err
	}
	return b.Memory.Trim(ctx, topic, cut)
}

func (b *badTrim) Topics(ctx context.Context, partition int, after uuid.UUID, limit int) ([]journal.Head, error) {
	if err := b.partitions[partition]; err != nil {
		return nil, err
	}
	return b.Memory.Topics(ctx, partition, after, limit)
}

// If a topic or a partition cannot be trimmed or read, retention of the others continues.
func TestRetentionGoesOnPastATopic(t *testing.T) {
	store := &badTrim{Memory: storetest.NewMemory(), topics: map[string]error{}, partitions: map[int]error{}}
	const topics = 300
	left := 0
	for n := range topics {
		topic := fmt.Sprint("https://example.org/", n)
		e := journal.Entry{Kind: journal.KindContent, Body: make([]byte, 10)}
		if _, err := store.Append(t.Context(), time.Now(), topic, e, ""); err != nil {
			t.Fatal(err)
		}
		switch partition := journal.Partition(journal.TopicID(topic)); {
		case n%100 == 0:
			store.topics[topic] = errors.New("its page cannot be read")
			left++
		case partition == 17:
			store.partitions[partition] = errors.New("a head cannot be read")
			left++
		}
	}
	r := &retention{store: store, log: zap.NewNop(), rule: journal.Retention{Age: time.Hour}}
	if err := r.trim(t.Context(), time.Now().Add(2*time.Hour)); err == nil {
		t.Error("it does not say that anything failed")
	}
	kept := 0
	for n := range topics {
		if head, err := store.Head(t.Context(), fmt.Sprint("https://example.org/", n)); err != nil {
			t.Fatal(err)
		} else if head.Entries > 0 {
			kept++
		}
	}
	if kept != left {
		t.Errorf("%d topics keep what is too old, and %d could not be trimmed", kept, left)
	}
}

// If a machine's clock jumps and comes back, retention by age deletes nothing that is not old
// enough, whether it was published before or during the jump. The same is true for a clock that was
// wrong from the start, if the store has a clock. What was published while the clock was ahead
// stays longer by as much.
func TestRetentionUnderAClockThatJumps(t *testing.T) {
	const age, topic = 30 * time.Minute, "https://example.org/jumps"
	for name, tc := range map[string]struct {
		start, first, second time.Duration // how far it is off at first, after 5 and after 10 minutes, until 15
		redis                bool
		longer               time.Duration // than the age is kept what is kept longest
	}{
		"never": {}, "forth and back": {first: time.Hour, longer: time.Hour}, "back and forth": {first: -time.Hour},
		"forth, and further back": {first: time.Hour, second: -time.Hour, longer: time.Hour}, "a year forth": {first: 365 * 24 * time.Hour, longer: 365 * 24 * time.Hour},
		"wrong from the start": {start: time.Hour, first: time.Hour, second: time.Hour, redis: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var off atomic.Int64
				off.Store(int64(tc.start))
				c := clock.New(func() time.Time { return time.Now().Add(time.Duration(off.Load())) })
				store := storetest.NewMemory()
				r := &retention{store: store, log: zap.NewNop(), clock: c, rule: journal.Retention{Age: age}}
				if tc.redis {
					r.storeTime = func(context.Context) (time.Time, error) { return time.Now(), nil }
				}
				ctx, end := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- r.run(ctx) }()
				for minute := range 120 {
					switch minute {
					case 5:
						off.Store(int64(tc.first))
					case 10:
						off.Store(int64(tc.second))
					case 15:
						off.Store(0)
					}
					head, err := store.Head(ctx, topic)
					if err != nil {
						t.Fatal(err)
					}
					// One was published each minute. What is older than the age goes when retention
					// looks next, in a minute and a hundredth of the age.
					if kept := int(head.Entries); kept < min(minute, 29) || kept > 33+int(tc.longer/time.Minute) || minute > 110 && tc.longer <= time.Hour && kept > 33 {
						t.Errorf("after %d minutes %d notifications are kept", minute, kept)
					}
					e := journal.Entry{Kind: journal.KindContent, Body: []byte{1}}
					at := c.Latest()
					if tc.redis {
						at = time.Now() // published through another hub
					}
					if _, err := store.Append(ctx, at, topic, e, head.Version); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Minute)
				}
				end()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
