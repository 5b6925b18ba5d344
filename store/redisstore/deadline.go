package redisstore

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/rshub/rshub/journal"
)

// deadlines say until when Redis may store an entry. A server that was stopped for a moment, or a network that held a
// command back, runs a script long after the hub has answered that nothing is stored. So appendScript does not begin after
// the time for which its caller waits.
//
// That time is by the clock of the server, which may differ by any amount from that of the hub. Each answer says what
// time it was there. The answer took a moment, so a deadline is early by that moment. It is late only where the clock of
// Redis was set back, until the next answer.
type deadlines struct {
	clocks [journal.Partitions]atomic.Pointer[serverClock]
	start  time.Time
}

// serverClock is the clock of a server, as the last answer from it showed.
type serverClock struct {
	history *string       // with which the server had the partition: with another one, it may be another server
	ahead   time.Duration // of time.Since(deadlines.start)
}

// errLate says that a script came to Redis after its deadline, or that it had none.
var errLate = errors.New("the notification came to Redis too late to be stored; publish it again")

func newDeadlines() *deadlines { return &deadlines{start: time.Now()} }

// saw notes an answer that the server of a partition has just given, at a time in microseconds by its clock. It ignores 0.
func (d *deadlines) saw(partition int, history *string, at int64) {
	if at != 0 {
		ahead := time.Duration(at)*time.Microsecond - time.Since(d.start)
		d.clocks[partition].Store(&serverClock{history, ahead})
	}
}

// of returns until when the server of a partition may begin what is sent to it now, in microseconds by its clock. Nobody
// waits for the answer after timeout or the end of ctx. Zero: its clock is not known, and it has to say first what time it is.
func (d *deadlines) of(ctx context.Context, partition int, history *string, timeout time.Duration) string {
	c := d.clocks[partition].Load()
	if c == nil || c.history != history {
		return "0"
	}
	until := time.Now().Add(timeout)
	if end, ok := ctx.Deadline(); ok && end.Before(until) {
		until = end
	}
	return strconv.FormatInt((c.ahead + until.Sub(d.start)).Microseconds(), 10)
}
