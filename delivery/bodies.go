package delivery

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/websub"
)

// bodies reads entries from the journal and keeps them in memory as long as they
// are used, and a while longer where there is room. However many deliveries use
// one, it is read once and counts once.
//
// Small bodies are read on the spot: those in flight take no more than an
// eighth of the limit, since they are small enough for that. Large ones wait for
// room in the order in which they were asked for, without holding a sender, and
// have the rest; one that is larger than that gets it alone.
type bodies struct {
	reader journal.Reader
	hub    string
	limit  int64
	small  int64 // bytes of the largest small body
	// unpark is told of lanes that waited for a body, and whether it was read.
	unpark func(lanes []*lane, read bool)
	// ctx is under which large bodies are read. Run sets it before it starts
	// anything; they are read for many lanes, so none's own will do.
	ctx   context.Context
	loads sync.WaitGroup // reads of large bodies

	mu     sync.Mutex
	byKey  map[bodyKey]*body
	idle   list.List // of *body that nobody uses, the one used last at the back
	queue  ring[*body]
	next   *body // taken from queue, the first to get room
	cached int64 // bytes in memory
	pinned int64 // bytes in use, or being read
	large  int64 // of pinned, those of large bodies
	reads  uint64
	closed bool // no large body is read any more
}

// bodyKey is what a lane knows of the entry it wants: the one before it.
type bodyKey struct {
	topic    *topic
	position journal.Position
	nonce    journal.Nonce
}

// body is an entry, and what of a delivery is the same for all its subscribers.
type body struct {
	key    bodyKey
	entry  journal.Entry // with its body
	anchor anchor
	id     string // of the notification
	link   string // the Link header

	done    chan struct{} // closed when the entry was read, and its body if small
	err     error         // why it was not
	isLarge bool
	loaded  bool
	refs    int           // deliveries that use it
	grace   bool          // one of refs is for whoever comes first
	stale   bool          // not in byKey any more
	unused  *list.Element // in bodies.idle
	waiters []*lane
}

// errHead says that there is no entry after an anchor.
var errHead = errors.New("no entry yet")

// errNoRoom says that a large body has to be waited for.
var errNoRoom = errors.New("no room for the body yet")

func newBodies(r journal.Reader, hub string, limit int64, inFlight int, unpark func([]*lane, bool)) *bodies {
	return &bodies{
		reader: r, hub: hub, limit: limit, small: min(smallBody, limit/8/int64(inFlight)),
		unpark: unpark, ctx: context.Background(), byKey: make(map[bodyKey]*body),
	}
}

// get returns the entry after a, to be given back with put. The errors are those
// of Reader.Read, errHead, and errNoRoom with a body to call wait for.
func (b *bodies) get(ctx context.Context, t *topic, a anchor) (*body, error) {
	key := bodyKey{t, a.position, a.nonce}
	for {
		b.mu.Lock()
		e := b.byKey[key]
		if e == nil {
			e = &body{key: key, done: make(chan struct{})}
			b.byKey[key] = e
			b.reads++
			b.mu.Unlock()
			return b.read(ctx, e, a)
		}
		if e.loaded {
			b.pin(e)
			b.mu.Unlock()
			return e, nil
		}
		if e.isLarge {
			b.mu.Unlock()
			return e, errNoRoom
		}
		b.mu.Unlock()
		<-e.done
		// Whoever asks now may find an entry where the one that read found the
		// head; other errors hold for all.
		if e.err != nil && !errors.Is(e.err, errHead) {
			return nil, e.err
		}
	}
}

