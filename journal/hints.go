package journal

import (
	"context"
	"sync"
)

// hintBuffer is how many hints wait for one listener. Further ones are lost.
const hintBuffer = 256

// Broadcast sends hints to all listeners in one process. Its zero value is ready to use, and
// it may be shared between goroutines.
type Broadcast struct {
	mu    sync.Mutex
	chans map[chan string]struct{}
}

// Hints is Watcher.Hints of what Send is called with.
func (b *Broadcast) Hints(ctx context.Context) <-chan string {
	ch := make(chan string, hintBuffer)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.chans == nil {
		b.chans = make(map[chan string]struct{})
	}
	b.chans[ch] = struct{}{}
	context.AfterFunc(ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.chans, ch)
		close(ch)
	})
	return ch
}

// Send sends a hint of a topic to every listener. It never blocks.
func (b *Broadcast) Send(topic string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for ch := range b.chans {
		select {
		case ch <- topic:
		default:
		}
	}
}
