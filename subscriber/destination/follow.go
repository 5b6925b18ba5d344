package destination

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber"
)

// handlers are the callbacks of the sets, by the segment of the path that leads to
// each.
type handlers struct {
	mu sync.RWMutex
	by map[string]http.Handler
}

func (h *handlers) set(name string, to http.Handler) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.by == nil {
		h.by = map[string]http.Handler{}
	}
	h.by[name] = to
}

// Handler is what hubs call at Options.Callback and below it. Until Follow has
// opened the set in question it answers 503, so that hubs come again.
func (c *Copy) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		segments := strings.Split(r.URL.Path, "/")
		c.handlers.mu.RLock()
		defer c.handlers.mu.RUnlock()
		if len(segments) >= 2 {
			if h := c.handlers.by[segments[len(segments)-2]]; h != nil {
				h.ServeHTTP(w, r)
				return
			}
		}
		if len(c.handlers.by) == 0 {
			w.Header().Set("Retry-After", "5")
			http.Error(w, "The copy is not ready for notifications yet.", http.StatusServiceUnavailable)
			return
		}
		http.Error(w, "There is no such callback.", http.StatusNotFound)
	})
}

const (
	followAgain = 30 * time.Second // after the Source could not be worked with
	gather      = 50 * time.Millisecond
	retrySweep  = time.Second
	pollEvery   = 5 * time.Minute // of a Source without a hub
	setsEvery   = time.Hour       // is the Source asked for sets that are new
)

// Follow brings the copy in step with the Source and keeps it so until ctx ends:
// changes that are pushed to Handler at once, those of a Source without a hub every
// few minutes. What could not be had is tried again, after ever longer pauses up to
// an hour. It returns nil when ctx ends; an error says that the copy's own state
// could not be worked with, or that the Source could not be at the start.
func (c *Copy) Follow(ctx context.Context) error {
	sets, err := c.sets(ctx)
	if err != nil {
		return err
	}
	following := map[string]bool{}
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 1)
	wg.Go(func() { c.keepTrying(ctx) })
	tick := time.NewTicker(setsEvery)
	defer tick.Stop()
	for {
		for _, set := range sets {
			if following[set.name] {
				continue
			}
			following[set.name] = true
			wg.Go(func() {
				if err := c.followSet(ctx, set); err != nil && ctx.Err() == nil {
					select {
					case failed <- fmt.Errorf("following the set %s: %w", set.name, err):
					default:
					}
				}
			})
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case <-tick.C:
		}
		if more, err := c.sets(ctx); err == nil {
			sets = more
		}
	}
}

// followSet follows one set until ctx ends.
func (c *Copy) followSet(ctx context.Context, set namedSet) error {
	st, err := c.state.set(set.name)
	if err != nil {
		return err
	}
	for c.needsBaseline(set, st) {
		t := &tally{}
		if st, err = c.newBaseline(ctx, set, t); err == nil {
			c.log.Info("the baseline is there", "event", "baseline_done", "set", set.name, "copied", t.Copied, "failed", t.Failed, "from", t.Baseline)
			break
		}
		c.log.Warn("the baseline could not be taken; it is tried again", "event", "baseline_failed", "set", set.name, "error", err)
		if !sleep(ctx, followAgain) {
			return nil
		}
	}
	if set.Topic == "" || c.o.Callback == "" || !set.offers(resourcesync.ChangeList) {
		return c.poll(ctx, set)
	}
	name := digest(set.name, 8)
	s, err := c.openSubscriber(set, st, strings.TrimSuffix(c.o.Callback, "/")+"/"+name)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	c.handlers.set(name, s.Handler())
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { _ = s.Run(ctx) })
	return c.consume(ctx, set, s)
}

// poll follows a set that nobody pushes.
func (c *Copy) poll(ctx context.Context, set namedSet) error {
	c.log.Info("the set has no hub to subscribe at, so it is asked every few minutes", "event", "polling", "set", set.name, "every", pollEvery)
	for {
		if _, err := c.syncSet(ctx, set, &tally{}); err != nil && ctx.Err() == nil {
			c.log.Warn("the set could not be brought in step; it is tried again", "event", "sync_failed", "set", set.name, "error", err)
		}
		if !sleep(ctx, pollEvery) {
			return nil
		}
	}
}

// consume carries out what the stream hands on, what comes close together at once.
func (c *Copy) consume(ctx context.Context, set namedSet, s *subscriber.Subscriber) error {
	feed := make(chan subscriber.Change)
	go func() {
		defer close(feed)
		for change := range s.Changes(ctx) {
			select {
			case feed <- change:
			case <-ctx.Done():
				return
			}
		}
	}()
	for first := range feed {
		batch := gatherFrom(feed, first)
		for {
			again, err := c.apply(ctx, set, batch, &tally{})
			if err == nil && again {
				c.log.Warn("changes were missed that can't be had; a baseline is taken", "event", "baseline_needed", "set", set.name)
				_, err = c.newBaseline(ctx, set, &tally{})
			}
			if ctx.Err() != nil {
				return nil
			}
			if err == nil {
				break
			}
			c.log.Warn("changes could not be carried out; they are tried again", "event", "apply_failed", "set", set.name, "error", err)
			if !sleep(ctx, followAgain) {
				return nil
			}
		}
		if err := s.Commit(batch[len(batch)-1].Cursor); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return s.Err()
}

// gatherFrom takes what comes within a moment.
func gatherFrom(feed <-chan subscriber.Change, first subscriber.Change) []subscriber.Change {
	batch := []subscriber.Change{first}
	timer := time.NewTimer(gather)
	defer timer.Stop()
	for len(batch) < together {
		select {
		case change, more := <-feed:
			if !more {
				return batch
			}
			batch = append(batch, change)
		case <-timer.C:
			return batch
		}
	}
	return batch
}

// keepTrying tries what could not be had until ctx ends.
func (c *Copy) keepTrying(ctx context.Context) {
	for sleep(ctx, retrySweep) {
		if err := c.tryAgain(ctx, &tally{}, time.Now()); err != nil && ctx.Err() == nil && !errors.Is(err, context.Canceled) {
			c.log.Warn("what could not be had could not be tried again", "event", "retry_failed", "error", err)
		}
	}
}