// read reads the entry of e, which is new and this caller's.
func (b *bodies) read(ctx context.Context, e *body, a anchor) (*body, error) {
	entries, err := b.reader.Read(ctx, e.key.topic.url, a.unpack(), 1, b.small)
	if err == nil && len(entries) == 0 {
		err = errHead
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	defer close(e.done)
	if err != nil {
		e.err = err
		delete(b.byKey, e.key)
		return nil, err
	}
	e.entry = entries[0]
	e.anchor = packAnchor(e.entry.Anchor())
	e.id = e.entry.ID.String()
	e.link = linkHeader(e.key.topic.url, b.hub, e.entry.Links)
	if e.isLarge = e.entry.Body == nil && e.entry.Size > 0; e.isLarge {
		b.queue.push(e)
		b.admit()
		return e, errNoRoom
	}
	e.entry.Size = int64(len(e.entry.Body))
	e.loaded = true
	b.hold(e)
	return e, nil
}

// hold counts the bytes of e in memory, for one that uses it.
func (b *bodies) hold(e *body) {
	b.evict(b.limit - e.entry.Size)
	b.cached += e.entry.Size
	e.refs = 1
	b.use(e, 1)
}

// use counts e among what is in use, or no longer.
func (b *bodies) use(e *body, sign int64) {
	b.pinned += sign * e.entry.Size
	if e.isLarge {
		b.large += sign * e.entry.Size
	}
}

func (b *bodies) pin(e *body) {
	if e.grace {
		e.grace = false
		return
	}
	if e.refs++; e.refs == 1 {
		b.idle.Remove(e.unused)
		e.unused = nil
		b.use(e, 1)
	}
}

// put gives back what get returned.
func (b *bodies) put(e *body) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unpin(e)
}

func (b *bodies) unpin(e *body) {
	if e.refs--; e.refs > 0 {
		return
	}
	b.use(e, -1)
	if e.stale {
		b.drop(e)
	} else {
		e.unused = b.idle.PushBack(e)
		b.evict(b.limit)
	}
	b.admit()
}

// forget drops what was read of a topic, since the store lost some of it.
func (b *bodies) forget(t *topic) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, e := range b.byKey {
		switch {
		case key.topic != t || !e.loaded:
		case e.refs > 0:
			e.stale = true
			delete(b.byKey, key)
		default:
			b.drop(b.idle.Remove(e.unused).(*body)) //nolint:errcheck // it holds nothing else
		}
	}
}

// evict drops bodies that nobody uses until no more than limit bytes are left,
// and no more bodies than is reasonable.
func (b *bodies) evict(limit int64) {
	for b.idle.Len() > 0 && (b.cached > limit || b.idle.Len() > cachedBodies) {
		b.drop(b.idle.Remove(b.idle.Front()).(*body)) //nolint:errcheck // it holds nothing else
	}
}

func (b *bodies) drop(e *body) {
	b.cached -= e.entry.Size
	if !e.stale {
		delete(b.byKey, e.key)
	}
}

// close ends the reading of large bodies, when ctx has ended, and waits for what
// is being read.
func (b *bodies) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.loads.Wait()
}

// admit begins to read large bodies as long as there is room for them.
func (b *bodies) admit() {
	for !b.closed {
		if b.next == nil {
			b.next, _ = b.queue.pop()
		}
		e := b.next
		if e == nil || b.large > 0 && b.large+e.entry.Size > b.limit-b.limit/8 {
			return
		}
		b.next = nil
		b.hold(e)
		b.loads.Go(func() { b.load(e) })
	}
}

// load reads a large body and calls those back that wait for it. It is kept for
// the first of them, for a moment.
func (b *bodies) load(e *body) {
	data, err := b.reader.Body(b.ctx, e.key.topic.url, e.entry)
	b.mu.Lock()
	waiters := e.waiters
	e.waiters = nil
	if err != nil {
		e.err = err
		e.isLarge, e.refs = false, 0 // whoever still finds it asks again
		b.pinned -= e.entry.Size
		b.large -= e.entry.Size
		b.drop(e)
		b.admit()
	} else {
		e.entry.Body = data
		e.loaded, e.grace = true, true
		time.AfterFunc(grace, func() { b.endGrace(e) })
	}
	b.mu.Unlock()
	b.unpark(waiters, err == nil)
}

func (b *bodies) endGrace(e *body) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.grace {
		e.grace = false
		b.unpin(e)
	}
}

// wait has a lane called back when e was read. False: it was, or could not be.
func (b *bodies) wait(e *body, l *lane) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.loaded || !e.isLarge {
		return false
	}
	e.waiters = append(e.waiters, l)
	return true
}

func (b *bodies) stats() (pinned, cached int64, reads uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pinned, b.cached, b.reads
}

// linkHeader is the one Link header of a delivery (HUB-43, HUB-44).
func linkHeader(topic, hub string, relayed []string) string {
	link := websub.FormatLinks(
		websub.Link{Target: topic, Rels: []string{websub.RelSelf}},
		websub.Link{Target: hub, Rels: []string{websub.RelHub}},
	)
	for _, l := range relayed {
		link += ", " + l
	}
	return link
}
