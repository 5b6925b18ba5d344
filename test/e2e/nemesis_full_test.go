package e2e

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/test/redistest"
)

// flowWithin is how long a hub may take until more of what was accepted is delivered,
// while the store is full and a hub may have to take over from another.
const flowWithin = time.Minute

// fullFault fills every master as another tenant would, and then lowers the limit, so that Redis has
// more than its maxmemory. Deliveries of the backlog, ends, gaps and reads of the API have to
// continue. Publishes and requests wait.
func (m *nemesis) fullFault(servers func() []*redistest.Server) fault {
	return fault{name: "Redis filled by another tenant", kind: redisFull, gaps: []string{journal.GapGaveUp}, begin: func() func() {
		m.hold()
		time.Sleep(m.between(300*time.Millisecond, time.Second)) // the Sources publish
		var heal []func()
		for _, s := range servers() {
			heal = append(heal, m.fill(s))
		}
		m.release()
		m.flows()
		return func() {
			for _, heal := range heal {
				heal()
			}
		}
	}}
}

// fill makes one server hold more than its maxmemory, if it is a master.
func (m *nemesis) fill(s *redistest.Server) (heal func()) {
	const room, value = 8 << 20, 256 << 10
	m.limit(s, usedMemory(m.t, s)+room)
	var keys []string
	heal = func() {
		for _, key := range keys {
			_, _ = s.Try("DEL", key) // a failover may have made it a replica
		}
		m.limit(s, 0)
	}
	text := strings.Repeat("x", value)
	for i := range 4 * room / value { // other masters have some of the keys, and a replica has none
		key := fmt.Sprint("tenant:", i)
		_, err := s.Try("SET", key, text)
		if err == nil {
			keys = append(keys, key)
		} else if strings.HasPrefix(err.Error(), "OOM") {
			break
		}
	}
	if len(keys) > 0 {
		m.limit(s, usedMemory(m.t, s)*9/10)
	}
	return heal
}

// usedMemory is how many bytes a server holds.
func usedMemory(t testing.TB, s *redistest.Server) int64 {
	t.Helper()
	info, _ := s.Do(t, "INFO", "memory").(string)
	for line := range strings.Lines(info) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "used_memory:"); ok {
			used, err := strconv.ParseInt(n, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return used
		}
	}
	t.Fatalf("no used_memory in %q", info)
	return 0
}

func (m *nemesis) limit(s *redistest.Server, most int64) {
	m.t.Helper()
	s.Do(m.t, "CONFIG", "SET", "maxmemory", strconv.FormatInt(most, 10))
}

// flows waits until no subscription that stays lags any more, while nothing is
// accepted. If much is delivered again after a lost tail, that takes long. Then it is enough that they
// lag less and less.
func (m *nemesis) flows() {
	m.t.Helper()
	ctx := context.WithoutCancel(m.t.Context())
	least, deadline, enough := math.MaxInt, time.Now().Add(flowWithin), time.Now().Add(2*flowWithin)
	for {
		lag, err := m.lag(ctx)
		switch {
		case err == nil && lag == 0, time.Now().After(enough):
			return
		case err == nil && lag < least:
			least, deadline = lag, time.Now().Add(flowWithin)
		case time.Now().After(deadline):
			m.t.Errorf("delivery does not go on while Redis is full: subscriptions lag by %d notifications, and by %d for %v (%v)\n%s", lag, least, flowWithin, err, m.tails())
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// lag is by how many notifications all subscriptions that stay lag; an error: no hub
// says so of one.
func (m *nemesis) lag(ctx context.Context) (sum int, err error) {
	m.mu.Lock()
	var stay []*callee
	for _, c := range m.c.callees {
		if c.stays {
			stay = append(stay, c)
		}
	}
	m.mu.Unlock()
	asked := 0 // the hub that answers; another may be frozen
	for _, c := range stay {
		var sub struct {
			Lag struct{ Notifications int }
		}
		for range m.hubs {
			if err = m.look(ctx, m.hubs[asked], "/api/v1/subscriptions/"+m.subID(c), &sub); err == nil {
				break
			}
			asked = (asked + 1) % len(m.hubs)
		}
		if err != nil {
			return 0, err
		}
		sum += sub.Lag.Notifications
	}
	return sum, nil
}

// quit subscribes and answers 410 after a while, until ctx ends; it is subscribed
// then.
func (w *world) quit(ctx context.Context, c *callee, pause func() time.Duration) error {
	whole := context.WithoutCancel(ctx)
	for {
		w.changing.RLock()
		err := w.stay(whole, c)
		w.changing.RUnlock()
		if err != nil || !w.untilLeaving(ctx, pause()) {
			return err
		}
		w.changing.RLock()
		err = w.gone(whole, c)
		w.changing.RUnlock()
		if err != nil || !wait(ctx, pause()) {
			return err
		}
	}
}

// gone has a callback answer 410 until its subscription is ended by that.
func (w *world) gone(ctx context.Context, c *callee) error {
	w.mu.Lock()
	last := &c.sessions[len(c.sessions)-1]
	last.leaving = w.now()
	w.isGone[c.path] = true
	w.mu.Unlock()
	err := w.settled(ctx, c, "410", false, time.Now().Add(patience))
	w.mu.Lock()
	defer w.mu.Unlock()
	last.over = w.now()
	delete(w.isGone, c.path)
	return err
}

// untilLeaving waits for a time, or until hold is called, and reports whether ctx
// goes on.
func (w *world) untilLeaving(ctx context.Context, d time.Duration) bool {
	w.mu.Lock()
	leave := w.leave
	w.mu.Unlock()
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
	case <-leave:
	}
	return true
}

// hold has all callbacks answer 503 until release, so that there is something to
// deliver then. Those that quit answer 410 after it.
func (w *world) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = true
	close(w.leave)
	w.leave = make(chan struct{})
}

func (w *world) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = false
}

// answerOther answers a delivery with 503 or 410 where that is wanted, and reports
// whether it did.
func (w *world) answerOther(rw http.ResponseWriter, r *http.Request) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.held:
		rw.WriteHeader(http.StatusServiceUnavailable)
	case w.isGone[r.URL.Path]:
		rw.WriteHeader(http.StatusGone)
	default:
		return false
	}
	return true
}
