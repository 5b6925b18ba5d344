package delivery

import (
	"context"
	"sync"

	"go.uber.org/zap"

	"github.com/rshub/rshub/journal"
)

// heads finds out which entries are new: it reads the head of each topic that may have moved,
// and passes it to the scheduler, which readies the topic's lanes. Hints say at once which topics
// moved, the sweep for certain.
type heads struct {
	journal Journal
	sched   *schedulers
	bodies  *bodies
	log     *zap.Logger

	mu       sync.Mutex
	follow   sync.Cond // on mu: queue got something, or stopping
	stopping bool
	queue    ring[*topic]
	failed   map[*topic]struct{} // topics with a head that could not be read the last time
}

// headRead says whether the head of a topic has to be read, and whether that is in progress.
type headRead struct{ dirty, reading bool }

func newHeads(j Journal, s *schedulers, b *bodies, log *zap.Logger) *heads {
	h := &heads{journal: j, sched: s, bodies: b, log: log, failed: make(map[*topic]struct{})}
	h.follow.L = &h.mu
	return h
}

// hint is called with each hint of the journal. If the hint has an entry that follows the head, the entry is the
// head from now on. Otherwise the head is read.
func (h *heads) hint(n journal.Hint) {
	switch t := h.sched.topics.get(n.Topic); {
	case t == nil:
	case n.Entry != nil && h.take(t, packAnchor(n.After), n.Entry):
		h.sched.giveWay()
	default:
		h.add(t)
	}
}

// take sets the head of a topic to an entry, if the head is after, the entry before it. Then the lanes that are at after get
// the entry from memory, as if they had read it when it was stored. Take reports whether the entry is the head now.
func (h *heads) take(t *topic, after anchor, e *journal.Entry) bool {
	h.mu.Lock()
	read := t.headRead
	h.mu.Unlock()
	if read.dirty || read.reading { // its answer may be older
		return false
	}
	taken, last, b := true, packAnchor(e.Anchor()), h.bodies.prepare(t, after, e)
	h.sched.ofTopic(t, func(s *scheduler, lanes *topicLanes) {
		switch {
		case lanes.known && lanes.head.same(after):
			h.bodies.offer(b) // before a sender asks for it
			s.setHead(lanes, last)
		case !lanes.known || !lanes.head.same(last):
			taken = false
		}
	})
	return taken
}

// touch reads the head of a topic soon, if the topic has lanes.
func (h *heads) touch(url string) { h.add(h.sched.topics.get(url)) }

// add reads the head of a topic soon. It ignores nil.
func (h *heads) add(t *topic) {
	if t != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.enqueue(t)
	}
}

// enqueue is add under the lock.
func (h *heads) enqueue(t *topic) {
	if r := &t.headRead; !r.dirty && !r.reading { // else its reader reads it again
		h.queue.push(t)
		h.follow.Signal()
	}
	t.headRead.dirty = true
}

// retry reads the heads again that could not be read.
func (h *heads) retry() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for t := range h.failed {
		h.enqueue(t)
	}
}

// run reads the heads of topics that may have moved, until stop.
func (h *heads) run(ctx context.Context) {
	for {
		t := h.next()
		if t == nil {
			return
		}
		head, err := h.journal.Head(ctx, t.url)
		if changed := h.read(t, head, err); !changed || ctx.Err() != nil {
			continue
		}
		if err != nil {
			h.log.Warn("the head of a topic cannot be read; it is read again every few seconds", zap.String("event", "head_failed"), zap.String("topic", t.url), zap.Error(err))
		} else {
			h.log.Info("the head of a topic can be read again", zap.String("event", "head_recovered"), zap.String("topic", t.url))
		}
	}
}

// next waits for a topic with a head to read. A topic has one reader at a time, so that an older
// answer never replaces a newer one. Nil: there will be no more topics.
func (h *heads) next() *topic {
	h.mu.Lock()
	defer h.mu.Unlock()
	for !h.stopping {
		if t, ok := h.queue.pop(); ok {
			t.headRead = headRead{reading: true}
			return t
		}
		h.follow.Wait()
	}
	return nil
}

// read passes on the result of reading a head: scheduler.setHead makes the topic's lanes ready. It
// reports whether reading failed but not the time before, or the other way round.
func (h *heads) read(t *topic, head journal.Head, err error) (changed bool) {
	hasLanes, last := false, packAnchor(head.Last)
	h.sched.ofTopic(t, func(s *scheduler, lanes *topicLanes) {
		hasLanes = true
		if err != nil {
			return
		}
		if lanes.trimmed = packAnchor(head.Trimmed); !(lanes.known && lanes.head.same(last)) {
			s.setHead(lanes, last)
		}
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	_, failed := h.failed[t]
	if delete(h.failed, t); err != nil && hasLanes {
		h.failed[t] = struct{}{}
	}
	if t.headRead.reading = false; t.headRead.dirty {
		h.queue.push(t)
		h.follow.Signal()
	}
	return failed != (err != nil)
}

// stop ends run.
func (h *heads) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopping = true
	h.follow.Broadcast()
}
