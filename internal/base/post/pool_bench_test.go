package post

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/rshub/rshub/test/lockshare"
)

// How long the lock of a shelf is held for a delivery, which takes an idle connection and gives it back. What comes
// before and after the lock counts as well. One operation is one delivery.
func BenchmarkPool(b *testing.B) {
	const origins, conns = 64, 4
	p := NewPool(Options{PerHost: 8, Idle: origins * conns, IdleTimeout: time.Minute})
	b.Cleanup(p.CloseIdleConnections)
	s := &p.shelves[0] // it has no other
	names := make([]string, origins)
	for i := range names {
		names[i] = fmt.Sprintf("http://h%d.example:8080", i)
		for range conns {
			nc, other := net.Pipe()
			b.Cleanup(func() { _ = other.Close() })
			s.put(newConn(nc, target{origin: names[i]}))
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start, done := lockshare.ThreadTime(), 0
	for ; b.Loop(); done++ {
		s.put(s.pop(names[done%origins]))
	}
	// A hub keeps twice as many connections as it makes exchanges at a time, which are more on more cores
	// (docs/scale.md). With those for 64 cores, it has all shelves.
	const coresOfShelf = 64 / mostShelves
	lockshare.Report(b, "pool", lockshare.ThreadTime()-start, done, coresOfShelf)
}

// The same of a Scope, where many other exchanges are in use.
func BenchmarkScope(b *testing.B) {
	s, end := NewScope(context.Background())
	defer end(nil)
	conns := make([]*conn, 1000)
	for i := range conns {
		conns[i] = &conn{abort: func() {}}
		s.begin(conns[i])
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start, done := lockshare.ThreadTime(), 0
	for ; b.Loop(); done++ {
		c := conns[done*7%len(conns)]
		s.end(c)
		s.begin(c)
	}
	// A hub has a Scope for each of its shards: 12 with 64 cores where there are as few hubs as can be (docs/scale.md).
	const coresOfScope = 64 / 12
	lockshare.Report(b, "scope", lockshare.ThreadTime()-start, done, coresOfScope)
}
