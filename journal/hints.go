package journal

import (
	"context"
	"sync"
)

// Hint says that a topic got an entry, or changed in another way.
type Hint struct {
	Topic string
	// Entry is the entry as Reader.Read returns it, and After is the one before it, if this process has stored it
	// just now. Who gets the hint must not change the entry, and may use its Body only until f of Watcher.Hints
	// returns. Where Entry is nil, the head of the topic says what its newest entry is.
	After Anchor
	Entry *Entry
}

// Broadcast sends hints to all listeners in one process. Its zero value is ready to use, and
// it may be shared between goroutines.
type Broadcast struct {
	mu        sync.RWMutex
	listeners map[*listener]struct{}
}

type listener struct {
	ctx context.Context //nolint:containedctx // it says how long hints are wanted
	f   func(Hint)
}

// Hints implements Watcher.Hints: f gets what Send is called with.
func (b *Broadcast) Hints(ctx context.Context, f func(Hint)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.listeners == nil {
		b.listeners = make(map[*listener]struct{})
	}
	l := &listener{ctx, f}
	b.listeners[l] = struct{}{}
	context.AfterFunc(ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.listeners, l)
	})
}

// Send calls each listener with a hint, unless its context has ended.
func (b *Broadcast) Send(h Hint) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for l := range b.listeners {
		if l.ctx.Err() == nil {
			l.f(h)
		}
	}
}

// hintBuffer is how many topics wait for one reader of HintedTopics. Further ones are lost.
const hintBuffer = 256

// HintedTopics returns the topics of hints, for a listener that may be slow. Hints is the method of a Watcher.
// HintedTopics closes the channel when ctx ends.
func HintedTopics(ctx context.Context, hints func(context.Context, func(Hint))) <-chan string {
	topics := make(chan string, hintBuffer)
	var mu sync.Mutex
	closed := false
	hints(ctx, func(h Hint) {
		mu.Lock()
		defer mu.Unlock()
		if !closed {
			select {
			case topics <- h.Topic:
			default:
			}
		}
	})
	context.AfterFunc(ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		closed = true
		close(topics)
	})
	return topics
}
