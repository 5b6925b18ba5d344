package post

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// watch limits one exchange of HTTP: the time without progress, and as a whole. One timer does both,
// and looks only when a limit may be reached.
type watch struct {
	cancel context.CancelCauseFunc
	idle   time.Duration
	began  time.Time
	last   atomic.Int64 // when there was progress last, in nanoseconds since began
	whole  atomic.Int64 // when the exchange has to be over, the same

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

func newWatch(cancel context.CancelCauseFunc, idle, whole time.Duration) *watch {
	w := &watch{cancel: cancel, idle: idle, began: time.Now()}
	w.whole.Store(int64(whole))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(idle, w.look)
	return w
}

// progress records that the other side read or wrote something.
func (w *watch) progress() { w.last.Store(int64(time.Since(w.began))) }

// answered records that the header of the answer is there. The exchange may wait only a moment
// for the rest.
func (w *watch) answered(rest time.Duration) {
	rest = min(rest, w.idle)
	soon := time.Since(w.began) + rest
	if int64(soon) < w.whole.Load() {
		w.whole.Store(int64(soon))
		w.mu.Lock()
		defer w.mu.Unlock()
		w.timer.Reset(rest)
	}
}

func (w *watch) look() {
	now, last, whole := time.Since(w.began), time.Duration(w.last.Load()), time.Duration(w.whole.Load())
	switch {
	case now >= whole:
		w.cancel(&SlowError{After: whole})
	case now-last >= w.idle:
		w.cancel(&SlowError{After: w.idle, Stalled: true})
	default:
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.stopped {
			w.timer.Reset(min(whole, last+w.idle) - now)
		}
	}
}

func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.timer.Stop()
}
