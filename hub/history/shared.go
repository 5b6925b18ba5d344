package history

import (
	"context"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/rshub/rshub/journal"
)

// shared keeps results that many streams need at about the same time: the first makes a result,
// the others wait for it. Results never change. It may be shared between goroutines.
type shared[K comparable, V any] struct {
	size func(V) int // bytes of a result
	most int         // bytes of all that are kept

	mu    sync.Mutex
	lru   *simplelru.LRU[K, *result[V]]
	bytes int
}

// result is one of them.
type result[V any] struct {
	done chan struct{} // closed when the rest is there
	v    V
	err  error
}

// mostResults is how many results are kept, however small they are.
const mostResults = 1 << 16

func newShared[K comparable, V any](most int, size func(V) int) *shared[K, V] {
	lru, _ := simplelru.NewLRU[K, *result[V]](mostResults, nil) // fails for a size below 1 only
	return &shared[K, V]{size: size, most: most, lru: lru}
}

// get returns the result for a key, which create makes unless somebody did. An error is not kept;
// those who wait for it make the result themselves.
func (c *shared[K, V]) get(ctx context.Context, key K, create func() (V, error)) (V, error) {
	c.mu.Lock()
	r, ok := c.lru.Get(key)
	if !ok {
		r = &result[V]{done: make(chan struct{})}
		c.lru.Add(key, r)
	}
	c.mu.Unlock()
	if ok {
		select {
		case <-r.done:
			if r.err == nil {
				return r.v, nil
			}
			return create()
		case <-ctx.Done():
			var none V
			return none, ctx.Err()
		}
	}
	r.v, r.err = create()
	close(r.done)
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.err != nil {
		c.forget(key, r)
		return r.v, r.err
	}
	for c.bytes += c.size(r.v); c.bytes > c.most; {
		_, old, ok := c.lru.RemoveOldest()
		if !ok {
			c.bytes = 0
			break
		}
		c.drop(old)
	}
	return r.v, nil
}

// forget removes r, unless another result has its key by now.
func (c *shared[K, V]) forget(key K, r *result[V]) {
	if now, ok := c.lru.Peek(key); ok && now == r {
		c.lru.Remove(key)
	}
}

// drop no longer counts a result. One that is not done is counted when it is.
func (c *shared[K, V]) drop(r *result[V]) {
	select {
	case <-r.done:
		if r.err == nil {
			c.bytes -= c.size(r.v)
		}
	default:
	}
}

// pages reads entries without their bodies for many streams at once.
type pages struct {
	journal.Reader
	known *shared[pageKey, []journal.Entry]
}

// pageKey names a page by the entry before it.
type pageKey struct {
	topic string
	after place
}

// errHead says that nothing follows. It is not kept: something will.
type errHead struct{}

func (errHead) Error() string { return "nothing follows yet" }

// Read is that of journal.Reader, without bodies. Entries never change, so a page may be an old
// one; it may be shorter than what there is by now.
func (p pages) Read(ctx context.Context, topic string, after journal.Anchor, most int, _ int64) ([]journal.Entry, error) {
	entries, err := p.known.get(ctx, pageKey{topic, place{after.Position, after.Nonce}}, func() ([]journal.Entry, error) {
		entries, err := p.Reader.Read(ctx, topic, after, most, 0)
		if err == nil && len(entries) == 0 {
			err = errHead{}
		}
		return entries, err
	})
	entries = entries[:min(len(entries), most)]
	if _, ok := err.(errHead); ok { //nolint:errorlint // it is never wrapped
		return nil, nil
	}
	return entries, err
}
