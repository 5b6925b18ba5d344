package history

import (
	"context"
	"errors"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/rshub/rshub/journal"
)

// shared keeps results that many streams need at about the same time. The first stream makes a result, and
// the others wait for it. Results never change. It may be shared between goroutines.
type shared[K comparable, V any] struct {
	size func(K, V) int // bytes of a result and what its key refers to, without resultBytes
	most int            // bytes of all that are kept

	mu    sync.Mutex
	lru   *simplelru.LRU[K, *result[V]]
	bytes int
}

// result is one of them.
type result[V any] struct {
	done  chan struct{} // closed when the rest is there
	v     V
	err   error
	left  bool // whoever made it went away or panicked, so another one makes it
	bytes int  // that shared counts for it
}

// resultBytes is about how much memory a result takes in shared, with its key.
const resultBytes = 450

// mostResults is more results than there is memory for.
const mostResults = 1 << 16

func newShared[K comparable, V any](most int, size func(K, V) int) *shared[K, V] {
	c := &shared[K, V]{size: size, most: most}
	c.lru, _ = simplelru.NewLRU(mostResults, func(_ K, r *result[V]) { c.bytes -= r.bytes }) // fails for a size below 1 only
	return c
}

// get returns the result for a key. It calls create unless the result is there or is being made. All that wait for a
// result get its error, which is not kept.
func (c *shared[K, V]) get(ctx context.Context, key K, create func() (V, error)) (V, error) {
	for {
		c.mu.Lock()
		r, ok := c.lru.Get(key)
		if !ok {
			r = &result[V]{done: make(chan struct{})}
			c.lru.Add(key, r)
		}
		c.mu.Unlock()
		if !ok {
			return c.make(ctx, key, r, create)
		}
		select {
		case <-r.done:
			if !r.left {
				return r.v, r.err
			}
		case <-ctx.Done():
			var none V
			return none, ctx.Err()
		}
	}
}

// have returns the result for a key if it is there. Unlike get it needs no memory for create.
func (c *shared[K, V]) have(key K) (v V, ok bool) {
	c.mu.Lock()
	r, ok := c.lru.Get(key)
	c.mu.Unlock()
	if !ok {
		return v, false
	}
	select {
	case <-r.done:
		return r.v, r.err == nil
	default:
		return v, false
	}
}

// errUnfinished is the error of a result until it is there, and for good if making it panics.
var errUnfinished = errors.New("it is not there yet")

// make makes a result for everybody.
func (c *shared[K, V]) make(ctx context.Context, key K, r *result[V], create func() (V, error)) (V, error) {
	defer close(r.done)
	defer c.keep(key, r)
	r.err, r.left = errUnfinished, true
	r.v, r.err = create()
	r.left = r.err != nil && ctx.Err() != nil
	return r.v, r.err
}

// keep keeps a result that was made. It forgets one that failed, was removed meanwhile, or would remove all others.
func (c *shared[K, V]) keep(key K, r *result[V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.err == nil {
		r.bytes = resultBytes + c.size(key, r.v)
	}
	if now, ok := c.lru.Peek(key); r.err != nil || !ok || now != r || r.bytes > c.most {
		r.bytes = 0
		c.forget(key, r)
		return
	}
	for c.bytes += r.bytes; c.bytes > c.most; {
		c.lru.RemoveOldest()
	}
}

// forget removes r, unless another result has its key by now.
func (c *shared[K, V]) forget(key K, r *result[V]) {
	if now, ok := c.lru.Peek(key); ok && now == r {
		c.lru.Remove(key)
	}
}

// pages reads entries without their bodies for many streams at once.
type pages struct {
	journal.Reader
	writers *writers // others write while one of them waits for the store
	known   *shared[pageKey, page]
	version uint64 // of the topic, as alarm has it
	atEnd   bool   // the version has nothing behind what Read returned the last time
}

// pageKey names a page by the version of its topic and the entry before it. So no page outlives a
// change of the topic, be it a notification or its removal.
type pageKey struct {
	topic   string
	version uint64
	after   place
}

// page is what follows an entry: entries, nothing yet, or what happened to them instead.
type page struct {
	entries []journal.Entry
	err     error
	last    bool // the journal has nothing after it
}

// bytes is about how much memory p takes.
func (p page) bytes() int {
	n := cap(p.entries) * entryBytes
	for i := range p.entries {
		e := &p.entries[i]
		n += len(e.MediaType)
		for _, l := range e.Links {
			n += linkBytes + len(l)
		}
	}
	return n
}

// entryBytes is about how much memory an entry takes without what it refers to, and linkBytes a link without its text.
const entryBytes, linkBytes = 256, 16

// Read is that of journal.Reader, without bodies. The page may be shorter than what there is by
// now: then the topic has a newer version.
func (p *pages) Read(ctx context.Context, topic string, after journal.Anchor, most int, _ int64) ([]journal.Entry, error) {
	known, ok := p.known.have(pageKey{topic, p.version, place{after.Position, after.Nonce}})
	var err error
	if !ok {
		known, err = p.load(ctx, topic, after, most)
	}
	if err == nil {
		err = known.err
	}
	p.atEnd = err == nil && known.last && len(known.entries) <= most
	return known.entries[:min(len(known.entries), most)], err
}

// Head is that of journal.Reader.
func (p *pages) Head(ctx context.Context, topic string) (journal.Head, error) {
	p.writers.rest()
	defer p.writers.resume()
	return p.Reader.Head(ctx, topic)
}

// load reads a page for everybody.
func (p *pages) load(ctx context.Context, topic string, after journal.Anchor, most int) (page, error) {
	p.writers.rest()
	defer p.writers.resume()
	return p.known.get(ctx, pageKey{topic, p.version, place{after.Position, after.Nonce}}, func() (page, error) {
		entries, err := p.Reader.Read(ctx, topic, after, most, 0)
		if _, gone := journal.ReadOn(err); gone || errors.Is(err, journal.ErrRolledBack) {
			return page{err: err}, nil
		}
		last := len(entries) == 0
		if err == nil && !last && len(entries) < most { // else the next page says it
			more, err := p.Reader.Read(ctx, topic, entries[len(entries)-1].Anchor(), 1, 0)
			last = err == nil && len(more) == 0
		}
		return page{entries, nil, last}, err
	})
}
