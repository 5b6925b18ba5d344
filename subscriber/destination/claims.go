package destination

import (
	"context"
	"sync"
)

// claims are the resources that somebody is working on, until the result is recorded. So the last
// record is always that of the latest work. The zero value is ready for use, also by several
// goroutines.
type claims struct {
	of sync.Map // URL: chan struct{}, which is closed at the release
}

// acquire waits until nothing else works on a resource; false: ctx ended before.
func (c *claims) acquire(ctx context.Context, url string) bool {
	mine := make(chan struct{})
	for {
		busy, taken := c.of.LoadOrStore(url, mine)
		if !taken {
			return true
		}
		select {
		case <-busy.(chan struct{}): //nolint:errcheck // there is nothing else in it
		case <-ctx.Done():
			return false
		}
	}
}

// has reports whether somebody works on a resource.
func (c *claims) has(url string) bool {
	_, ok := c.of.Load(url)
	return ok
}

func (c *claims) release(url string) {
	if mine, ok := c.of.LoadAndDelete(url); ok {
		close(mine.(chan struct{})) //nolint:errcheck // as above
	}
}
