package e2e

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/test/redistest"
)

// emptiedFault deletes a whole partition of the journal, as if a master came back without its data. The
// topic continues so that no subscription misses anything, except those of a hub that dies before it says how far
// they are. Half of the time all subscriptions lag.
func (m *nemesis) emptiedFault(servers func() []*redistest.Server, prefix string) fault {
	return fault{name: "partition emptied", kind: partitionLost, gaps: []string{journal.GapRetention}, loses: true, tail: true, begin: func() func() {
		if m.rnd.IntN(2) == 0 {
			m.hold()
			defer m.release()
			time.Sleep(m.between(300*time.Millisecond, time.Second)) // the Sources publish
		}
		m.empty(servers(), prefix, m.rnd.IntN(len(m.c.topics)))
		return nil
	}}
}

// empty deletes the keys of the partition of a topic. There is one topic in it.
func (m *nemesis) empty(servers []*redistest.Server, prefix string, topic int) {
	m.t.Helper()
	keys := fmt.Sprintf("%s:{p:%d}:*", prefix, shardOf(uuid.NewSHA1(uuid.NameSpaceURL, []byte(m.c.topics[topic].url))))
	for _, s := range servers {
		n, err := s.Try("EVAL", "local keys = redis.call('KEYS', ARGV[1]) if #keys > 0 then redis.call('DEL', unpack(keys)) end return #keys", "0", keys)
		if err != nil {
			if !strings.Contains(err.Error(), "READONLY") {
				m.t.Fatalf("the partition of topic %d could not be emptied: %v", topic, err)
			}
			continue
		}
		if n != int64(0) {
			m.mu.Lock()
			story := m.c.topics[topic]
			for i, interval := range story.intervals {
				if interval.accepted > 0 {
					story.emptied = i + 1
				}
			}
			m.t.Logf("topic %d, up to interval %d", topic, story.emptied-1)
			m.mu.Unlock()
		}
	}
}
