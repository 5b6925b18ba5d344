package delivery

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rshub/rshub/internal/base/web"
)

// watch limits one exchange: at most Timeout without progress, and as a whole at most Timeout
// and the time that the body needs at byteRate. One timer does both, and looks only when a limit
// may be reached.
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

// exchangeLimit is how long an exchange may take with a body of size bytes.
func exchangeLimit(timeout time.Duration, size int64) time.Duration {
	return web.Pace{Stall: timeout, Rate: byteRate}.Limit(size)
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
func (w *watch) answered() {
	soon := time.Since(w.began) + min(readFor, w.idle)
	if int64(soon) < w.whole.Load() {
		w.whole.Store(int64(soon))
		w.mu.Lock()
		defer w.mu.Unlock()
		w.timer.Reset(min(readFor, w.idle))
	}
}

func (w *watch) look() {
	now, last, whole := time.Since(w.began), time.Duration(w.last.Load()), time.Duration(w.whole.Load())
	switch {
	case now >= whole:
		w.cancel(&slowError{after: whole})
	case now-last >= w.idle:
		w.cancel(&slowError{after: w.idle, stalled: true})
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
