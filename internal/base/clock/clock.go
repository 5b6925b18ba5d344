package clock

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// followed is how far the machine's clock may jump and be believed at once: it is corrected
	// in small steps all the time.
	followed = time.Minute
	// Hold is how long a larger step has to last before it is believed. Of several steps in
	// one direction, the part that has lasted is believed.
	Hold = 2 * time.Hour
	// drifted is how far the machine's clock may move away before the Clock looks closer.
	drifted = time.Second
)

// disagreed says in Clock.agreed that the machine's clock is not believed at once.
const disagreed = math.MinInt64

// Clock tells the time of day. It may be shared between goroutines.
type Clock struct {
	wall func() time.Time // nil: time.Now
	base time.Time        // what the monotonic clock counts from

	// agreed is steady in Unix nanoseconds, or disagreed. Several times a delivery the time is read,
	// by all senders, and mostly without the lock.
	agreed atomic.Int64

	mu     sync.Mutex
	steady time.Time // the time of day at base, as the Clock believes it
	// step is how far the machine's clock is ahead, when that is too far to follow.
	// Since a time, by the monotonic clock, it was never less than least. Zero: it
	// agrees.
	step, least, since time.Duration
}

// New returns a Clock that believes what the machine's clock says now. Wall reads
// the machine's clock; nil: time.Now.
func New(wall func() time.Time) *Clock {
	c := &Clock{wall: wall, base: time.Now()}
	c.steady = c.machine(c.base)
	c.agreed.Store(c.steady.UnixNano())
	return c
}

// Now is the time of day, without a step of the machine's clock that has not lasted
// for Hold.
func (c *Clock) Now() time.Time {
	steady, _ := c.Read(time.Now())
	return steady
}

// Earliest is the earlier one of Now and what the machine's clock says. Use it for what
// can't be undone and may be done once an instant has passed.
func (c *Clock) Earliest() time.Time {
	steady, wall := c.Read(time.Now())
	if wall.Before(steady) {
		return wall
	}
	return steady
}

// Latest is the later one of the two. Use it for an instant from which a promised time
// counts, and to limit what lies in the future.
func (c *Clock) Latest() time.Time {
	steady, wall := c.Read(time.Now())
	if wall.After(steady) {
		return wall
	}
	return steady
}

// Step is how far the machine's clock is ahead of Now, or behind where it is
// negative; zero: no step waits for Hold.
func (c *Clock) Step() time.Duration {
	c.Read(time.Now())
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.step
}

// machine is what the machine's clock says at an instant of time.Now, without a monotonic reading.
func (c *Clock) machine(at time.Time) time.Time {
	if c.wall != nil {
		at = c.wall()
	}
	return at.Round(0)
}

// Read returns Now, and what the machine's clock says, at an instant that time.Now has just returned: to read
// a clock takes a hundredth of the time of a delivery, which reads it several times. Neither has a
// monotonic reading.
func (c *Clock) Read(at time.Time) (steady, wall time.Time) {
	mono := at.Sub(c.base)
	wall = c.machine(at)
	if agreed := c.agreed.Load(); agreed != disagreed {
		if ahead := time.Duration(wall.UnixNano() - agreed - int64(mono)); ahead.Abs() <= drifted {
			return wall, wall
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	steady = c.steady.Add(mono)
	ahead := wall.Sub(steady)
	if c.least != 0 && (ahead > 0) == (c.least > 0) && mono-c.since >= Hold {
		if ahead.Abs() < c.least.Abs() {
			c.least = ahead
		}
		c.steady, steady, ahead = c.steady.Add(c.least), steady.Add(c.least), ahead-c.least
		c.least = 0 // the rest is another step
	}
	switch {
	case ahead.Abs() <= followed:
		c.step, c.least = 0, 0
		c.steady = wall.Add(-mono)
		c.agreed.Store(c.steady.UnixNano())
		return wall, wall
	case (ahead > 0) != (c.least > 0), c.least == 0: // a new one
		c.least, c.since = ahead, mono
	case ahead.Abs() < c.least.Abs():
		c.least = ahead
	}
	c.step = ahead
	c.agreed.Store(disagreed)
	return steady, wall
}
