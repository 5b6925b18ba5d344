package delivery

import (
	"maps"
	"slices"
	"sync"

	"github.com/rshub/rshub/journal"
)

// topic is one that has lanes.
type topic struct {
	url        string
	schedulers int           // how many have lanes of it; the lock of topics guards it
	headRead   headRead      // the lock of heads guards it
	troubles   topicTroubles // the lock of troubles guards it
	tail       journalTail   // it has a lock of its own
	latest     latestBody    // without a lock
	offered    *body         // the newest entry, if nobody has used it yet; the lock of bodies guards it
}

// topicLanes are the lanes of a topic in one scheduler, which owns them.
type topicLanes struct {
	*topic
	members
	queues [pools]topicQueue

	// head is the newest entry, once known. headSets counts how often it was set to what the
	// store returned: so a read that began before that differs from one that began after.
	head     anchor
	known    bool
	trimmed  anchor // the newest entry that was trimmed, as of the last time that heads read it
	headSets uint64
	// A walk over the lanes is under way, another is to follow, and one of the
	// two because of something new.
	walking, again, published bool
}

// behind reports whether a lane of the topic has something to deliver, as far as
// known.
func (t *topicLanes) behind(l *lane) bool { return t.known && !l.cursor.anchor().same(t.head) }

// topics are the topics that have lanes in any scheduler. They may be shared between goroutines.
type topics struct {
	mu         sync.Mutex
	byURL      map[string]*topic
	partitions [journal.Partitions]int // how many of each
}

func newTopics() *topics { return &topics{byURL: make(map[string]*topic)} }

// join returns a topic of which one more scheduler has lanes.
func (ts *topics) join(url string) *topic {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.byURL[url]
	if t == nil {
		t = &topic{url: url}
		ts.byURL[url] = t
		ts.partitions[partitionOf(url)]++
	}
	t.schedulers++
	return t
}

// leave counts a scheduler that has no lanes of a topic any more. It reports whether none has.
func (ts *topics) leave(t *topic) (last bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t.schedulers--
	if last = t.schedulers == 0; last {
		delete(ts.byURL, t.url)
		ts.partitions[partitionOf(t.url)]--
	}
	return last
}

// get returns a topic; nil: it has no lanes.
func (ts *topics) get(url string) *topic {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.byURL[url]
}

// all returns them in no order.
func (ts *topics) all() []*topic {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return slices.Collect(maps.Values(ts.byURL))
}

// has says of each partition whether some are in it.
func (ts *topics) has() (some [journal.Partitions]bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for i, n := range ts.partitions {
		some[i] = n > 0
	}
	return some
}

func partitionOf(topic string) int { return journal.Partition(journal.TopicID(topic)) }
