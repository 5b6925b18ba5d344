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

// Run cuts and sends until ctx ends, and then returns nil. A disk that fails or is
// full is waited for, and told in the log and by Status. Run may be called again
// after it has returned; any other error says that the Publisher was closed.
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

// endure waits after an error of the disk, or of what is on it: what is to be done
// stays to be done. Its own error ends Run.
func (p *Publisher) endure(ctx context.Context, part string, err error) error {
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
		wait, end := p.due(time.Now(), quiet)
		if wait > 0 {
			p.troubles.Delete(partCutting) // Flush may have got over it
			clock.Wait(ctx, wait, p.cutter)
			continue
		}
		p.cutting.Lock()
		ok, err := p.cut(ctx, end)
		p.cutting.Unlock()
		if err := p.endure(ctx, partCutting, err); err != nil {
			return err
		}
		if ok {
			quiet = time.Now()
		}
	}
	return nil
}

// never is longer than anybody waits.
const never = 1000 * time.Hour

// due returns how long it is until the next cut, and with 0 where it ends: zero
// for right after the last change.
func (p *Publisher) due(now, quiet time.Time) (wait time.Duration, end time.Time) {
	s := p.box.outboxState()
	entries, bytes := p.limits()
	switch {
	case s.queued >= entries || s.queuedBytes+p.frameSize >= bytes:
		return 0, time.Time{}
	case s.queued > 0:
		if !p.awaited(s.Until) {
			return never, time.Time{} // who is behind gets more at once later
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

// awaited reports whether there is a hub that has got all up to until, or no hub
// at all.
func (p *Publisher) awaited(until time.Time) bool {
	for _, s := range p.senders {
		if _, stopped := s.stopped(); !stopped && s.has(until) {
			return true
		}
	}
	return len(p.senders) == 0
}

// has reports whether the hub has all up to until.
func (s *sender) has(until time.Time) bool {
	at := s.cursor().Until
	return !at.Before(until) || at.IsZero() && !s.p.box.outboxState().Begun
}

// trimEvery is how often old intervals are looked for.
const trimEvery = time.Minute

func (p *Publisher) runTrim(ctx context.Context) error {
	t := time.NewTicker(trimEvery)
	defer t.Stop()
	for {
		if err := p.endure(ctx, partTrimming, p.trim(ctx, time.Now())); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// trim notes what every hub has, and takes away of it what was acknowledged long
// enough ago, or takes too much room.
func (p *Publisher) trim(ctx context.Context, now time.Time) error {
	least := p.box.outboxState().Until
	for _, s := range p.senders {
		if at := s.cursor().Until; at.Before(least) {
			least = at
		}
	}
	err := p.box.do(ctx, func(tx *boltfile.Tx, s *outboxState) error { return recordDelivered(tx, s, least, now) })
	for n := maxTrim; err == nil && n == maxTrim; {
		var early interval
		n, early, err = p.box.trim(ctx, least, now.Add(-p.o.Keep), p.o.MaxStored/4*3)
		if !early.Until.IsZero() {
			p.o.Log.Warn("the outbox is nearly full: what every hub has went before its time, and a hub that loses it can't get it again",
				slog.String("event", "kept_too_short"), slog.String("topic", p.o.Topic), slog.Time("until", early.Until))
		}
	}
	return err
}
