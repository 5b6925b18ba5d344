package delivery

import (
	"runtime"
	"sync/atomic"

	"github.com/rshub/rshub/journal"
)

// topic is one that has lanes. The Dispatcher's lock guards it.
type topic struct {
	url string
	members
	lines [bands]line

	// head is the newest entry, once known. epoch counts how often it was set
	// from what the store said, so that a read which began before that is told
	// from one that began after.
	head  anchor
	known bool
	epoch uint64
	// fork is what is known of where the journal goes on; nil: it was not rolled
	// back under us.
	fork atomic.Pointer[fork]
	// seen are the newest entries that were read from the journal, oldest
	// first, remembered of them at most: where to go on should it lose its tail.
	seen []anchor
	troubles

	dirty, reading bool // its head is to be read, or being read
	headless       bool // and could not be read the last time
	// A walk over the lanes is under way, another is to follow, and one of the
	// two because of something new.
	walking, again, published bool
}

// partition is the one that the topic is in.
func (t *topic) partition() int { return journal.Partition(journal.TopicID(t.url)) }

// remembered is how many anchors of a topic are kept (invariant 5).
const remembered = 64

// saw remembers that the journal held an entry. Those that lanes further back
// read are not recorded: seen stays in the order of positions, and of the time
// line that the newest of them is on.
func (t *topic) saw(a anchor) {
	if n := len(t.seen); n > 0 && t.seen[n-1].position >= a.position {
		return
	}
	if len(t.seen) == remembered {
		copy(t.seen, t.seen[1:])
		t.seen = t.seen[:remembered-1]
	}
	t.seen = append(t.seen, a)
}

// behind tells whether a lane of the topic has something to deliver, as far as
// known.
func (t *topic) behind(l *lane) bool { return t.known && !l.cursor.same(t.head) }

// walk starts a walk over the lanes of t, or another after the one under way.
func (d *Dispatcher) walk(t *topic, published bool) {
	t.published = t.published || published
	if t.walking {
		t.again = true
		return
	}
	t.walking = true
	t.members.walk = len(t.lanes)
	d.walks.push(t)
	d.wakeLoop()
}

// walkOn does a chunk of the walk over the lanes of t: those that are idle and
// behind become ready, and something new shortens waits (HUB-48).
func (d *Dispatcher) walkOn(t *topic, now reading) {
	soonest := now.mono + int64(d.o.Policy.step(publishStep))
	for range chunk {
		l := t.next()
		if l == nil {
			if t.walking = t.again; t.again {
				t.again = false
				t.members.walk = len(t.lanes)
				break
			}
			t.published = false
			return
		}
		switch {
		case l.state == idle:
			d.proceed(l, now)
		case l.state == waiting && l.wait(d.o.Policy, now) == 0 && l.heldUntil(now.mono) == 0:
			d.resume(l, now)
		case l.state == waiting && t.published && !l.held && l.due > soonest:
			d.waitUntil(l, soonest)
		}
		if h := l.host; t.published && h.suspect && h.probe > soonest {
			h.probe = soonest
			d.probes.set(h)
		}
	}
	d.walks.push(t)
}

// Subscribers counts those who get a topic now: its subscriptions whose lease
// has not run out. It takes a time that grows with their number, and between
// chunks of them gives the lock to those who deliver: one that comes or goes
// meanwhile may be left out.
func (d *Dispatcher) Subscribers(topic string) int {
	now := d.read().earliest
	d.mu.Lock()
	defer d.mu.Unlock()
	t, n := d.topics[topic], 0
	if t == nil {
		return 0
	}
	for i := len(t.lanes) - 1; i >= 0; i-- {
		if t.lanes[i].expires > now {
			n++
		}
		if i > 0 && i%chunk == 0 {
			d.mu.Unlock()
			runtime.Gosched()
			d.mu.Lock()
			i = min(i, len(t.lanes))
		}
	}
	return n
}
