// Package ports chooses ports for the servers that tests start, such that they
// stay free until the server listens, and while it is away between a kill and a
// start: neither the kernel nor another test binary gives them to anybody.
package ports

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
)

// The ports are above those of well-known services and below the ones that
// kernels give to outgoing connections and to listeners that ask for any. Test
// binaries run side by side, so each has a block of its own, which is its own as
// long as it listens on the first port of it.
const (
	first  = 10240
	size   = 512
	blocks = (32768 - first) / size
)

// notCalled are the ports among them that package egress takes for those of other
// protocols, so that no hub would call a server there.
var notCalled = []int{11211, 26379, 27017, 27018, 27019}

var block struct {
	sync.Mutex
	lock net.Listener // of the block's first port; open until the process ends
	from int
	next int
}

// Free returns a port of 127.0.0.1 on which nothing listens, another one at each
// call until the block is used up. It may be called from any goroutine.
func Free() int {
	block.Lock()
	defer block.Unlock()
	for block.lock == nil {
		block.from = first + size*rand.IntN(blocks) //nolint:gosec // G404: not a secret
		block.lock, _ = listen(block.from)
	}
	for {
		block.next = block.next%(size-1) + 1
		port := block.from + block.next
		if slices.Contains(notCalled, port) {
			continue
		}
		if l, err := listen(port); err == nil {
			_ = l.Close()
			return port
		}
	}
}

// Addr is [Free] as host:port.
func Addr() string { return addr(Free()) }

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", addr(port)) //nolint:noctx // it returns at once
}

func addr(port int) string { return net.JoinHostPort("127.0.0.1", fmt.Sprint(port)) }
