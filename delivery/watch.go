package delivery

import (
	"context"
	"time"

	"github.com/rshub/rshub/internal/base/web"
)

// watch limits one exchange: no longer than Timeout without progress, and no
// longer as a whole than Timeout and the time that the body takes at byteRate.
type watch struct {
	idle  time.Duration
	until time.Time   // when the exchange has to be over
	stall *time.Timer // cancels the exchange when idle has passed without progress
	whole *time.Timer // cancels it at until
}

// exchangeLimit is how long an exchange may take with a body of size bytes.
func exchangeLimit(timeout time.Duration, size int64) time.Duration {
	return web.Pace{Stall: timeout, Rate: byteRate}.Limit(size)
}

func newWatch(cancel context.CancelCauseFunc, idle, whole time.Duration) *watch {
	return &watch{
		idle: idle, until: time.Now().Add(whole),
		stall: time.AfterFunc(idle, func() { cancel(&slowError{after: idle, stalled: true}) }),
		whole: time.AfterFunc(whole, func() { cancel(&slowError{after: whole}) }),
	}
}

// progress records that the other side accepted or sent something. The transport may still call
// it when the exchange is over; then the timer cancels nothing.
func (w *watch) progress() { w.stall.Reset(w.idle) }

// answered records that the header of the answer has arrived. The rest of the answer gets only a
// moment.
func (w *watch) answered() { w.whole.Reset(min(readFor, w.idle, time.Until(w.until))) }

func (w *watch) stop() {
	w.stall.Stop()
	w.whole.Stop()
}
