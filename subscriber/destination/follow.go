package destination

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber"
)

const (
	followAgain = 10 * time.Second // after the Source could not be worked with
	gather      = 10 * time.Millisecond
	retrySweep  = time.Second
	retryShare  = 20               // part of the time that looking for what is to be tried again may take
	pollEvery   = 5 * time.Minute  // of a Source without a hub
	setsEvery   = time.Hour        // is the Source asked for sets that are new
	dueEvery    = 10 * time.Minute // is a baseline tried again that the Source has not yet
)

// Follow brings the copy in step with the Source and keeps it so until ctx ends:
// changes that are pushed to Handler at once, those of a Source without a hub every
// few minutes. What could not be had is tried again, after ever longer pauses up to
// an hour. It returns nil when ctx ends; an error says that the copy's own state
// could not be worked with, or, where there is no copy yet, that the Source could not.
func (c *Copy) Follow(ctx context.Context) error {
	sets, err := c.firstSets(ctx)
	if err != nil || ctx.Err() != nil {
		return err
	}
	c.handlers.expect(len(sets))
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

// firstSets are the Source's sets. Where there is a copy already it waits for a Source
// that is not there.
func (c *Copy) firstSets(ctx context.Context) ([]namedSet, error) {
	for {
		sets, err := c.sets(ctx)
		if err == nil || ctx.Err() != nil {
			return sets, nil
		}
		if c.state.count() == 0 {
			return nil, err
		}
		c.log.Warn("the Source can't be worked with; it is tried again", "event", "source_failed", "error", err)
		if !sleep(ctx, followAgain) {
			return nil, nil
		}
	}
}

// followSet follows one set until ctx ends.
func (c *Copy) followSet(ctx context.Context, set namedSet) error {
	st := c.state.set(set.name)
	for needsBaseline(set, st) {
		next, err := c.baselineOf(ctx, set)
		if err == nil || errors.Is(err, ErrBehind) && !st.BaselineAt.IsZero() {
			st = next
			break
		}
		if !sleep(ctx, followAgain) {
			return nil
		}
	}
	if set.Topic == "" || c.o.Callback == "" || !set.offers(resourcesync.ChangeList) {
		c.handlers.set(digest(set.name, 8), nil)
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
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wg.Go(func() { _ = s.Run(ctx) })
	return c.consume(ctx, set, s)
}

// baselineOf takes a baseline of a set, and tells of it.
func (c *Copy) baselineOf(ctx context.Context, set namedSet) (setState, error) {
	t := newTally(c.o.Source)
	st, err := c.newBaseline(ctx, set, c.state.set(set.name), t)
	r := t.report()
	switch {
	case ctx.Err() != nil:
	case err != nil:
		c.log.Warn("the baseline could not be taken; it is tried again", "event", "baseline_failed", "set", set.name, "error", err)
	default:
		c.log.Info("the baseline is there", "event", "baseline_done", "set", set.name,
			"copied", r.Copied, "deleted", r.Deleted, "failed", r.Failed, "held", r.Held, "from", r.Baseline)
	}
	return st, err
}

// poll follows a set that nobody pushes.
func (c *Copy) poll(ctx context.Context, set namedSet) error {
	c.log.Info("the set has no hub to subscribe at, so it is asked every few minutes", "event", "polling", "set", set.name, "every", pollEvery)
	for {
		if _, err := c.syncSet(ctx, set, newTally(c.o.Source)); err != nil && ctx.Err() == nil {
			c.log.Warn("the set could not be brought in step; it is tried again", "event", "sync_failed", "set", set.name, "error", err)
		}
		if !sleep(ctx, pollEvery) {
			return nil
		}
	}
}

// consume carries out what the stream hands on, what comes close together at once.
func (c *Copy) consume(ctx context.Context, set namedSet, s *subscriber.Subscriber) error {
	feed := make(chan subscriber.Change, together) // what comes while others are carried out
	ctx, cancel := context.WithCancel(ctx)
	var reader sync.WaitGroup
	defer reader.Wait()
	defer cancel()
	reader.Go(func() {
		defer close(feed)
		for change := range s.Changes(ctx) {
			change.Content = nil // a topic may have it, a copy has not
			select {
			case feed <- change:
			case <-ctx.Done():
				return
			}
		}
	})
	due := time.NewTicker(dueEvery)
	defer due.Stop()
	for {
		select {
		case first, more := <-feed:
			if !more && ctx.Err() == nil {
				return s.Err()
			}
			if !more {
				return nil
			}
			if err := c.applyBatch(ctx, set, s, gatherFrom(feed, first)); err != nil {
				return err
			}
		case <-due.C:
			if needsBaseline(set, c.state.set(set.name)) {
				_, _ = c.baselineOf(ctx, set) // it tells
			}
		}
	}
}

// applyBatch carries changes out, until that works or ctx ends, and commits them. An
// error is that of the commit.
func (c *Copy) applyBatch(ctx context.Context, set namedSet, s *subscriber.Subscriber, batch []subscriber.Change) error {
	for {
		err := c.apply(ctx, set, batch, newTally(c.o.Source))
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
	last := batch[len(batch)-1]
	if err := s.Commit(last.Cursor); err != nil {
		return err
	}
	if last.NeedsBaseline {
		c.log.Warn("changes were missed that can't be had; a baseline is taken", "event", "baseline_needed", "set", set.name)
		_, _ = c.baselineOf(ctx, set) // it tells, and is tried again
	}
	return nil
}

// gatherFrom takes what comes within a moment, as far as a change that says that a
// baseline is needed.
func gatherFrom(feed <-chan subscriber.Change, first subscriber.Change) []subscriber.Change {
	batch := []subscriber.Change{first}
	timer := time.NewTimer(gather)
	defer timer.Stop()
	for len(batch) < together && !batch[len(batch)-1].NeedsBaseline {
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
	for wait := retrySweep; sleep(ctx, wait); {
		wait = retrySweep
		began := time.Now()
		if next := c.state.retry.Load(); next == 0 || next > began.UnixNano() {
			continue
		}
		c.state.retry.Store(0)
		err := c.tryAgain(ctx, newTally(c.o.Source), began)
		c.state.nextRetry()
		if err != nil && ctx.Err() == nil {
			c.log.Warn("what could not be had could not be tried again", "event", "retry_failed", "error", err)
		}
		wait = max(wait, retryShare*time.Since(began))
	}
}
