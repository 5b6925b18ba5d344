package publisher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/internal/base/clock"
)

// Run cuts and sends until ctx ends, and then returns nil. While the disk fails or is full,
// it waits and reports that in the log and by Status. Run may be called again after it has
// returned. An error says that the Publisher was closed.
func (p *Publisher) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.runCutter(ctx) })
	group.Go(func() error { return p.runTrim(ctx) })
	for _, s := range p.senders {
		group.Go(func() error { return s.run(ctx) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("the publisher of %s: %w", p.o.Topic, err)
	}
	return nil
}

// diskPause is how long a part of Run waits after the disk failed it.
const diskPause = 10 * time.Second

// retryLater waits after an error of the disk or of what is on it. The caller tries again.
// Its own error ends Run.
func (p *Publisher) retryLater(ctx context.Context, part string, err error) error {
	switch {
	case err == nil:
		p.troubles.Delete(part)
		return nil
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, ErrClosed):
		return err
	}
	p.troubles.Store(part, err)
	p.o.Log.Error("the outbox fails; it is tried again", slog.String("event", "outbox_failed"), slog.String("topic", p.o.Topic),
		slog.String("part", part), slog.Any("error", err))
	clock.Sleep(ctx, diskPause)
	return nil
}

// runCutter cuts whenever it is time.
func (p *Publisher) runCutter(ctx context.Context) error {
	quiet := time.Now() // since when no interval was cut
	for ctx.Err() == nil {
		changed := p.changed.Wait()
		wait, end := p.due(time.Now(), quiet)
		if wait > 0 {
			p.troubles.Delete(partCutting) // a cut of Flush may have succeeded
			clock.Wait(ctx, wait, changed)
			continue
		}
		p.cutting.Lock()
		ok, err := p.cut(ctx, end)
		p.cutting.Unlock()
		if err := p.retryLater(ctx, partCutting, err); err != nil {
			return err
		}
		if ok {
			quiet = time.Now()
		}
	}
	return nil
}

// never is longer than any wait.
const never = 1000 * time.Hour

// due returns the time until the next cut. If it is 0, end is where the interval ends; a
// zero end: right after the last change.
func (p *Publisher) due(now, quiet time.Time) (wait time.Duration, end time.Time) {
	s := p.box.outboxState()
	entries, bytes := p.limits()
	switch {
	case s.queued >= entries || s.queuedBytes+p.frameSize >= bytes:
		return 0, time.Time{}
	case s.queued > 0:
		if !p.awaited(s.Until) {
			return never, time.Time{} // a hub that is behind gets more at once later
		}
		return max(p.o.Every-now.Sub(s.since), 0), time.Time{}
	case p.o.Heartbeat <= 0 || !p.awaited(s.Until):
		return never, time.Time{}
	}
	wait = max(p.o.Heartbeat-now.Sub(quiet), 0)
	if end = now.UTC().Truncate(tick); wait == 0 && !end.After(s.Until) {
		return tick, time.Time{} // the clock was put back
	}
	return wait, end
}

// awaited reports whether a hub has everything up to until, or there is no hub.
func (p *Publisher) awaited(until time.Time) bool {
	for _, s := range p.senders {
		if s.status().Stopped == "" && s.has(until) {
			return true
		}
	}
	return len(p.senders) == 0
}

// has reports whether the hub has everything up to until.
func (s *sender) has(until time.Time) bool {
	at := s.cursor().Until
	return !at.Before(until) || at.IsZero() && !s.p.box.outboxState().Begun
}

// trimEvery is how often old intervals are looked for, and trimFull how often while the outbox is
// full.
const (
	trimEvery = time.Minute
	trimFull  = 2 * time.Second
)

func (p *Publisher) runTrim(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := p.retryLater(ctx, partTrimming, p.trim(ctx, time.Now())); err != nil {
			return err
		}
		end := time.Now().Add(trimEvery)
		for ctx.Err() == nil && time.Now().Before(end) && p.Full() == nil {
			clock.Sleep(ctx, trimFull)
		}
		if p.Full() != nil {
			clock.Sleep(ctx, trimFull)
		}
	}
	return nil
}

// trim records what every hub has, and deletes the part of it that was acknowledged long
// enough ago or needs too much room.
func (p *Publisher) trim(ctx context.Context, now time.Time) error {
	err := p.box.do(ctx, func(tx *boltfile.Tx, s *outboxState) error {
		return recordDelivered(tx, s, leastOf(tx, s, p.senders), now)
	})
	for n := maxTrim; err == nil && n == maxTrim; {
		var early interval
		n, early, err = p.trimSome(ctx, now.Add(-p.o.Keep), p.o.MaxStored/4*3)
		if !early.Until.IsZero() {
			p.o.Log.Warn("the outbox is nearly full: what every hub has went before its time, and a hub that loses it can't get it again",
				slog.String("event", "kept_too_short"), slog.String("topic", p.o.Topic), slog.Time("until", early.Until))
		}
	}
	return err
}
