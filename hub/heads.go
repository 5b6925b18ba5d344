package hub

import (
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/rshub/rshub/journal"
)

// heads remembers the heads of topics as this hub stored them last, so that the next publish need not ask
// the store. Another hub, a reset or a loss may have moved a head since. So what is remembered decides only
// what Append checks again: that an entry may be appended.
type heads struct {
	last *lru.Cache[string, journal.Head]
}

// headsKept is how many topics are remembered.
const headsKept = 1024

func newHeads() heads {
	last, _ := lru.New[string, journal.Head](headsKept) // it refuses only sizes below 1
	return heads{last}
}

// recall returns and forgets the head of a topic, so that what proves wrong is read.
func (h heads) recall(topic string) (journal.Head, bool) {
	head, known := h.last.Peek(topic)
	h.last.Remove(topic)
	return head, known
}

// stored remembers that an entry was stored after a head.
func (h heads) stored(topic string, after journal.Head, e journal.Entry) {
	h.last.Add(topic, after.Append(e))
}
