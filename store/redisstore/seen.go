package redisstore

import (
	"sync"

	"github.com/google/uuid"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/rshub/rshub/journal"
)

// seenKept is how many heads a hub remembers of each partition: of the topics that
// were read or appended to last. With 256 partitions that is 131,072 topics, and some
// 70 MB where there are so many, beside their gaps. The owner of a partition reads all
// its heads every minute, so of a partition with no more topics it remembers every one.
const seenKept = 512

// seenHeads are the heads that this hub remembers, to compare with what is there when
// Redis may have lost something.
type seenHeads struct {
	mu sync.Mutex
	of [journal.Partitions]*simplelru.LRU[uuid.UUID, journal.Sight]
}

// saw remembers a head, unless what is remembered is newer; then it returns true: h
// was read before that, or Redis lost something.
func (m *seenHeads) saw(k topicKeys, h journal.Head) (behind bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, ok := m.get(k)
	if ok && h.Behind(before) {
		return true
	}
	if h.Version != "" {
		m.put(k, h.Sight(before))
	}
	return false
}

// listed is saw for a head from a list of all. It replaces only heads with an older last
// entry, so that a long list leaves the heads that are in use.
func (m *seenHeads) listed(k topicKeys, h journal.Head) (behind bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	lru := m.of[k.partition]
	if lru == nil {
		m.put(k, h.Sight(journal.Sight{}))
		return false
	}
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
	m.put(k, h.Sight(before))
	return false
}

// behind reports whether something newer than h is remembered.
func (m *seenHeads) behind(k topicKeys, h journal.Head) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, ok := m.get(k)
	return ok && h.Behind(before)
}

// replace remembers a head instead of what is remembered.
func (m *seenHeads) replace(k topicKeys, h journal.Head) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, _ := m.get(k)
	m.put(k, h.Sight(before))
}

// all returns what is remembered of a partition, by topic id.
func (m *seenHeads) all(partition int) map[uuid.UUID]journal.Sight {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[uuid.UUID]journal.Sight{}
	if lru := m.of[partition]; lru != nil {
		for _, id := range lru.Keys() {
			out[id], _ = lru.Peek(id)
		}
	}
	return out
}

func (m *seenHeads) get(k topicKeys) (s journal.Sight, ok bool) {
	if lru := m.of[k.partition]; lru != nil {
		return lru.Get(k.id)
	}
	return s, false
}

func (m *seenHeads) put(k topicKeys, s journal.Sight) {
	lru := m.of[k.partition]
	if lru == nil {
		var err error
		if lru, err = simplelru.NewLRU[uuid.UUID, journal.Sight](seenKept, nil); err != nil {
			panic(err) // its size is right
		}
		m.of[k.partition] = lru
	}
	lru.Add(k.id, s)
}
