package destination

import (
	"context"
	"sync"
)

// claims are the resources that somebody works on, until what became of them is
// recorded: so the record is always of what was done last.
type claims struct {
	mu sync.Mutex
	of map[string]chan struct{}
}

// acquire waits until nobody else has a resource; false: ctx ended before.
func (c *claims) acquire(ctx context.Context, url string) bool {
	for {
		c.mu.Lock()
		busy := c.of[url]
		if busy == nil {
			c.of[url] = make(chan struct{})
			c.mu.Unlock()
			return true
		}
		c.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return false
		}
	}
}

func (c *claims) release(url string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.of[url])
	delete(c.of, url)
}
