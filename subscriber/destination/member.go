package destination

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rshub/rshub/internal/base/clock"
)

// States of a member.
const (
	StateStarting  = "starting"  // it waits for its turn to be opened
	StateFollowing = "following" // it is open; the Source may be away all the same
	StateFailed    = "failed"    // it could not be opened or followed, and is tried again
	StateLeaving   = "leaving"   // it is left out, and its subscriptions are being ended
)

// member is a copy of a Fleet. It follows its Source, begins again after an error, and ends
// its subscriptions when it is left out.
type member struct {
	fleet *Fleet
	key   string // in Fleet.members
	name  string
	log   *slog.Logger

	started bool // of Fleet.mu
	copy    atomic.Pointer[Copy]
	changed clock.Signal // what is wanted is another

	mu     sync.Mutex
	wanted *Member // nil: it is to leave
	stored fleetRecord
	state  string
	since  time.Time // of state
	why    error     // of StateFailed, and of StateLeaving after a failure
}

// newMember returns a member that leaves, unless want says otherwise.
func newMember(f *Fleet, r fleetRecord) *member {
	m := &member{fleet: f, key: strings.ToLower(r.Name), name: r.Name, log: f.log.With("source", r.Name), stored: r}
	m.is(StateStarting, nil)
	return m
}

// want sets what is wanted of the member; nil: that it leaves.
func (m *member) want(w *Member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w != nil && m.wanted != nil && w.Version == m.wanted.Version {
		return
	}
	if m.wanted = w; w != nil {
		m.stored = recordOfMember(w)
	}
	m.changed.Broadcast()
}

func (m *member) record() fleetRecord {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stored
}

func (m *member) dir() string { return m.record().StateDir }

// wantedNow returns what is wanted of the member; nil: that it leaves.
func (m *member) wantedNow() *Member {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wanted
}

func (m *member) leaves() bool { return m.wantedNow() == nil }

func (m *member) is(state string, why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state != state {
		m.state, m.since = state, time.Now()
	}
	m.why = why
}

// run does what is wanted until ctx ends, or the member has left.
func (m *member) run(ctx context.Context) {
	for tries := 0; ; tries++ {
		changed := m.changed.Wait()
		m.mu.Lock()
		wanted, r := m.wanted, m.stored
		m.mu.Unlock()
		within, cancel := context.WithCancel(ctx)
		go func() {
			select {
			case <-changed:
				cancel()
			case <-within.Done():
			}
		}()
		began := time.Now()
		var err error
		if wanted != nil {
			err = m.follow(within, wanted)
		} else {
			err = m.leave(within, r)
		}
		interrupted := within.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case interrupted:
			tries = -1
			continue
		case wanted == nil && err == nil && m.fleet.forget(m):
			return
		case time.Since(began) > waitMost:
			tries = 0
		}
		wait := backoff(tries, waitMost)
		m.failed(err, wait)
		if !clock.Wait(ctx, wait, changed) {
			return
		}
	}
}

// failed notes why the member is tried again.
func (m *member) failed(err error, wait time.Duration) {
	state, text := StateFailed, "the Source cannot be followed"
	if m.leaves() {
		state, text = StateLeaving, "the Source was left out, and its subscriptions could not be ended"
	}
	m.is(state, err)
	m.log.Warn(fmt.Sprintf("%s; it is tried again in %v", text, wait), "event", "member_failed", "wait", wait, "error", err)
}

// follow opens the copy and follows its Source, until ctx ends or that fails.
func (m *member) follow(ctx context.Context, w *Member) error {
	o := w.Options
	o.Callback = m.callback()
	return m.with(ctx, o, StateFollowing, (*Copy).Follow)
}

// callback returns the callback of the copy; empty: no hub can call the Fleet.
func (m *member) callback() string {
	if m.fleet.o.Callback == "" {
		return ""
	}
	return m.fleet.o.Callback + "/" + m.name
}

// leave ends the subscriptions of the copy.
func (m *member) leave(ctx context.Context, r fleetRecord) error {
	o := Options{Source: r.Source, Dir: r.Dir, StateDir: r.StateDir, Callback: m.callback()}
	err := m.with(ctx, o, StateLeaving, (*Copy).Leave)
	if errors.Is(err, ErrInUse) && m.fleet.hasOther(m) {
		return nil // under another name, which has the old subscription ended
	}
	if err == nil {
		m.log.Info("the Source is not followed any more; its copy stays", "event", "member_left", "dir", r.Dir)
	}
	return err
}

// with opens the copy and does something with it.
func (m *member) with(ctx context.Context, o Options, state string, do func(*Copy, context.Context) error) error {
	f := m.fleet
	o.Parallel, o.Allow, o.Client, o.Log = f.o.Parallel, f.o.Allow, f.o.Client, m.log
	o.party, o.turn = f.shared.join(), f.baselines.begin
	if hand := o.Hand; hand != nil {
		o.Hand = func(ctx context.Context, e Event) error {
			end, err := f.hands.begin(ctx, nil)
			if err != nil {
				return err
			}
			defer end()
			return hand(ctx, e)
		}
	}
	done, err := f.opens.begin(ctx, nil)
	if err != nil {
		return err
	}
	c, err := Open(o)
	done()
	if err != nil {
		return err
	}
	m.copy.Store(c)
	defer func() {
		m.copy.Store(nil)
		_ = c.Close() // what is stored is synced already
	}()
	m.is(state, nil)
	return do(c, ctx)
}

// hasOther reports whether another member, which does not leave, has the folder of m.
func (f *Fleet) hasOther(m *member) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, other := range f.members {
		if other != m && !other.leaves() && other.dir() == m.dir() {
			return true
		}
	}
	return false
}
