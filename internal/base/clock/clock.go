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
	wall func() time.Time
	base time.Time // what the monotonic clock counts from

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
	if wall == nil {
		wall = time.Now
	}
	c := &Clock{wall: wall, base: time.Now(), steady: wall().Round(0)}
	c.agreed.Store(c.steady.UnixNano())
	return c
}

// Now is the time of day, without a step of the machine's clock that has not lasted
// for Hold.
func (c *Clock) Now() time.Time {
	steady, _ := c.Read()
	return steady
}

// Earliest is the earlier one of Now and what the machine's clock says. Use it for what
// can't be undone and may be done once an instant has passed.
func (c *Clock) Earliest() time.Time {
	steady, wall := c.Read()
	if wall.Before(steady) {
		return wall
	}
	return steady
}

// Latest is the later one of the two. Use it for an instant from which a promised time
// counts, and to limit what lies in the future.
func (c *Clock) Latest() time.Time {
	steady, wall := c.Read()
	if wall.After(steady) {
		return wall
	}
	return steady
}

// Step is how far the machine's clock is ahead of Now, or behind where it is
// negative; zero: no step waits for Hold.
func (c *Clock) Step() time.Duration {
	c.Read()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.step
}

// Read returns Now, and what the machine's clock says. Neither has a monotonic
// reading.
func (c *Clock) Read() (steady, wall time.Time) {
	if agreed := c.agreed.Load(); agreed != disagreed {
		mono := time.Since(c.base)
		wall = c.wall().Round(0)
		if ahead := time.Duration(wall.UnixNano() - agreed - int64(mono)); ahead.Abs() <= drifted {
			return wall, wall
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	mono := time.Since(c.base)
	steady, wall = c.steady.Add(mono), c.wall().Round(0)
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
