package delivery

import (
	"time"

	"github.com/rshub/rshub/journal"
)

// clocks are the clocks of the scheduler. A simulation has others.
type clocks struct {
	mono func() int64 // nanoseconds since a moment, by a clock that is never set
	read func() reading
}

// newClocks counts monotonic time from now.
func newClocks(c journal.Clock) clocks {
	base := time.Now()
	return clocks{
		mono: func() int64 { return int64(time.Since(base)) },
		read: func() reading {
			at := time.Now()
			now, machine := c.Read(at)
			wall := now.UnixNano()
			return reading{int64(at.Sub(base)), wall, min(wall, machine.UnixNano())}
		},
	}
}

// reading is what the clocks say at a moment. What delivery itself waits for
// (due, probe, slowUntil) it counts in monotonic time, so that no clock that is set
// makes a lane wait longer. Leases, and the times in cursors, are times of day, as
// they outlive the process and are read by other hubs.
type reading struct {
	mono     int64
	wall     int64 // the time of day, Unix nanoseconds
	earliest int64 // the same, at which a lease is over for certain
}

// timeOf is the time of day at a monotonic time.
func (c *clocks) timeOf(mono int64) time.Time {
	now := c.read()
	return instant(now.wall + mono - now.mono)
}

// wait is how long a lane has to wait at now, by its cursor; zero: not at all. The
// time in the cursor may be another hub's, or older than a step of the clock. So no
// wait is longer than the step of the ladder that it came from, or where a callback
// asked for it, than the longest.
func (l *lane) wait(p Policy, now reading) int64 {
	left := l.cursor.next - now.wall
	if l.cursor.next == 0 || left <= 0 {
		return 0
	}
	if l.retryAfter {
		return min(left, int64(p.Max))
	}
	from := uint32(max(l.cursor.step, 1)) - 1
	if int(l.cursor.step) >= len(ladder)-1 {
		from = uint32(l.cursor.step) // which may be where it came from, too
	}
	return min(left, int64(p.wait(from, 1)))
}
