package delivery

import (
	"bytes"
	"container/list"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rshub/rshub/internal/base/post"
	"github.com/rshub/rshub/journal"
)

// bodies reads entries from the journal and keeps them in memory as long as they
// are used, and a while longer where there is room. However many deliveries use
// one, it is read once and counts once.
//
// Bodies of up to atOnce bytes are read at once: all of those in flight take no more than an
// eighth of the limit. The others share the rest, the room (room.go). They wait for it without a
// sender (body_load.go), and their hosts take turns (body_queue.go). The bytes in memory stay
// within the limit, with one exception: a body that is larger than what its rank may have is in
// memory beside the eighth and the sections of the lower ranks.
//
// While some deliveries have a body that was read at once, others join them without the lock, and leave again
// (latestBody): most deliveries of a notification overlap, and on many processors they would wait for each other.
//
// A body is charged to the hosts that still read it. If the quick hosts have read it and a slow
// one has not, the body counts among those of slow hosts, and is charged to that host alone.
//
// A body that cannot be read gives its room back at once. The lanes that wait for it back
// off, and then wait again behind the others. A read that never ends keeps the room
// of its own body, and one sender.
type bodies struct {
	reader journal.Reader
	hub    string
	limit  int64

	userAgent string
	atOnce    int64 // bytes of the largest body that is read at once
	// unpark is called with lanes that waited for a body, and whether it was read. It is
	// called without lanes when a sender was reserved in vain.
	unpark func(lanes []*lane, read bool)
	// wasRead is called with the result of reading an entry with its body, before any other
	// delivery can ask for the entry.
	wasRead func(key bodyKey, err error)
	// ctx ends the reads of bodies in the room: they are for many lanes, so no lane's own
	// context will do. Run sets it before it starts anything.
	ctx   context.Context
	loads sync.WaitGroup // reads of bodies in the room

	mu     sync.Mutex // released by unlock where lanes may have to be called back
	byKey  map[bodyKey]*body
	idle   list.List // of *body without uses, the one used last at the back
	queue  byteQueue // for room
	room   room      // of bodies in use, or being read
	cached int64     // bytes in memory
	pinned int64     // of bodies in use that were read at once
	reads  uint64
	closed bool // nothing is read into the room any more
	calls  []call

	limits  *limits
	starved atomic.Bool // a body waits for a sender
}

// call is lanes to call back, and whether their body was read.
type call struct {
	lanes []*lane
	read  bool
}

// bodyKey names an entry by the one before it, which is all that a lane knows.
type bodyKey struct {
	topic *topic
	place
}

func keyOf(t *topic, a anchor) bodyKey { return bodyKey{t, a.place()} }

// body is an entry, with those values of its deliveries that are the same for all subscribers.
type body struct {
	key    bodyKey
	entry  journal.Entry // with its body
	anchor anchor
	id     string     // of the notification
	head   *post.Head // the fields of a delivery
	other  int64      // bytes of what is not the body

	done    chan struct{} // closed when the entry was read, and its body unless it is in the room
	err     error         // why it was not; written before done is closed
	inRoom  bool
	failed  error // why its body could not be read into the room
	loading bool
	loaded  bool
	stale   bool      // not in byKey any more
	offered time.Time // when it was, if nobody has used it since
	// By the health of the hosts: the deliveries that use it, and those that wait for it.
	uses    [2]use
	waiters [2]*waiter
	unused  *list.Element // in bodies.idle

	// sharing is how many deliveries share one of uses[quick].refs, of a body that was read at once. The lock guards
	// the way from 0 to 1.
	sharing atomic.Int64
}

// use is how many deliveries use a body.
type use struct {
	refs int
	// grace ends the reservation that one of refs is: it is for the first lane that comes. Nil:
	// none is a reservation.
	grace *time.Timer
}

// refs is how many deliveries use e.
func (e *body) refs() int { return e.uses[quick].refs + e.uses[unproven].refs }

// errHead says that there is no entry after an anchor.
var errHead = errors.New("no entry yet")

// errAgain says that another delivery has read the entry meanwhile: ask again.
var errAgain = errors.New("another delivery read the entry meanwhile")

// bodyError is the error if the body of an entry cannot be read, though the entry can.
type bodyError struct{ error }

func (e bodyError) Unwrap() error { return e.error }

// errNoRoom says that the lane has to wait for room.
var errNoRoom = errors.New("no room for the body yet")

func newBodies(r journal.Reader, hub, userAgent string, limit int64, n *limits, unpark func([]*lane, bool), wasRead func(bodyKey, error)) *bodies {
	return &bodies{
		reader: r, hub: hub, userAgent: userAgent, limit: limit, atOnce: min(smallBody, limit/8/n.senders),
		unpark: unpark, wasRead: wasRead, ctx: context.Background(), byKey: make(map[bodyKey]*body),
		room: newRoom(limit - limit/8), queue: byteQueue{accounts: make(map[*host]*account)},
		limits: n,
	}
}

