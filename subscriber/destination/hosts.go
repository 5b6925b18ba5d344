package destination

import (
	"context"
	"sync"
	"time"
)

// hosts holds back what is wanted of hosts that asked for it.
type hosts struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// hold lets nothing go to a host for a while.
func (h *hosts) hold(host string, d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.until == nil {
		h.until = map[string]time.Time{}
	}
	if t := time.Now().Add(min(d, hostPauseMax)); t.After(h.until[host]) {
		h.until[host] = t
	}
}

// wait waits until a host may be called. An error: ctx ended before.
func (h *hosts) wait(ctx context.Context, host string) error {
	for {
		h.mu.Lock()
		d := time.Until(h.until[host])
		if d <= 0 {
			delete(h.until, host)
		}
		h.mu.Unlock()
		if d <= 0 {
			return nil
		}
		if !sleep(ctx, d) {
			return ctx.Err()
		}
	}
}
