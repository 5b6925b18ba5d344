package delivery

import "time"

// reading is what the clocks say at a moment. What the Dispatcher itself waits for
// (due, probe, slowUntil) it counts in monotonic time, so that no clock that is set
// makes a lane wait longer. Leases, and the times in cursors, are times of day, as
// they outlive the process and are read by other hubs.
type reading struct {
	mono     int64 // nanoseconds since the Dispatcher was made
	wall     int64 // the time of day, Unix nanoseconds
	earliest int64 // the same, at which a lease is over for certain
}

// read reads the clocks.
func (d *Dispatcher) read() reading {
	now, machine := d.o.Clock.Read()
	r := reading{mono: d.mono(), wall: now.UnixNano()}
	r.earliest = min(r.wall, machine.UnixNano())
	return r
}

// mono is the monotonic time alone.
func (d *Dispatcher) mono() int64 { return int64(time.Since(d.base)) }

// wait is how long a lane has to wait at now, by its cursor; zero: not at all. The
// time in the cursor may be another hub's, or older than a step of the clock. So no
// wait is longer than the step of the ladder that it came from, or where a callback
// asked for it, than the longest.
func (l *lane) wait(p Policy, now reading) int64 {
	left := l.cursor.next - now.wall
	if l.cursor.next == 0 || left <= 0 {
		return 0
	}
	if l.held {
		return min(left, int64(p.Max))
	}
	from := uint32(max(l.cursor.step, 1)) - 1
	if int(l.cursor.step) >= len(ladder)-1 {
		from = uint32(l.cursor.step) // which may be where it came from, too
	}
	return min(left, int64(p.wait(from, 1)))
}

// timeOf is the time of day at a monotonic time.
func (d *Dispatcher) timeOf(mono int64) time.Time {
	return d.o.Clock.Now().Add(time.Duration(mono - d.mono()))
}