// unlock releases the lock, then calls the lanes back that may go on.
func (b *bodies) unlock() {
	calls := b.calls
	b.calls = nil
	b.mu.Unlock()
	for _, c := range calls {
		b.unpark(c.lanes, c.read)
	}
}

// get returns the entry after a for a delivery to host h, which has this health.
// It is to be given back with put. The errors are those of Reader.Read, errHead,
// errNoRoom with a body to call wait for, and errAgain.
func (b *bodies) get(ctx context.Context, t *topic, a anchor, h *host, s health) (*body, error) {
	key := keyOf(t, a)
	if e := t.latest.join(key); e != nil {
		return e, nil
	}
	b.mu.Lock()
	e := b.byKey[key]
	if e != nil && !e.offered.IsZero() && time.Since(e.offered) > offerStands {
		b.withdraw(e)
		e = nil
	}
	if e == nil {
		e = &body{key: key, done: make(chan struct{})}
		b.byKey[key] = e
		b.reads++
		b.mu.Unlock()
		return b.read(ctx, e, a)
	}
	if e.loaded && b.mayUse(e, s) {
		b.pin(e, h, s)
		b.mu.Unlock()
		return e, nil
	}
	if e.inRoom {
		b.mu.Unlock()
		return e, errNoRoom
	}
	b.mu.Unlock()
	<-e.done
	// If the reader found the head, there may be an entry now. Other errors are valid for all.
	if e.err != nil && !errors.Is(e.err, errHead) {
		return nil, e.err
	}
	return nil, errAgain
}

