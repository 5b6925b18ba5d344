package journal

import "time"

// Clock is the time of day on a machine whose clock may be set at any time. Until a step
// has lasted for a while, the time before it and the time after it may both be right. It may
// be shared between goroutines.
type Clock interface {
	// Now is the time that counts.
	Now() time.Time
	// Earliest and Latest are the earlier and the later one of the times that may be
	// right.
	Earliest() time.Time
	Latest() time.Time
	// Read returns Now, and what the machine's clock says, at an instant that time.Now has just returned.
	Read(at time.Time) (now, machine time.Time)
}
