package redisstore

import (
	"sync"

	"github.com/google/uuid"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/rshub/rshub/journal"
)

// seenKept is how many heads a hub remembers of each partition: those of the topics that it
// read or appended to last. With 256 partitions that is 131,072 topics and about 70 MB,
// without their gaps. The owner of a partition reads all its heads every minute. So it
// remembers every head of a partition with no more topics than this.
const seenKept = 512

// seenHeads are the heads that this hub remembers, by topic id. The reconciler compares them
// with what is stored when Redis may have lost something.
type seenHeads struct {
	mu sync.Mutex
	of [journal.Partitions]*simplelru.LRU[uuid.UUID, journal.Sight]
}

func newSeenHeads() *seenHeads {
	m := new(seenHeads)
	for n := range m.of {
		m.of[n], _ = simplelru.NewLRU[uuid.UUID, journal.Sight](seenKept, nil) // it refuses only sizes below 1
	}
	return m
}

// saw remembers a head, unless a newer one is remembered. Then it returns true: h was read
// before that one, or Redis lost something.
func (m *seenHeads) saw(k topicKeys, h journal.Head) (behind bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, ok := m.of[k.partition].Get(k.id)
	if ok && h.Behind(before) {
		return true
	}
	if h.Version != "" {
		m.of[k.partition].Add(k.id, h.Sight(before))
	}
	return false
}

// listed is saw for a head from a list of all. It replaces only heads with an older last
// entry, so that a long list does not displace the heads that are in use.
func (m *seenHeads) listed(k topicKeys, h journal.Head) (behind bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	lru := m.of[k.partition]
	before, ok := lru.Peek(k.id)
	switch {
	case ok && h.Behind(before):
		return true
	case ok && h.Epoch == before.Epoch && h.Last == before.Last && h.Trimmed == before.Trimmed && len(h.Gaps) == len(before.Gaps):
		return false
	case !ok && lru.Len() >= seenKept:
		if _, oldest, _ := lru.GetOldest(); oldest.Last.Position >= h.Last.Position {
			return false
		}
	}
	lru.Add(k.id, h.Sight(before))
	return false
}

// behind reports whether something newer than h is remembered.
func (m *seenHeads) behind(k topicKeys, h journal.Head) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, ok := m.of[k.partition].Get(k.id)
	return ok && h.Behind(before)
}

// replace remembers a head in place of the one that is remembered.
func (m *seenHeads) replace(k topicKeys, h journal.Head) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, _ := m.of[k.partition].Get(k.id)
	m.of[k.partition].Add(k.id, h.Sight(before))
}

// all returns what is remembered of a partition, by topic id.
func (m *seenHeads) all(partition int) map[uuid.UUID]journal.Sight {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[uuid.UUID]journal.Sight{}
	for _, id := range m.of[partition].Keys() {
		out[id], _ = m.of[partition].Peek(id)
	}
	return out
}
