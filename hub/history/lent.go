package history

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/rshub/rshub/journal"
)

// lent has the long notifications that answers are reading, each once for all its readers, who often ask at the
// same moment. It may be shared between goroutines.
type lent struct {
	most   int64
	memory *semaphore.Weighted
	mu     sync.Mutex
	loans  map[place]*loan
}

// loan is one of them.
type loan struct {
	readers int // lent.mu guards it
	done    chan struct{}
	body    []byte
	err     error
	left    bool // as in result
}

func newLent(most int64) lent {
	most = max(most, 1)
	return lent{most: most, memory: semaphore.NewWeighted(most), loans: make(map[place]*loan)}
}

// get returns the body of an entry. It calls read unless another answer has the body. The turn of the answer rests
// while it waits. The caller does not change the body, and calls free when it no longer needs it.
func (l *lent) get(ctx context.Context, t *turn, e *journal.Entry, read func() ([]byte, error)) (body []byte, free func(), err error) {
	key, n := place{e.Position, e.Nonce}, min(e.Size, l.most)
	for {
		l.mu.Lock()
		b, ok := l.loans[key]
		if !ok {
			b = &loan{done: make(chan struct{})}
			l.loans[key] = b
		}
		b.readers++
		l.mu.Unlock()
		if !ok {
			l.fill(ctx, t, key, b, n, read)
		}
		free = sync.OnceFunc(func() { l.free(key, b, n) })
		err = t.wait(ctx, b.done)
		switch {
		case err != nil:
			free()
			return nil, nil, err
		case b.err == nil:
			return b.body, free, nil
		case !ok || !b.left:
			return nil, nil, b.err
		}
	}
}

// fill reads a body. One that cannot be read is not lent.
func (l *lent) fill(ctx context.Context, t *turn, key place, b *loan, n int64, read func() ([]byte, error)) {
	defer close(b.done)
	b.err, b.left = errUnfinished, true
	defer func() {
		if b.err != nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			delete(l.loans, key)
		}
	}()
	err := t.acquire(ctx, l.memory, n)
	if err == nil {
		defer func() {
			if b.err != nil {
				l.memory.Release(n)
			}
		}()
		b.body, err = read()
	}
	b.err, b.left = err, err != nil && ctx.Err() != nil
}

// free ends a reader's use of a loan.
func (l *lent) free(key place, b *loan, n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.readers--; b.readers > 0 {
		return
	}
	select {
	case <-b.done:
	default: // it is being read, by one that still counts
		return
	}
	if b.err == nil {
		delete(l.loans, key)
		l.memory.Release(n)
	}
}
