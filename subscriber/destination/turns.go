package destination

import (
	"context"
	"sync"
	"time"

	"github.com/rshub/rshub/internal/base/clock"
)

// turnLook is how often a turn is looked at: one in which less than turnLeast was done
// meanwhile is given on.
const (
	turnLook  = 10 * time.Second
	turnLeast = 100
)

// turns bounds how many do something heavy at once, such as a baseline. Nothing waits for
// one that is slow: its turn goes to the next, and it goes on without.
type turns chan struct{}

func newTurns(n int) turns { return make(turns, n) }

// begin waits for a turn. End ends it; it may be called again. Done returns how much was done
// until now; nil: the turn is given on at the first look.
func (t turns) begin(ctx context.Context, done func() int64) (end func(), err error) {
	select {
	case t <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	over, cancel := context.WithCancel(context.WithoutCancel(ctx))
	end = sync.OnceFunc(func() {
		cancel()
		<-t
	})
	if done == nil {
		done = func() int64 { return 0 }
	}
	go func() {
		for was := done(); clock.Sleep(over, turnLook); {
			now := done()
			if now-was < turnLeast {
				end()
				return
			}
			was = now
		}
	}()
	return end, nil
}
