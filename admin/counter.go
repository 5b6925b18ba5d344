package admin

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	countedFor = 5 * time.Second // how long a count is reused
	maxCounted = 256             // counts that are cached
	maxRunning = 2               // counts at once: each reads every subscription
)

// counter counts the outcomes of notifications. Requests for the same notification share one
// count, which is reused for countedFor. A count ends when no request waits for it any more.
type counter struct {
	count func(ctx context.Context, id uuid.UUID) (NotificationStatus, error)
	now   func() time.Time
	slots chan struct{}

	mu      sync.Mutex
	kept    *lru.Cache[uuid.UUID, NotificationStatus]
	running map[uuid.UUID]*counting // bounded by the requests that wait
}

// counting is a count that is under way. Its result may be read once done is
// closed.
type counting struct {
	waiting int // requests; counter.mu guards it
	cancel  context.CancelFunc
	done    chan struct{}
	result  NotificationStatus
	err     error
}

func newCounter(count func(context.Context, uuid.UUID) (NotificationStatus, error), now func() time.Time) *counter {
	kept, _ := lru.New[uuid.UUID, NotificationStatus](maxCounted) // it fails for sizes below 1 only
	return &counter{
		count: count, now: now, slots: make(chan struct{}, maxRunning),
		kept: kept, running: make(map[uuid.UUID]*counting),
	}
}

// get returns the count of a notification.
func (c *counter) get(ctx context.Context, id uuid.UUID) (NotificationStatus, error) {
	n, kept := c.join(ctx, id)
	if n == nil {
		return kept, nil
	}
	select {
	case <-n.done:
	case <-ctx.Done():
	}
	if c.leave(id, n) {
		<-n.done // at once, as it was cancelled; nothing outlives the requests
	}
	if err := ctx.Err(); err != nil {
		return NotificationStatus{}, err
	}
	return n.result, n.err
}

// join returns the running count, or starts one. If there is a cached result, it returns nil
// and that.
func (c *counter) join(ctx context.Context, id uuid.UUID) (*counting, NotificationStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if kept, ok := c.kept.Get(id); ok {
		if age := c.now().Sub(kept.AsOf); age >= 0 && age < countedFor {
			return nil, kept
		}
	}
	n := c.running[id]
	if n == nil {
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // requests share it
		n = &counting{cancel: cancel, done: make(chan struct{})}
		c.running[id] = n
		go c.run(ctx, id, n)
	}
	n.waiting++
	return n, NotificationStatus{}
}

// leave ends the count if no other request waits for it. It reports whether it did.
func (c *counter) leave(id uuid.UUID, n *counting) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n.waiting--; n.waiting > 0 {
		return false
	}
	c.drop(id, n)
	n.cancel()
	return true
}

func (c *counter) drop(id uuid.UUID, n *counting) {
	if c.running[id] == n {
		delete(c.running, id)
	}
}

func (c *counter) run(ctx context.Context, id uuid.UUID, n *counting) {
	defer close(n.done)
	defer n.cancel()
	select {
	case c.slots <- struct{}{}:
		n.result, n.err = c.count(ctx, id)
		<-c.slots
	case <-ctx.Done():
		n.err = ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n.err == nil {
		c.kept.Add(id, n.result)
	}
	c.drop(id, n)
}
