// Package lockshare says of a benchmark how much of the time a lock would be held on a machine with more cores.
package lockshare

import (
	"fmt"
	"math"
	"syscall"
	"testing"
	"time"
)

// rateOfCore is how many deliveries a core of a hub makes a second, as in docs/scale.md.
const rateOfCore = 15_000

// ThreadTime is how long this thread has worked. It counts processor time, which other programs do not lengthen. A
// goroutine that asks has to be locked to its thread.
func ThreadTime() time.Duration {
	const rusageThread = 1
	var u syscall.Rusage
	_ = syscall.Getrusage(rusageThread, &u) // Linux has it
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Report reports how long the lock with this name was held for one of some deliveries, and how much of the time that is
// at the rate of 16 and of 64 cores. So many cores share each lock; 0: all.
func Report(b *testing.B, name string, held time.Duration, deliveries int, cores float64) {
	b.Helper()
	hold := held.Seconds() / float64(deliveries)
	b.ReportMetric(hold*1e9, "ns-"+name+"/delivery")
	for _, all := range []float64{16, 64} {
		locks := 1.0
		if cores > 0 {
			locks = math.Ceil(all / cores)
		}
		b.ReportMetric(100*hold*all*rateOfCore/locks, fmt.Sprintf("%%-%s-at-%.0f-cores", name, all))
	}
}
