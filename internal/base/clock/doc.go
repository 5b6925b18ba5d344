// Package clock gives the time of day to everything that stores or compares instants, so that
// a jump of the machine's clock does no harm.
//
// What happens within one process is measured by the monotonic clock, which does not
// jump. Instants that outlive a process (leases, the age of a notification, when an
// attempt is due) are times of day. This package compares the machine's time of day
// with the monotonic clock. If they differ, the machine's clock was stepped, and for a while
// either of the two may be right.
//
// Sleep and Wait wait on the monotonic clock until a context ends.
//
// The package reads clocks and nothing else. It never sets one.
package clock
