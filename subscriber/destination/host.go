package destination

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/rshub/rshub/internal/base/clock"
)

// host is the state of a host: how many requests it gets at once, and until when it asked for a
// pause.
type host struct {
	name  string
	slots chan struct{} // one element for each request that may be sent now

	mu      sync.Mutex
	until   time.Time // no request is sent before
	down    time.Time // the host does not answer: no request is tried before
	bad     int       // failures in a row
	good    int       // responses since the number of slots was raised
	well    bool      // the last response was a good one
	kept    int       // slots that are withheld
	surplus int       // slots to be withheld when they become free
}

func newHost(name string, parallel int) *host {
	h := &host{name: name, slots: make(chan struct{}, parallel)}
	for range parallel {
		h.slots <- struct{}{}
	}
	return h
}

// enter waits until another request may be sent. Leave ends it.
func (h *host) enter(ctx context.Context) error {
	select {
	case <-h.slots:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *host) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.surplus > 0 {
		h.surplus--
		h.kept++
		return
	}
	h.slots <- struct{}{}
}

// awayError says that a host is not called for a while.
type awayError struct {
	host string
	why  string
	wait time.Duration
}

func (e *awayError) Error() string {
	return fmt.Sprintf("%s %s; it is called again in %v", e.host, e.why, e.wait.Round(time.Second))
}

// Timeout makes it a FailureTimeout for egress.Classify: the host cannot be reached now.
func (e *awayError) Timeout() bool { return true }

// Temporary makes it a net.Error.
func (e *awayError) Temporary() bool { return true }

// wait waits until the host may be called. An error says that this would take too long, or
// that ctx ended.
func (h *host) wait(ctx context.Context) error {
	for {
		h.mu.Lock()
		now := time.Now()
		pause, down := h.until.Sub(now), h.down.Sub(now)
		h.mu.Unlock()
		switch {
		case down > 0:
			return &awayError{h.name, "did not answer many times in a row", down}
		case pause > hostPauseMax:
			return &awayError{h.name, "asked for a pause", pause}
		case pause <= 0:
			return nil
		}
		if !clock.Sleep(ctx, pause) {
			return ctx.Err()
		}
	}
}

// sound reports whether the last response was a good one.
func (h *host) sound() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.well
}

// worse counts a failure, and stops requests to the host for a while after many in a row. The
// caller has locked mu.
func (h *host) worse() {
	h.well = false
	if h.bad++; h.bad >= 20+2*cap(h.slots) {
		h.down = time.Now().Add(hostRest)
	}
}

// answered counts a response; status 0: the host did not answer. A response that asks for
// less (429, 503) halves the requests that are sent at once, and delays them for a while;
// good ones raise their number again.
func (h *host) answered(status int, after time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	open := cap(h.slots) - h.kept - h.surplus
	switch {
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		h.worse()
		now := time.Now()
		if now.After(h.until) { // responses to requests that were under way do not halve again
			h.surplus += open / 2
		}
		h.until = later(h.until, now.Add(max(after, time.Second)))
		h.good = 0
	case status == 0 || status >= http.StatusInternalServerError:
		h.worse()
	default:
		h.bad, h.well = 0, true
		if h.good++; h.good < open || h.kept+h.surplus == 0 {
			return
		}
		h.good = 0
		if h.surplus > 0 {
			h.surplus--
			return
		}
		h.kept--
		h.slots <- struct{}{}
	}
}