// read reads the entry of e, which is new and this caller's.
func (b *bodies) read(ctx context.Context, e *body, a anchor) (*body, error) {
	entries, err := b.reader.Read(ctx, e.key.topic.url, a.unpack(), 1, b.atOnce)
	if err == nil && len(entries) == 0 {
		err = errHead
	}
	if err != nil || entries[0].Body != nil || entries[0].Size == 0 { // else load calls it
		b.wasRead(e.key, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	defer close(e.done)
	if err != nil {
		e.err = err
		b.unname(e)
		return nil, err
	}
	e.key.topic.tail.wentOn()
	b.describe(e, entries[0])
	if e.inRoom = e.entry.Body == nil && e.entry.Size > 0; e.inRoom {
		return e, errNoRoom
	}
	e.entry.Size = int64(len(e.entry.Body))
	e.loaded = true
	b.count(e)
	b.share(e)
	return e, nil
}

// describe sets what e has of its entry.
func (b *bodies) describe(e *body, entry journal.Entry) {
	e.entry = entry
	e.anchor = packAnchor(entry.Anchor())
	e.id = entry.ID.String()
	e.head = headOf(e.key.topic.url, b.hub, b.userAgent, &e.entry)
	e.other = e.otherBytes()
}

// prepare returns what offer takes of an entry that the store has just stored after a. Nil: the body is too large to be read at once.
func (b *bodies) prepare(t *topic, a anchor, entry *journal.Entry) *body {
	if int64(len(entry.Body)) != entry.Size || entry.Size > b.atOnce {
		return nil
	}
	e := &body{key: keyOf(t, a), done: make(chan struct{}), loaded: true}
	close(e.done)
	own := *entry
	own.Body = bytes.Clone(entry.Body)
	b.describe(e, own)
	return e
}

// offer keeps in memory what prepare returned, so that the lanes at the head do not read it. It does nothing if the entry is in
// memory, is being read, or was forgotten since another scheduler offered it. A lane that comes later than offerStands, or after
// the next entry, reads the journal, which may have trimmed the entry by then.
func (b *bodies) offer(e *body) {
	if e == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byKey[e.key] != nil || e.stale {
		return
	}
	t := e.key.topic
	if t.offered != nil {
		b.withdraw(t.offered)
	}
	t.tail.wentOn()
	b.byKey[e.key], t.offered, e.offered = e, e, time.Now()
	b.count(e)
	e.unused = b.idle.PushBack(e)
	b.evict(b.limit)
}

// withdraw drops an offer that nobody has taken.
func (b *bodies) withdraw(e *body) { b.drop(b.idle.Remove(e.unused).(*body)) } //nolint:errcheck // it contains nothing else

// taken says that an offer is none any more.
func (e *body) taken() {
	if t := e.key.topic; t.offered == e {
		t.offered, e.offered = nil, time.Time{}
	}
}

// otherBytes is about how much memory e takes without its body, in bytes.
func (e *body) otherBytes() int64 {
	n := 768 + e.head.Bytes() + len(e.entry.MediaType)
	for _, l := range e.entry.Links {
		n += len(l)
	}
	return int64(n)
}

// bytes is how many bytes e has in memory.
func (e *body) bytes() int64 { return e.entry.Size + e.other }

// count counts the bytes of e in memory.
func (b *bodies) count(e *body) {
	b.evict(b.limit - e.bytes())
	b.cached += e.bytes()
}

// use counts n more deliveries that use e, or fewer.
func (b *bodies) use(e *body, s health, n int) {
	was, used := b.rankOf(e), e.refs() > 0
	e.uses[s].refs += n
	switch now := e.refs() > 0; {
	case e.inRoom:
		b.room.move(e.entry.Size, was, b.rankOf(e))
	case now && !used:
		b.pinned += e.entry.Size
	case used && !now:
		b.pinned -= e.entry.Size
	}
}

// rankOf is the rank that e has in the room.
func (b *bodies) rankOf(e *body) rank {
	k := unused
	for s, u := range e.uses {
		if u.refs > 0 {
			k = max(k, b.room.rank(e.entry.Size, health(s)))
		}
	}
	return k
}

// mayUse reports whether a host of health s may use e, which is loaded, at once. It
// may not pass a body of the same rank that waits for room.
func (b *bodies) mayUse(e *body, s health) bool {
	if !e.inRoom || e.uses[s].grace != nil {
		return true
	}
	from, to := b.rankOf(e), b.room.rank(e.entry.Size, s)
	return from >= to || !b.queue.waits(to) && b.room.fits(e.entry.Size, from, to, b.queue.waits)
}

func (b *bodies) pin(e *body, h *host, s health) {
	b.reuse(e)
	if !e.inRoom {
		b.share(e)
		return
	}
	if u := &e.uses[s]; u.grace != nil {
		u.grace.Stop()
		u.grace = nil
		b.reserve(e, s, -1)
	} else {
		b.use(e, s, 1)
	}
	b.queue.charge(h, e)
}

// reuse removes e from the bodies without uses, if it is one of them.
func (b *bodies) reuse(e *body) {
	e.taken()
	if e.unused != nil {
		b.idle.Remove(e.unused)
		e.unused = nil
	}
}

// put gives back what get returned.
func (b *bodies) put(e *body, h *host, s health) {
	if !e.inRoom {
		if !e.leave() {
			return
		}
		s = quick
	}
	b.mu.Lock()
	defer b.unlock()
	if e.inRoom {
		b.queue.discharge(h, e)
	}
	b.unpin(e, s)
}

func (b *bodies) unpin(e *body, s health) {
	b.use(e, s, -1)
	switch {
	case e.refs() > 0:
	case e.stale:
		b.drop(e)
	default:
		e.unused = b.idle.PushBack(e)
		b.evict(b.limit)
	}
	if e.inRoom {
		b.giveRoom()
	}
}

// forget drops what was read of a topic, or is being read, since the store lost some of it.
func (b *bodies) forget(t *topic) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t.latest.Store(nil)
	for key, e := range b.byKey {
		if key.topic != t {
			continue
		}
		b.unname(e)
		e.stale = true
		if e.unused != nil {
			b.drop(b.idle.Remove(e.unused).(*body)) //nolint:errcheck // it contains nothing else
		}
	}
}

// unname has the entry of e read anew for whoever asks for it.
func (b *bodies) unname(e *body) {
	if b.byKey[e.key] == e { // else that is done, and another entry may have the name
		delete(b.byKey, e.key)
	}
}

// evict drops bodies without uses until at most limit bytes, and at most cachedBodies
// of them, are left.
func (b *bodies) evict(limit int64) {
	for b.idle.Len() > 0 && (b.cached > limit || b.idle.Len() > cachedBodies) {
		b.drop(b.idle.Remove(b.idle.Front()).(*body)) //nolint:errcheck // it contains nothing else
	}
}

// drop forgets a body without uses. If lanes wait for it, the body stays, to be read again.
func (b *bodies) drop(e *body) {
	b.cached -= e.bytes()
	e.unused = nil
	e.taken()
	e.key.topic.latest.CompareAndSwap(e, nil)
	if e.inRoom {
		e.loaded, e.entry.Body = false, nil
	}
	if e.waiters == [2]*waiter{} {
		b.unname(e)
	}
}

// close ends the reading into the room, when ctx has ended, and waits for the reads in progress.
func (b *bodies) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.loads.Wait()
}

// stats returns the bytes in use or being read, those in memory, and how many
// entries were read.
func (b *bodies) stats() (pinned, cached int64, reads uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pinned + b.room.lent(), b.cached, b.reads
}
