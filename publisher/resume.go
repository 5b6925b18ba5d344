package publisher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/websub"
)

// Resume makes a stopped hub go on with the interval that begins at from, whatever it got
// before. It gets nothing of what lies between its watermark and from: the caller knows
// that the hub has that, or may skip it.
//
// A zero from is where it stopped, for a hub whose topic was reset. If from is later than
// all intervals, what is recorded before it is cut there, so that the next interval begins
// at from. Changes that are recorded afterwards get times from it on. If from is within an interval that
// the hub lacks, that is divided there for this hub. Otherwise the error names the instants around from at
// which an interval begins.
func (p *Publisher) Resume(ctx context.Context, hub string, from time.Time) error {
	n := slices.IndexFunc(p.senders, func(s *sender) bool { return websub.HubURL(s.hub.URL) == websub.HubURL(hub) })
	if n < 0 {
		return fmt.Errorf("%s is not a hub of this publisher; its hubs are %v", hub, p.o.Hubs)
	}
	s := p.senders[n]
	if from.IsZero() {
		return s.resume(ctx, from)
	}
	from = from.UTC()
	if !isStorable(from) {
		return fmt.Errorf("cannot resume from %s: use a time from 1970 to 2262", stamp(from))
	}
	if ahead := time.Until(from); ahead > MaxAhead {
		return fmt.Errorf("%s is %s in the future: no hub accepts an interval that ends there before then", stamp(from), ahead.Round(time.Second))
	}
	if err := p.cutAt(ctx, from); err != nil {
		return err
	}
	if !p.begins(from) {
		if err := p.divideAt(ctx, s.cursor().Until, from); err != nil && !errors.Is(err, errGone) {
			return err
		}
	}
	err := s.resume(ctx, from)
	if errors.Is(err, errNoBeginning) {
		before, after := p.around(from)
		return fmt.Errorf("no interval begins at %s; the nearest begin at %s and %s. Reset the topic at the hub, then resume with one of these",
			stamp(from), stamp(before), stamp(after))
	}
	return err
}

// errNoBeginning says that no interval begins at an instant, and that the next one will not do so either.
var errNoBeginning = errors.New("no interval begins there")

// MaxAhead is how far in the future hubs let an interval end: package validate says the same.
const MaxAhead = 5 * time.Minute

// cutAt cuts what is recorded so that an interval ends at from, if the last one ends
// before it.
func (p *Publisher) cutAt(ctx context.Context, from time.Time) error {
	p.cutting.Lock()
	defer p.cutting.Unlock()
	for p.box.outboxState().Until.Before(from) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := p.cut(ctx, from); err != nil {
			return err
		}
	}
	return nil
}

// around returns the beginnings of intervals next to an instant; the last one is
// where the next interval will begin.
func (p *Publisher) around(at time.Time) (before, after time.Time) {
	after = p.box.outboxState().Until
	_ = p.box.db.View(func(tx *boltfile.Tx) error { // it is only for a message
		for i := range intervalsFrom(tx, time.Time{}) {
			if i.From.After(at) {
				after = i.From
				break
			}
			before = i.From
		}
		return nil
	})
	return before, after
}

// resume moves the cursor and starts anew; a zero from: where the cursor is. The transaction that moves the cursor
// also looks for the interval, so that trim does not delete it in between.
func (s *sender) resume(ctx context.Context, from time.Time) error {
	s.p.moving.Lock()
	defer s.p.moving.Unlock()
	was := s.cursor().Until
	check := func(tx *boltfile.Tx, now *outboxState) error {
		if !now.Until.Equal(from) && len(beginningAt(tx, from)) == 0 {
			return errNoBeginning
		}
		return nil
	}
	if from.IsZero() {
		from, check = was, anywhere
	}
	err := s.set(ctx, hubCursor{Until: from}, check, func() {
		s.round++ // the result of a POST under way does not count any more
		s.last = HubStatus{}
		s.failures = 0
		s.ladder.Reset()
	})
	if err != nil {
		return err
	}
	s.wake.Broadcast()
	s.p.o.Log.Warn("the hub goes on where Resume said", slog.String("event", "hub_resumed"),
		slog.String("topic", s.p.o.Topic), slog.String("hub", s.hub.URL), slog.Time("watermark", was), slog.Time("from", from))
	return nil
}
