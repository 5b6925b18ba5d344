package post

import (
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/rshub/rshub/test/lockshare"
)

// How long the lock of the pool is held for a delivery, which takes an idle connection and gives it back. What comes
// before and after the lock counts as well. One operation is one delivery.
func BenchmarkPool(b *testing.B) {
	const origins = 64
	p := NewPool(Options{PerHost: 8, Idle: 8 * origins, IdleTimeout: time.Minute})
	b.Cleanup(p.CloseIdleConnections)
	names := make([]string, origins)
	for i := range names {
		names[i] = fmt.Sprintf("http://h%d.example:8080", i)
		for range 4 {
			nc, other := net.Pipe()
			b.Cleanup(func() { _ = other.Close() })
			p.put(newConn(nc, target{origin: names[i]}))
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start, done := lockshare.ThreadTime(), 0
	for ; b.Loop(); done++ {
		p.put(p.pop(names[done%origins]))
	}
	lockshare.Report(b, "pool", lockshare.ThreadTime()-start, done, 0)
}
